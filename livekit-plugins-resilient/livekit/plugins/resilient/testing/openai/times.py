"""How long a real OpenAI Realtime server takes, and an instant one."""

from __future__ import annotations

from dataclasses import dataclass

from livekit.plugins.resilient.testing.times import ServerTimes, TimesName, chosen


@dataclass(frozen=True)
class OpenAITimes(ServerTimes):
    """Times of a server, in seconds. `tests/conformance/openai.toml` names their sources.

    The default of `item_s`, `pace` and those of transcripts are read off the recorded session of
    three spoken turns: its client sends a frame of microphone audio every 0.1 s, which stand
    between the server's events.

    Attributes:
        session_created_s: from the upgrade to `session.created`; what the client sends meanwhile
            waits. Assumed: nobody timed it.
        created_s: from `response.create`, or the end of an utterance, to `response.created`; 93 ms
            in a timed log.
        item_s: from `response.created` to the first item, a call's too; 0.2 to 0.3 recorded.
        first_audio_s: from `response.create` to the first audio; 0.52 in a timed log.
        pace: audio seconds sent per second; None sends a reply at once. 5 to 6 recorded.
        words_ahead_s: how far the transcript is ahead of the audio when it begins; 0.7 to 1.4
            recorded.
        words_pace: how much faster than the audio it goes on; 1.1 to 3 recorded.
        item_done_s: from the end of an item's audio to that of the item; 4 ms in a timed log.
        rate_limits_s: from `response.done` to `rate_limits.updated`; 30 ms in a timed log.
        caption_s: from `speech_started` to the first words of what the caller says, where the
            transcription model streams; 1.2 recorded.
        caption_every_s: between these words; 0.2 to 0.4 recorded.
        transcribed_s: from `response.created` to the whole of it; 0.5 to 1 in timed logs, and up
            to 35 was reported (bolna-ai/bolna#711).

    Raises:
        SettingError: a time is no finite number from 0, or `pace` or `words_pace` is not above it.
    """

    session_created_s: float = 0.1
    created_s: float = 0.093
    item_s: float = 0.25
    first_audio_s: float = 0.52
    pace: float | None = 5.0
    words_ahead_s: float = 0.8
    words_pace: float = 1.5
    item_done_s: float = 0.004
    rate_limits_s: float = 0.03
    caption_s: float = 1.2
    caption_every_s: float = 0.3
    transcribed_s: float = 0.75

    @property
    def sound_s(self) -> float:
        """From the first item to its first audio."""
        return max(0.0, self.first_audio_s - self.created_s - self.item_s)


RECORDED = OpenAITimes()
INSTANT = OpenAITimes(
    session_created_s=0.0,
    created_s=0.0,
    item_s=0.0,
    first_audio_s=0.0,
    pace=None,
    words_ahead_s=0.0,
    words_pace=1.0,
    item_done_s=0.0,
    rate_limits_s=0.0,
    caption_s=0.0,
    caption_every_s=0.0,
    transcribed_s=0.05,
)
"""All at once, but for the transcription, which then still comes after the response began."""


def times_of(given: OpenAITimes | TimesName) -> OpenAITimes:
    """The times by name, or the given ones.

    Raises:
        SettingError: neither; the message names what is allowed.
    """
    return chosen(given, RECORDED, INSTANT)
