"""Test set-up shared by all suites: the vendored tree, and virtual time for those who ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

import vendoring

# An editable install does not rebuild when a patch changes; this is quick when nothing did.
vendoring.ensure()

from livekit.plugins.resilient.testing import virtual_time  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{virtual_time.VIRTUAL_TIME_MARK}: run this test on virtual time"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    marked = item.get_closest_marker(virtual_time.VIRTUAL_TIME_MARK) is not None
    return virtual_time.loop_factories(marked)
