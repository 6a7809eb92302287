"""Test set-up shared by all suites: the vendored tree, the test bed's own pytest plugin, and that
a test fails in which the package logs an error."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator

import pytest

import vendoring
from tests.logged_errors import LoggedErrors
from vendoring.forks import Forks

# What is imported stays, so that to look for garbage in it is a tenth of a run's work.
gc.disable()

# An editable install does not rebuild when a patch changes; this is quick when nothing did.
vendoring.ensure()

# Loaded by name where the package is only on the path; installed, it is there already.
pytest_plugins = ("livekit.plugins.resilient_pytest",)

if sys.version_info < (3, 11):
    # Google's libraries announce that they will drop this version, when they are imported: by the
    # conftest files below this one, before pytest takes a filter that is added here.
    NOT_SUPPORTED = "You are using a non-supported Python version"
    warnings.filterwarnings("ignore", NOT_SUPPORTED, FutureWarning)


LOGS_ERRORS = "logs_errors"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{LOGS_ERRORS}(reason): the test has the package log an error, as it must"
    )
    if sys.version_info < (3, 11):
        config.addinivalue_line("filterwarnings", f"ignore:{NOT_SUPPORTED}:FutureWarning")
        # asyncio's TLS transports of that version do not notice that the peer has closed them.
        config.addinivalue_line(
            "filterwarnings", "ignore:unclosed transport <asyncio.sslproto:ResourceWarning"
        )


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Runs programs that have imported the libraries already, but no plugin and nothing of ours."""
    shared = ("pytest", "livekit.agents", "google.genai", "google.cloud.speech_v2")
    realtime = ("openai.types.realtime", "openai.types.beta.realtime")
    with Forks((*shared, *realtime, "google.cloud.texttospeech", "opentelemetry.sdk")) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_logged_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """A refused fact, or a decision that could not be carried out, fails the test.

    The call goes on over them, so nothing else may show it.
    """
    with LoggedErrors() as errors:
        yield
    mark = request.node.get_closest_marker(LOGS_ERRORS)
    if mark is None and errors.lines:
        pytest.fail("the package logged an error: " + "; ".join(errors.lines), pytrace=False)
    if mark is not None and not errors.lines:
        pytest.fail(f"the test logs no error and needs no mark {LOGS_ERRORS}", pytrace=False)
