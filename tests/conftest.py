"""Test set-up shared by all suites: the vendored tree, and the test bed's own pytest plugin."""

from __future__ import annotations

import sys
import warnings

import pytest

import vendoring

# An editable install does not rebuild when a patch changes; this is quick when nothing did.
vendoring.ensure()

# Loaded by name where the package is only on the path; installed, it is there already.
pytest_plugins = ("livekit.plugins.resilient_pytest",)

if sys.version_info < (3, 11):
    # Google's libraries announce that they will drop this version, when they are imported: by the
    # conftest files below this one, before pytest takes a filter that is added here.
    NOT_SUPPORTED = "You are using a non-supported Python version"
    warnings.filterwarnings("ignore", NOT_SUPPORTED, FutureWarning)


def pytest_configure(config: pytest.Config) -> None:
    if sys.version_info < (3, 11):
        config.addinivalue_line("filterwarnings", f"ignore:{NOT_SUPPORTED}:FutureWarning")
        # asyncio's TLS transports of that version do not notice that the peer has closed them.
        config.addinivalue_line(
            "filterwarnings", "ignore:unclosed transport <asyncio.sslproto:ResourceWarning"
        )
