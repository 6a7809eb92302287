"""How long a real Gemini Live server takes, and an instant one."""

from __future__ import annotations

from dataclasses import dataclass

from livekit.plugins.resilient.testing.times import ServerTimes, TimesName, chosen


@dataclass(frozen=True)
class GeminiTimes(ServerTimes):
    """Times of a server, in seconds. The defaults are those of recorded sessions (gemini-3.8-live
    and timed public logs; `tests/conformance/gemini.toml` names them).

    Attributes:
        set_up_s: from the set-up to its answer.
        handle_s: from that to the first handle.
        first_output_s: from the end of the caller's speech, a request or a tool's result to the
            first audio or call; 0.4 to 1.6 were recorded.
        stirs_s: how long before that the server shows the first sign of it, where it does.
        pace: audio seconds sent per second; None sends a reply at once.
        complete_s: from the last audio to `generationComplete`.
        left_s: seconds of the reply that are still to be played at `turnComplete`.

    Raises:
        SettingError: a time is no finite number from 0.
    """

    set_up_s: float = 0.8
    handle_s: float = 0.013
    first_output_s: float = 0.8
    stirs_s: float = 0.56
    pace: float | None = 4.0
    complete_s: float = 0.01
    left_s: float = 0.2


RECORDED = GeminiTimes()
INSTANT = GeminiTimes(
    set_up_s=0.0,
    handle_s=0.0,
    first_output_s=0.0,
    stirs_s=0.0,
    pace=None,
    complete_s=0.0,
    left_s=0.0,
)


def times_of(given: GeminiTimes | TimesName) -> GeminiTimes:
    """The times by name, or the given ones.

    Raises:
        SettingError: neither; the message names what is allowed.
    """
    return chosen(given, RECORDED, INSTANT)
