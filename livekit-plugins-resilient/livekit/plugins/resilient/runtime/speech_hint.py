"""Whether a microphone frame sounds like speech, by its energy: a hint, never a proof (R17)."""

from __future__ import annotations

from collections import deque

import numpy as np
from livekit import rtc

__all__ = ["HINT_LASTS_S", "SpeechHint"]

LEVEL = 500.0
"""RMS, of 16-bit samples, above which a frame counts: some -36 dBFS, between the noise floor of a
phone line and quiet speech. Source: our choice. Date: 2026-11."""

LOOK_EVERY_S = 0.1
"""Seconds of audio between two looks; speech lasts longer, and most frames then cost nothing.
Source: our choice. Date: 2026-11."""


LOOKS, LOUD_LOOKS = 5, 3
"""Of the last five looks three must be loud: 0.3 s in half a second tell speech from a click.
Source: our choice. Date: 2026-11."""

HINT_LASTS_S = LOOKS * LOOK_EVERY_S
"""Seconds after a hint within which speech is still under way: what it was taken from. Source: the
two above. Date: 2026-11."""


class SpeechHint:
    """Looks at one frame in every tenth of a second."""

    def __init__(self) -> None:
        self._skipped_s = LOOK_EVERY_S
        self._looks = deque([False] * LOOKS, maxlen=LOOKS)

    def is_speech(self, frame: rtc.AudioFrame) -> bool:
        """Whether this frame was looked at and, with those before it, sounds like speech."""
        self._skipped_s += frame.samples_per_channel / frame.sample_rate
        if self._skipped_s < LOOK_EVERY_S:
            return False
        self._skipped_s = 0.0
        samples = np.frombuffer(frame.data, dtype=np.int16).astype(np.float32)
        self._looks.append(samples.size > 0 and float(np.mean(samples * samples)) > LEVEL**2)
        return self._looks[-1] and sum(self._looks) >= LOUD_LOOKS
