"""K3: what is tried again, how often, and what the application hears of it."""

from __future__ import annotations

from dataclasses import replace

from livekit.agents import APIConnectOptions

from livekit.plugins.resilient.core.limits import REDRIVE_AFTER_S
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    AtAudio,
    AtTime,
    Before,
    Close,
    FailResponse,
    Fault,
    HangHandshake,
    OnConnection,
    Received,
    Refuse,
    Reply,
    Send,
    Silence,
    UserStops,
)

from ..registry import scenario
from ..stage import OpenAIStage
from .steps import (
    GO_ON,
    STORY,
    TELL,
    Lines,
    next_question_is_answered,
    quiet,
    reconnected,
    times_heard,
    whole,
)

CUT = Fault(AtAudio(2.0, connection=1), Abort())
TALK = {"default_reply": Lines()}
ACCEPTED_S = 0.05
SERVED_S = 0.5  # a new connection has answered what it was told, and not yet what it is asked
# Longer than a session lives that is refused at once. A reply that is there at once is complete by
# then, or not, as the machine has it, and what was answered is told in full again.
THOUGHT_OVER = replace(GO_ON, first_token_s=0.5)
MOST_ITEMS = 5
EARLIER = [f"This is what I said {number} minutes ago." for number in range(8, 0, -1)]
IDLE_DROP_S = 5.0
BAD_LINE = "Say that the line was bad."
PARDON = Reply("The line was bad for a moment.")


def error(code: str, message: str) -> Send:
    """An `error` event that names no event of ours, as OpenAI often sends it."""
    body = {"type": "invalid_request_error", "code": code, "message": message}
    return Send({"type": "error", "event_id": "event_x", "error": {**body, "event_id": None}})


def refuses_the_replay(code: int, reason: str) -> list[Fault]:
    """From the second connection on, each is closed that is told more items than the server takes,
    for longer than an application waits."""
    one_too_many = MOST_ITEMS + 1
    return [
        Fault(
            Received("conversation.item.create", connection=number, nth=one_too_many),
            Close(code, reason),
        )
        for number in range(2, 40)
    ]


@scenario(
    "openai-redial-refused-twice",
    kind="K3",
    rule="R2",
    provider="openai",
    faults=[CUT, Fault(OnConnection(None, nth=2), Refuse(503), times=2)],
    server=TALK,
    mutants="one-redial-is-all",
)
@scenario(
    "openai-redial-refused-twice-xai",
    kind="K3",
    rule="R2",
    provider="openai",
    flavour="xai",
    faults=[CUT, Fault(OnConnection(None, nth=2), Refuse(503), times=2)],
    server=TALK,
    mutants="one-redial-is-all",
)
@scenario(
    "openai-redial-refused-eight-times",
    kind="K3",
    rule="R2",
    provider="openai",
    faults=[CUT, Fault(OnConnection(None, nth=2), Refuse(503), times=8)],
    server=TALK,
    mutants="one-redial-is-all",
)
@scenario(
    "openai-redial-hangs",
    kind="K3",
    rule="R2",
    provider="openai",
    faults=[CUT, Fault(OnConnection(2), HangHandshake())],
    server=TALK,
    mutants="openai-dial-may-take-for-ever",
)
@scenario(
    "openai-outage-of-14-s-xai",
    kind="K3",
    rule="R2",
    provider="openai",
    flavour="xai",
    faults=[
        CUT,
        Fault(OnConnection(2), HangHandshake()),
        Fault(OnConnection(3), HangHandshake(4.0)),
    ],
    server=TALK,
    mutants="openai-dial-may-take-for-ever",
)
async def the_call_outlives_an_outage(stage: OpenAIStage) -> None:
    """Redials that fail are followed by others until one succeeds."""
    await stage.call.generate_reply(instructions=TELL)
    await reconnected(stage)
    await quiet(stage)
    await next_question_is_answered(stage)


@scenario(
    "openai-accept-then-drop",
    kind="K3",
    rule="R2",
    provider="openai",
    faults=[CUT, Fault(AtTime(SERVED_S, nth=2), Abort(), times="always")],
    server=TALK,
    mutants="dial-alone-restores-the-budget",
)
async def endless_drops_are_given_up(stage: OpenAIStage) -> None:
    """A server that accepts, listens and drops for ever ends in one final error within the
    budget."""
    await stage.rest(1.0)
    await stage.call.generate_reply(instructions=TELL)
    if not stage.faulty:
        await next_question_is_answered(stage)
        return
    await ends_with_one_error(stage, within_s=75)
    stage.require(len(stage.server.dials()) <= 40, "no more than 40 dials in a minute")


@scenario(
    "openai-replay-invalid",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[CUT, *refuses_the_replay(1007, "invalid payload")],
    server=TALK,
    mutants="openai-refused-history-is-told-again",
)
@scenario(
    "openai-replay-too-big",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[CUT, *refuses_the_replay(1009, "message too big")],
    server=TALK,
    mutants="openai-refused-history-is-told-again",
)
async def a_refused_history_is_told_with_less_of_it(stage: OpenAIStage) -> None:
    """Where a server closes the connection on what it is told, it is told less, and the call
    goes on."""
    context = stage.call.agent.chat_ctx.copy()
    for line in EARLIER:
        context.add_message(role="user", content=line)
    await stage.call.agent.update_chat_ctx(context)
    await stage.call.generate_reply(instructions=TELL)
    await quiet(stage)
    await next_question_is_answered(stage)
    if stage.faulty:
        told = [stage.server.session.knows(line) for line in EARLIER]
        stage.require(told == sorted(told) and not told[0], "the oldest is left out")
        stage.require(told[-1], "the newest is told")
        stage.require(len(stage.server.dials()) <= 4, "each refusal costs one dial")
    recorded = [message.text_content for message in stage.call.session.history.messages()]
    await next_question_is_answered(stage)
    kept = [message.text_content for message in stage.call.session.history.messages()]
    stage.require(kept[: len(recorded)] == recorded, "the application's record stays as it is")


@scenario(
    "openai-refused-for-ever",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[CUT, Fault(AtTime(ACCEPTED_S, nth=2), Close(1007, "invalid payload"), times="always")],
    server={"default_reply": Lines(otherwise=THOUGHT_OVER)},
    mutants="openai-refusals-have-no-end",
)
async def endless_refusals_are_given_up(stage: OpenAIStage) -> None:
    """A server that refuses the session without its history too is not dialled for ever."""
    await stage.rest(1.0)
    await stage.call.generate_reply(instructions=TELL)
    if not stage.faulty:
        await next_question_is_answered(stage)
        return
    await ends_with_one_error(stage, within_s=30)
    stage.require(len(stage.server.dials()) <= 6, "each dial tells less than the one before")


@scenario(
    "openai-no-quota",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[Fault(Received("response.create"), FailResponse("quota", 0))],
    server=TALK,
    mutants="openai-final-error-is-tried-again",
)
@scenario(
    "openai-bad-key",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[Fault(OnConnection(None), Refuse(401), times="always")],
    server=TALK,
    mutants=("openai-bad-key-is-tried-again", "openai-final-error-is-tried-again"),
)
async def a_fatal_error_is_final(stage: OpenAIStage) -> None:
    """What no retry can cure ends the call at once, with one final error and its close event."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    if not stage.faulty:
        await stage.call.reply()
        await next_question_is_answered(stage)
        return
    await ends_with_one_error(stage, within_s=10)
    stage.require(len(stage.server.dials()) == 1, "it is dialled once")


async def ends_with_one_error(stage: OpenAIStage, *, within_s: float) -> None:
    """Wait for the final error and the close; require that nothing follows."""
    await stage.call.wait_error(recoverable=False, timeout_s=within_s)
    await stage.call.until(lambda: stage.call.closed, timeout_s=5, what="the session's close event")
    dials = len(stage.server.dials())
    await stage.rest(30)
    stage.require(stage.unrecoverable() == 1, "there is one final error")
    stage.require(len(stage.server.dials()) == dials, "nothing is dialled after the final error")


@scenario(
    "openai-takes-dials-and-answers-nothing",
    kind="K3",
    rule="R2",
    provider="openai",
    faults=[Fault(Before("response.created"), Silence(), times="always")],
    server=TALK,
    mutants="dial-alone-restores-the-budget",
)
async def gives_up_a_mute_server(stage: OpenAIStage) -> None:
    """A provider that is connected and never answers ends in one final error, within three
    minutes."""
    said = await stage.call.say(1.5)
    if not stage.faulty:
        await stage.call.reply(after=said.ended_at)
        return
    await stage.call.until(lambda: stage.call.closed, timeout_s=180, what="the end of the session")
    stage.require(len(stage.server.dials()) <= 8, "a few dials are enough")
    stage.require(stage.unrecoverable() == 1, "the session is told once that the model gave up")


@scenario(
    "openai-server-errors-in-a-row",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[
        Fault(UserStops(connection=1), FailResponse("server_error"), times="always"),
        Fault(
            Received("response.create", connection=1, nth=2),
            FailResponse("server_error"),
            times="always",
        ),
    ],
    server=TALK,
    mutants="openai-failing-session-is-kept",
)
async def a_broken_session_is_left(stage: OpenAIStage) -> None:
    """A session whose every response fails is replaced, and the question is answered there."""
    await stage.call.generate_reply(instructions=TELL)
    await stage.call.agent_done()
    stage.server.user_says("where is my parcel")
    await stage.ask(timeout_s=40)
    await quiet(stage)
    stage.require(stage.server.session.knows(STORY.text) == 1, "the model is told the history")
    stage.require(stage.server.session.knows("where is my parcel") == 1, "and the question")
    await next_question_is_answered(stage)


@scenario(
    "openai-rate-limit",
    kind="K3",
    rule="R12",
    provider="openai",
    faults=[Fault(UserStops(nth=1), FailResponse("rate_limit"))],
    server=TALK,
    mutants="failed-reply-is-waited-for",
)
@scenario(
    "openai-rate-limit-of-12-s",
    kind="K3",
    rule="R12",
    provider="openai",
    faults=[Fault(UserStops(nth=1), FailResponse("rate_limit", retry_in="12s"))],
    server=TALK,
    mutants="openai-rate-limit-is-not-read",
)
async def a_rate_limit_is_waited_out(stage: OpenAIStage) -> None:
    """A question that hit a rate limit is answered on the same connection, when the server has
    said or else a little later."""
    await stage.ask(timeout_s=30)
    await quiet(stage)
    if stage.faulty:
        limited_at = stage.server.recording.events("response.done")[0].at
        (asked,) = stage.server.recording.frames("response.create")
        wait_s = 12.0 if stage.scenario.name == "openai-rate-limit-of-12-s" else REDRIVE_AFTER_S
        waited_s = asked.at - limited_at
        stage.require(
            wait_s <= waited_s + 0.01 < wait_s + 0.2,
            f"it is asked for again after {wait_s} s, not {waited_s:.2f}",
        )
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    await next_question_is_answered(stage)


@scenario(
    "openai-rate-limits-of-250-ms",
    kind="K3",
    rule="R12",
    provider="openai",
    faults=[
        Fault(Received("response.create", nth=1), FailResponse("rate_limit", 3, retry_in="250ms"))
    ],
    server=TALK,
    mutants=("openai-rate-limit-is-not-read", "earlier-deadline-is-ignored"),
)
async def short_waits_are_kept_to_the_moment(stage: OpenAIStage) -> None:
    """A reply that is put off for a quarter of a second is asked for then, and not when we look
    next."""
    await stage.call.generate_reply(instructions=TELL, wait=False)
    await quiet(stage)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    limited = stage.server.recording.events("response.done")[:-1]
    asked = stage.server.recording.frames("response.create")[1:]
    if stage.faulty:
        waits = [round(again.at - ended.at, 2) for ended, again in zip(limited, asked, strict=True)]
        stage.require(len(waits) == 3, f"it is put off three times, not {len(waits)}")
        stage.require(all(0.24 < wait < 0.4 for wait in waits), f"each wait is 0.25 s: {waits}")
    await next_question_is_answered(stage)


@scenario(
    "openai-nothing-to-cancel",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[
        Fault(
            After("response.created"),
            error("response_cancel_not_active", "Cancellation failed: no active response found"),
        )
    ],
    server=TALK,
    mutants="openai-harmless-errors-surface",
)
@scenario(
    "openai-empty-commit",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[
        Fault(
            After("response.created"),
            error("input_audio_buffer_commit_empty", "Error committing input audio buffer."),
        )
    ],
    server=TALK,
    mutants="openai-harmless-errors-surface",
)
@scenario(
    "openai-response-already-active",
    kind="K3",
    rule="R3",
    provider="openai",
    faults=[
        Fault(
            After("response.created"),
            error(
                "conversation_already_has_active_response",
                "Conversation already has an active response in progress: resp_x.",
            ),
        )
    ],
    server=TALK,
    mutants="openai-harmless-errors-surface",
)
async def a_harmless_error_does_not_surface(stage: OpenAIStage) -> None:
    """An error that means nothing costs nothing, and the application does not hear of it."""
    await stage.call.generate_reply(instructions=TELL)
    stage.require_heard(whole(stage, STORY), "the reply is heard to its end")
    stage.require(stage.call.errors == [], "the session is told of no error")
    stage.require(len(stage.server.dials()) == 1, "the connection is kept")
    await next_question_is_answered(stage)


@scenario(
    "openai-application-reacts-to-the-drop",
    kind="K3",
    rule="R4",
    provider="openai",
    faults=[
        Fault(AtTime(IDLE_DROP_S, connection=1), Abort()),
        Fault(OnConnection(2), Refuse(503)),
    ],
    server={"default_reply": Lines(requests={BAD_LINE: PARDON})},
    model={"conn_options": APIConnectOptions(max_retry=3, retry_interval=7.0, timeout=10.0)},
    mutants="openai-error-comes-before-the-wait",
)
async def whoever_reacts_to_the_error_is_heard(stage: OpenAIStage) -> None:
    """A reply that the application asks for when it is told of a drop is spoken, once."""
    if stage.faulty:
        await stage.call.until(lambda: len(stage.call.errors) >= 2, what="two errors")
    handle = await stage.call.generate_reply(instructions=BAD_LINE)
    stage.require(handle.exception() is None, "the application's request is answered")
    await quiet(stage)
    stage.require_heard(whole(stage, PARDON), "the reply is heard to its end")
    stage.require_heard(times_heard(stage, PARDON) == 1, "the reply is heard once")
    if stage.faulty:
        early_s = stage.server.dials()[2].at - stage.call.errors[1].at
        stage.require(
            early_s < 0.1, f"the error comes as it is dialled, not {early_s:.1f} s before"
        )
    await next_question_is_answered(stage)
