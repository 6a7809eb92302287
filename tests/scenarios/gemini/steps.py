"""What the Gemini scenarios ask about what the model was told."""

from __future__ import annotations

from livekit.plugins.resilient.testing import Reply

from ..stage import GeminiStage

FIRST_WORDS = 3


def told_of(stage: GeminiStage, reply: Reply) -> list[str]:
    """What the newest session's model knows as its own words of `reply`: texts that begin it."""
    first = " ".join(reply.text.split()[:FIRST_WORDS])
    return [text for text in stage.server.session.texts("model") if text.startswith(first)]


def requests_sent(stage: GeminiStage, connection: int) -> list[str]:
    """The texts by which a connection was asked for a reply, one for each time."""
    return [
        "\n".join(frame.texts)
        for frame in stage.server.recording.frames("clientContent", connection)
        if frame.message["clientContent"].get("turnComplete")
    ]
