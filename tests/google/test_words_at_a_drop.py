"""What a reply that goes on says of whether the server has taken the caller's words (R12)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from google.genai import types

from livekit.plugins.resilient.google.inbound import InboundEvents

AUDIO = types.LiveServerContent(
    model_turn=types.Content(
        parts=[types.Part(inline_data=types.Blob(data=bytes(4800), mime_type="audio/pcm"))]
    )
)


@pytest.mark.parametrize(
    ("spoke_at", "lost"),
    [(0.5, False), (1.5, False), (4.5, True), (5.05, True)],
    ids=["before the reply", "into it, and it went on", "just now", "after its last audio"],
)
def test_a_reply_that_goes_on_does_not_show_that_the_last_words_were_taken(
    spoke_at: float, lost: bool
) -> None:
    driver: Any = SimpleNamespace(
        now=1.0, heard_speech_at=spoke_at, speech_since=spoke_at, feed=lambda _: None
    )
    turns = InboundEvents(driver)
    turns.opened("reply", None, by_caption=False, works_unseen=False)
    while driver.now <= 5.0:
        turns.received("reply", AUDIO, takes_audio=True)
        driver.now += 0.1
    assert turns.words_lost(suspected=False) is lost
