"""The package's public names, and what it says when an optional library is missing."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient import testing
from vendoring.forks import Forks


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(testing, name) is not None
    assert name in dir(testing)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'GeminiServer'"):
        testing.GeminiServer  # noqa: B018


MISSING = """
import sys
sys.modules["trustme"] = None
from livekit.plugins.resilient import testing
import asyncio
try:
    asyncio.run(testing.GeminiLiveServer().start())
except testing.errors.MissingDependencyError as exc:
    print(exc)
"""


def test_a_missing_library_is_named_with_the_command(forks: Forks) -> None:
    done = forks.run(MISSING)
    assert "the library 'trustme'" in done.stdout, done.stderr
    assert "pip install livekit-plugins-resilient[testing]" in done.stdout


def test_importing_the_package_loads_no_server(forks: Forks) -> None:
    code = (
        "import sys; from livekit.plugins.resilient import testing; "
        "print('websockets.asyncio.server' in sys.modules, 'trustme' in sys.modules)"
    )
    done = forks.run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]
