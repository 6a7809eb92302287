"""The calls that were chosen begin with the first test that waits for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_clock.runner import Play, Runner


@pytest.fixture(scope="session")
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """Runs the calls of all tests of this session that have a parameter `play`."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    given = [spec.params.get("play") for spec in specs if spec is not None]
    with Runner(play for play in given if isinstance(play, Play)) as running:
        yield running
