"""K10: what was never heard must not stay in the model's mind."""

from __future__ import annotations

from typing import Any

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    LateReply,
    Messages,
    PacedSpeaker,
    Received,
    Reply,
    Silence,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    STORY,
    TELL,
    Lines,
    next_question_is_answered,
    quiet,
    reconnected,
    require_true_record,
    told_of,
    words_heard,
)

TALK = {"default_reply": Lines()}
FIRST = Reply("Your parcel left the depot this morning on its way.")
SECOND = Reply("It will be with you before six tonight, I hope.")
HESITANT = Reply(STORY.text, pause_at_s=0.0, pause_s=3.0)
STALL_S = 2.0
OVERSHOOT_S = 0.1


@scenario(
    "openai-barge-in-before-the-first-sound",
    kind="K10",
    rule="R14",
    provider="openai",
    by_script=True,
    server={"default_reply": Lines({TELL: HESITANT})},
    mutants="openai-stopped-reply-is-truncated",
)
async def an_unheard_reply_is_not_truncated(stage: OpenAIStage) -> None:
    """A reply that the caller talks over before its first sound is never truncated."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    if stage.faulty:
        await stage.server.wait_for("response.content_part.added")
        await stage.rest(HESITANT.pause_s / 3)
    else:
        await stage.call.wait_heard(1.0)
    await next_question_is_answered(stage)
    heard = words_heard(stage, HESITANT)
    told = told_of(stage.server.session, HESITANT)
    stage.require(
        told == ([heard] if heard else []), f"the model knows {heard!r} of it, not {told}"
    )
    cuts = stage.server.recording.frames("conversation.item.truncate")
    stage.require(len(cuts) == bool(heard), "only what was heard is truncated")


def overshoot(speaker: PacedSpeaker) -> None:
    """Let the speaker report `OVERSHOOT_S` too much, as output clocks that run on do."""
    report = speaker.on_playback_finished

    def report_more(*, playback_position: float, **rest: Any) -> None:
        report(playback_position=playback_position + OVERSHOOT_S, **rest)

    speaker.on_playback_finished = report_more  # type: ignore[method-assign]


@scenario(
    "openai-truncate-beyond-the-audio",
    kind="K10",
    rule="R14",
    provider="openai",
    faults=[Fault(AtAudio(STALL_S, connection=1), Silence(0.2))],
    server={**TALK, "pace": None},  # in one burst, of which the fault takes all the rest
    mutants="openai-truncates-beyond-the-end",
)
async def nothing_is_truncated_beyond_its_end(stage: OpenAIStage) -> None:
    """A reply is never truncated at more than the audio that arrived, whatever the speaker says."""
    overshoot(stage.call.heard)
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.call.wait_heard(STALL_S)
    await next_question_is_answered(stage)
    received_ms = (STALL_S if stage.faulty else STORY.duration_s) * 1000
    cuts = stage.server.recording.frames("conversation.item.truncate")
    ends = [frame.message["audio_end_ms"] for frame in cuts]
    arrived = f"it is cut within the {received_ms:.0f} ms that arrived, not at {ends}"
    stage.require(all(end <= received_ms for end in ends), arrived)
    stage.require(len(told_of(stage.server.session, STORY)) == 1, "the reply stays known")


@scenario(
    "openai-message-never-played",
    kind="K10",
    rule="R14",
    provider="openai",
    faults=[Fault(Received("response.create", connection=1), LateReply(2.0))],
    server={"default_reply": Lines({TELL: Messages.of(FIRST.text, SECOND.text)})},
    mutants="openai-unplayed-message-stays",
)
async def a_message_that_was_not_played_is_deleted(stage: OpenAIStage) -> None:
    """When the caller cuts in during the first of two messages, the model forgets the second."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await stage.rest(4.0)
    await next_question_is_answered(stage)
    for part in (FIRST, SECOND):
        heard = words_heard(stage, part)
        told = told_of(stage.server.session, part)
        stage.require(
            told == ([heard] if heard else []), f"the model knows {heard!r} of it, not {told}"
        )
    stage.require(stage.server.recording.count("error") == 0, "the server refuses nothing")


@scenario(
    "openai-truncate-of-a-restored-item",
    kind="K10",
    rule="R14",
    provider="openai",
    faults=[Fault(AtAudio(6.0, connection=1), Abort())],
    server=TALK,
    mutants="openai-restored-item-is-not-corrected",
)
async def a_restored_reply_is_corrected(stage: OpenAIStage) -> None:
    """When the caller cuts into audio that outlived its connection, the restored text is
    corrected to what was heard, and nothing is sent that the server would refuse."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await reconnected(stage)
    await stage.call.wait_heard(2.0)
    await next_question_is_answered(stage)
    await quiet(stage)
    # The server may have cancelled the reply, at the caller's words, just before we do.
    refused = {e.message["error"]["code"] for e in stage.server.recording.events("error")}
    stage.require(refused <= {"response_cancel_not_active"}, f"it refuses nothing else: {refused}")
    require_true_record(stage, STORY)
