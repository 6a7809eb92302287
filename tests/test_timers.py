"""That whatever waits for a time waits by the timer of its session.

What asyncio offers does not know of a blocked loop (R23), and before Python 3.12 `asyncio.wait_for`
swallows a cancellation that comes together with what it waits for: a line that was cut is then
noticed late, and dialled twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from livekit.plugins import resilient

PACKAGE = Path(resilient.__file__).parent

TIMER = "runtime/timer.py"
"""Where the loop's own timers may be armed."""

# What waits by the loop all the same, and why; an entry that nothing needs any more fails.
STILL = {
    ("google/live_connection.py", "wait_for"): "a socket is closed, whatever the server answers",
    ("google/live_session.py", "wait_for"): "a socket is closed, whatever the server answers",
    ("openai/standby.py", "wait"): "a socket is closed, after what the server said last",
    ("openai/websocket.py", "sleep"): "of 0 s: a coroutine is to run up to where it waits",
    ("openai/websocket.py", "wait"): "a task is ended within the second that hanging up may take",
    ("openai/websocket.py", "wait_for"): "a socket is closed, whatever the server answers",
    ("runtime/runner.py", "wait"): "a task is ended that may have swallowed its cancellation",
}

MAKES = "runtime/driver.py"
"""Who makes the timer of a session."""

_TIMED = frozenset({"sleep", "wait_for", "timeout", "timeout_at", "call_later", "call_at"})
# Others have methods of these names.
_OF_MODULES = frozenset({"sleep", "wait_for", "timeout", "timeout_at", "wait"})


def waits(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and name of each wait that the event loop, or the process, is to end by time."""
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("asyncio", "time")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in _OF_MODULES and of not in ("asyncio", "time"):
                continue
            name = node.attr
        elif isinstance(node, ast.Name):
            name = imported.get(node.id, "")
        else:
            continue
        if name in _TIMED:
            yield node.lineno, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(k.arg == "timeout" for k in node.keywords):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ""
            if isinstance(called, ast.Name):
                name = imported.get(called.id, "")
            if name == "wait":
                yield node.lineno, name


def makes_timer(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Timer"
        for node in ast.walk(tree)
    )


def ours() -> dict[str, ast.AST]:
    return {
        file: ast.parse(path.read_text("utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (file := path.relative_to(PACKAGE).as_posix()).startswith(("_vendor/", "testing/"))
    }


def test_whatever_waits_for_a_time_waits_by_the_timer_of_its_session() -> None:
    found = {(file, name): line for file, tree in ours().items() for line, name in waits(tree)}
    armed = {key: line for key, line in found.items() if key[0] != TIMER}
    assert {key: line for key, line in armed.items() if key not in STILL} == {}
    assert sorted(STILL.keys() - armed.keys()) == [], "needed no more"
    assert (TIMER, "call_at") in found


def test_a_session_has_one_timer() -> None:
    makers = {file for file, tree in ours().items() if makes_timer(tree)}
    assert makers == {MAKES}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("await asyncio.sleep(1.0)", ["sleep"]),
        ("await asyncio.sleep(0)", ["sleep"]),
        ("await asyncio.wait_for(task, 1.0)", ["wait_for"]),
        ("async with asyncio.timeout(1.0): ...", ["timeout"]),
        ("async with asyncio.timeout_at(at): ...", ["timeout_at"]),
        ("await asyncio.wait({task}, timeout=1.0)", ["wait"]),
        ("loop.call_later(1.0, call)", ["call_later"]),
        ("asyncio.get_running_loop().call_at(at, call)", ["call_at"]),
        ("later = loop.call_later", ["call_later"]),
        ("time.sleep(1.0)", ["sleep"]),
        ("from asyncio import sleep\nawait sleep(1.0)", ["sleep"]),
        ("from asyncio import wait as until\nawait until({task}, timeout=1.0)", ["wait"]),
        ("from time import sleep as rest\nrest(1.0)", ["sleep"]),
        # without a time, or by ours
        ("await asyncio.wait({task})", []),
        ("await started.wait()", []),
        ("await awake.sleep(1.0, timer)", []),
        ("timer.at(at, call)", []),
        ("loop.call_soon(call)", []),
        ("await connect(timeout=1.0)", []),
        ("def timeout(self): return self.timeout", []),
    ],
)
def test_what_counts_as_waiting(code: str, names: list[str]) -> None:
    tree = ast.parse("async def f():\n" + "\n".join(f"    {line}" for line in code.split("\n")))
    assert [name for _, name in waits(tree)] == names
