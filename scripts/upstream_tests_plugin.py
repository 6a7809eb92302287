"""A pytest plugin for `upstream_tests`: swaps upstream's realtime classes, and notes outcomes.

Where UPSTREAM_TESTS_OURS is set, every name under which upstream has a realtime class, or a helper
of its module, leads to ours before a test module is imported, so that what a test patches in those
modules is what our classes use.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

import pytest

NO_CONSTRUCTOR = "builds a session without its constructor"

_OURS = "livekit.plugins.resilient"
_PUBLIC = ("RealtimeModel", "RealtimeSession")

# Upstream's module, what was vendored of it, and where our classes are.
_SWAPS = (
    ("livekit.plugins.google.realtime.realtime_api", "google.realtime_api", "google.realtime"),
    ("livekit.plugins.google.utils", "google.utils", None),
    ("livekit.agents.llm._realtime.openai_utils", "openai.utils", None),
    ("livekit.agents.llm._realtime.openai", "openai.realtime_model", "openai.realtime"),
    ("livekit.agents.inference.realtime.openai", "inference.realtime", "inference.realtime"),
)
# Modules that import names from those, loaded so that the names can be replaced there as well.
_HOLDERS = (
    "livekit.plugins.google",
    "livekit.plugins.openai.realtime",
    "livekit.agents.inference.realtime",
)

# By test: how it ended, and why it did not pass.
outcomes: dict[str, tuple[str, str]] = {}


def swap() -> None:
    """Put ours in the place of upstream's."""
    for holder in _HOLDERS:
        importlib.import_module(holder)
    replacements: dict[int, Any] = {}
    for upstream_name, vendored_name, ours_name in _SWAPS:
        upstream = importlib.import_module(upstream_name)
        vendored = importlib.import_module(f"{_OURS}._vendor.{vendored_name}")
        replacements[id(upstream)] = sys.modules[upstream_name] = vendored
        own = vars(importlib.import_module(f"{_OURS}.{ours_name}")) if ours_name else {}
        names = {name: own[name] for name in _PUBLIC if name in own}
        for name, value in vars(upstream).items():
            if getattr(value, "__module__", None) == upstream_name and hasattr(vendored, name):
                replacements[id(value)] = names.get(name, getattr(vendored, name))
        vars(vendored).update(names)
    # The one class of the plugin's own.
    plugin = importlib.import_module("livekit.plugins.openai.realtime.realtime_model")
    openai = importlib.import_module(f"{_OURS}.openai.realtime")
    replacements[id(plugin.RealtimeModel)] = openai.RealtimeModel
    for name, module in list(sys.modules.items()):
        if name.startswith("livekit.") and not name.startswith(_OURS):
            _redirect(module, replacements)


def _redirect(module: ModuleType, replacements: dict[int, Any]) -> None:
    for name, value in list(vars(module).items()):
        if id(value) in replacements:
            setattr(module, name, replacements[id(value)])


if os.environ.get("UPSTREAM_TESTS_OURS"):
    swap()


def _took_too_long(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError("the test took too long")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    signal.signal(signal.SIGALRM, _took_too_long)
    signal.alarm(int(os.environ.get("UPSTREAM_TESTS_TIMEOUT_S", "60")))
    try:
        yield
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        why = ""
        if report.failed and call.excinfo is not None:
            why = f"{call.excinfo.typename}: {call.excinfo.value}".splitlines()[0][:160]
            if lacks_constructor(call.excinfo.tb):
                why = f"{NO_CONSTRUCTOR} ({why})"
        outcomes[item.nodeid] = (report.outcome, why)
    return report


def lacks_constructor(traceback: TracebackType | None) -> bool:
    """Whether it failed in a method whose `self` our constructor never saw: a stand-in with a few
    attributes, or an instance by `__new__` alone."""
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_globals.get("__name__", "").startswith(_OURS):
            session = frame.f_locals.get("self")
            if type(session).__name__ in ("SimpleNamespace", "MagicMock", "Mock"):
                return True
            if type(session).__name__ == "RealtimeSession" and "_driver" not in vars(session):
                return True
        traceback = traceback.tb_next
    return False


def pytest_sessionfinish() -> None:
    if result := os.environ.get("UPSTREAM_TESTS_RESULT"):
        Path(result).write_text(json.dumps(outcomes), "utf-8")
