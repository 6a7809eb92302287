"""Virtual time owes nothing to real time: a call goes the same way however the machine is busy.

Each call is played twice, the second time on a loop that is held up at random, beside a thread that
takes the interpreter in bursts. What was sent, heard and recorded is the same, and so is when.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from livekit.plugins.resilient.testing import virtual_time
from livekit.plugins.resilient.testing.virtual_time import VirtualTimeLoop

from .play import staged
from .registry import Scenario, catalogue

NAMES = (
    "gemini-drop-1011-mid-reply",
    "gemini-goaway-just-before-a-late-handle",
    "gemini-no-turn-complete-after-barge-in",
    "gemini-same-call-again-after-its-result",
    "openai-barge-in-on-a-silent-reply",
    "openai-half-said-question",
    "openai-redial-refused-twice",
    "openai-tool-result-unconfirmed",
)
"""Of each provider, calls with drops, barge-ins, tools and words across a gap."""

HELD_UP_S = 0.005
"""At most, at one look for I/O in ten; far longer than data takes from socket to socket."""

BURST_S = 0.02


async def observed(entry: Scenario) -> list[tuple[Any, ...]]:
    """Play a scenario; return what happened in it, with the times."""
    async with staged(entry, "ours", faults=True) as stage:
        async with stage.call as call:
            await entry.run(stage)
        recording = stage.server.recording
        # Gemini's audio is resampled with noise of its own, so that its samples are not compared.
        audio = (lambda pcm: len(pcm)) if entry.provider == "gemini" else bytes
        return [
            *(("dial", dial.at, dial.status) for dial in recording.handshakes),
            *(("close", close.at, close.code, close.by) for close in recording.closes),
            *(
                ("got", frame.at, frame.connection, frame.kinds, frame.texts, audio(frame.audio))
                for frame in recording.received
            ),
            *(
                ("sent", frame.at, frame.connection, frame.kinds, frame.audio)
                for frame in recording.sent
            ),
            *(("event", type(event).__name__, event.at) for event in call.events),
            *(("heard", part.spans, part.pcm) for part in call.heard.segments),
            *(("record", item.role, item.text) for item in call.history),
        ]


@contextmanager
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the loop up at random moments, and the interpreter in bursts."""
    chance, over = random.Random(1), threading.Event()
    select = virtual_time._JumpingSelector.select

    def late(self: Any, timeout: float | None = None) -> Any:
        if chance.random() < 0.1:
            time.sleep(chance.random() * HELD_UP_S)
        return select(self, timeout)

    def burst() -> None:
        pauses = random.Random(2)
        while not over.wait(pauses.random() * BURST_S):
            until = time.monotonic() + pauses.random() * BURST_S
            while time.monotonic() < until:
                pass

    thread = threading.Thread(target=burst, name="busy-machine")
    with monkeypatch.context() as patched:
        patched.setattr(virtual_time._JumpingSelector, "select", late)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _played(entry: Scenario) -> list[tuple[Any, ...]]:
    random.seed(0)  # the product spreads its redials at random
    return virtual_time.run(observed(entry))


@pytest.mark.parametrize("name", NAMES)
def test_a_call_goes_the_same_way_on_a_busy_machine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = catalogue()[name]
    before = _played(entry)
    with busy_machine(monkeypatch):
        after = _played(entry)
    for one, other in zip(before, after, strict=True):
        assert one == other


@pytest.mark.parametrize("leak", [time.monotonic, lambda: random.SystemRandom().random()])
def test_what_looks_at_real_time_is_found(
    leak: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above can fail."""
    advance = VirtualTimeLoop._advance
    entry = catalogue()[NAMES[-1]]
    before = _played(entry)
    monkeypatch.setattr(
        VirtualTimeLoop,
        "_advance",
        lambda loop, seconds: advance(loop, seconds + leak() % 1 * 1e-6),
    )
    assert _played(entry) != before
