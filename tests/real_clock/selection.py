"""Which calls of other suites are also played on the real clock.

Virtual time stands still while our code runs, so two looks at the clock are one, what is sent has
arrived, and a dial takes no time. The fastest scenario of each kind shows whether a rule lives on
that. To measure again which those are: `python -m tests.real_clock.selection`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from livekit.plugins.resilient.testing import virtual_time
from tests.real_clock.runner import Run
from tests.scenarios.play import play
from tests.scenarios.registry import Scenario, catalogue

FASTEST = (
    "gemini-drop-1000-mid-reply",  # 6.8 s
    "gemini-goaway-just-before-a-late-handle",  # 8.5 s
    "gemini-malformed-json",  # 7.3 s
    "gemini-difference-with-a-tool",  # 33.9 s
    "gemini-model-goes-on-by-itself",  # 27.3 s
    "gemini-drop-before-the-result-is-ready",  # 9.1 s
    "gemini-same-call-again-after-its-result",  # 14.1 s
    "gemini-no-turn-complete-after-barge-in",  # 10.0 s
    "gemini-drop-with-a-request-pending",  # 17.6 s
    "gemini-barge-in-after-a-drop",  # 6.4 s
    "gemini-microphone-before-a-1007",  # 15.9 s
    "gemini-unknown-message",  # 7.3 s
    "gemini-hang-up-while-a-tool-runs",  # 31.9 s
    "openai-reconnected-and-silent",  # 13.1 s
    "openai-session-cap-without-error",  # 18.4 s
    "openai-redial-refused-twice",  # 10.1 s
    "openai-replay-as-heard-azure",  # 9.9 s
    "openai-tool-result-unconfirmed",  # 12.1 s
    "openai-same-call-on-two-connections",  # 12.1 s
    "openai-barge-in-on-a-silent-reply",  # 4.1 s
    "openai-request-withdrawn-while-down",  # 16.1 s
    "openai-barge-in-before-the-first-sound",  # 4.1 s
    "openai-half-said-question",  # 13.2 s
    "openai-hang-up-during-the-redial",  # 33.0 s
)
"""The fastest scenario of each kind and provider, in seconds of its call on virtual time; the
first by name where several are."""

XAI = ("openai-reconnected-and-silent-xai", "openai-line-cut-xai")
"""The same engine with another provider's plugin: a cut reply, and a cut line of the application's
own."""

BESIDE = ("gemini-request-gets-nothing",)
"""What two connections at a time make of a clock that runs."""

LOADED_KINDS = ("K1", "K8", "K10", "K11")
"""Of these kinds it is also played on a loaded loop: connections, replies, record, microphone."""


def scenarios(kinds: Iterable[str] | None = None) -> list[tuple[str, Run]]:
    """The chosen scenarios with their faults and our model, of all kinds or the named."""
    every = catalogue()
    chosen = [every[name] for name in (*FASTEST, *XAI, *BESIDE)]
    return [
        (entry.name, partial(play, entry, "ours", faults=True))
        for entry in chosen
        if kinds is None or (entry.kind in kinds and entry.name in FASTEST)
    ]


def _seconds(entry: Scenario) -> float:
    async def measure() -> float:
        began_at = asyncio.get_running_loop().time()
        await play(entry, "ours", faults=True)
        return asyncio.get_running_loop().time() - began_at

    return virtual_time.run(measure())


def _measure() -> None:
    logging.disable()
    fastest: dict[tuple[str, str], tuple[float, str]] = {}
    for entry in catalogue().values():
        if not entry.waits_for:
            kind = entry.provider, entry.kind
            # Equal calls differ by rounding.
            found = round(_seconds(entry), 2), entry.name
            fastest[kind] = min(found, fastest.get(kind, found))
    for seconds, name in fastest.values():
        print(f'    "{name}",  # {seconds:.1f} s')


if __name__ == "__main__":
    _measure()
