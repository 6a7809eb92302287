"""What messages look like and what is sent unasked, by model family, as recorded sessions show it.

`tests/conformance/gemini.toml` names the recording for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Dialect:
    """How one family speaks.

    Attributes:
        name: "2.5", "3.1", "3.8" or "vertex".
        frame_s: seconds of audio in one message.
        caption_burst_s: captions come in bursts, each with the words of so many seconds of audio,
            just before these; None: the whole caption comes before any audio.
        packs_parts: whether a message may hold audio and caption together.
        caller_caption: whether the caption of the caller's words comes in pieces or whole.
        voice_activity: how the server says that it hears the caller begin and end: not at all, in
            a message of its own, or in one with an empty `serverContent`.
        thinks_aloud: whether a thought comes before a turn that is not about a tool.
        empty_messages: whether messages with nothing in them come between those of a turn.
        empty_content: whether a message with an empty `serverContent` comes before the output.
        names_role: whether audio says that it is the model's.
        mime_type: of audio.
        call_id: form of call ids: "function-call-" and digits, 22 letters, or a UUID.
        session_id: whether the set-up's answer names the session.
        marks_captions: whether a caption is begun by an empty one, and ended by `finished`.
        ends_tool_turns: whether the turn of a tool call has an end of its own, before the answer
            to the result begins another.
        grounding: whether `turnComplete` brings empty `groundingMetadata` along.
        unasked_handle: when a handle comes that the client did not ask for.
        announces_busy: whether a turn that begins makes the session not resumable. No recording
            shows it; ai.google.dev says that a session may be so while it generates, and Vertex was
            seen to be always resumable.
        usage: name of the answer's token counts, without "TokenCount".
    """

    name: str
    frame_s: float
    caption_burst_s: float | None
    packs_parts: bool
    caller_caption: Literal["pieces", "whole"]
    voice_activity: Literal["alone", "with_content"] | None = None
    thinks_aloud: bool = False
    empty_messages: bool = False
    empty_content: bool = False
    names_role: bool = False
    mime_type: str = "audio/pcm;rate=24000"
    call_id: Literal["numbered", "letters", "uuid"] = "letters"
    session_id: bool = False
    marks_captions: bool = False
    ends_tool_turns: bool = False
    grounding: bool = False
    unasked_handle: Literal["after_setup", "after_result"] | None = None
    announces_busy: bool = False
    usage: Literal["response", "candidates"] = "response"


V2_5 = Dialect(
    name="2.5",
    frame_s=0.04,
    caption_burst_s=0.4,
    packs_parts=False,
    caller_caption="pieces",
    thinks_aloud=True,
    call_id="numbered",
    announces_busy=True,
)
V3_1 = Dialect(
    name="3.1",
    frame_s=0.2,
    caption_burst_s=0.6,
    packs_parts=True,
    caller_caption="whole",
    voice_activity="with_content",
    empty_content=True,
    unasked_handle="after_result",
)
V3_8 = Dialect(
    name="3.8",
    frame_s=0.2,
    caption_burst_s=1.2,
    packs_parts=True,
    caller_caption="whole",
    voice_activity="alone",
    empty_messages=True,
    empty_content=True,
    names_role=True,
    unasked_handle="after_setup",
)
VERTEX = Dialect(
    name="vertex",
    frame_s=0.2,
    caption_burst_s=None,
    packs_parts=False,
    caller_caption="whole",
    names_role=True,
    mime_type="audio/pcm",
    call_id="uuid",
    session_id=True,
    marks_captions=True,
    ends_tool_turns=True,
    grounding=True,
    usage="candidates",
)
