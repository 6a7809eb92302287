"""What the OpenAI scenarios have in common: a model with fixed lines, and the two records that are
compared, what the caller heard and what the model was told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from livekit.agents.llm._realtime.openai_utils import _shorten_call_id

from livekit.plugins.resilient.testing import Reply, TurnRequest
from livekit.plugins.resilient.testing.openai.conversation import RATE, Item
from livekit.plugins.resilient.testing.openai.session import Session
from livekit.plugins.resilient.testing.script import Turn

from ..stage import OpenAIStage

STORY = Reply(
    "Your parcel left the depot this morning and will be with you before six tonight, "
    "unless the bridge over the river is still closed to heavy traffic by then."
)
ANSWER = Reply("Yes, I can hear you well.")
FORECAST = Reply("It will be sunny in Paris all day long.")
GO_ON = Reply("Sorry about that, let me go on.")

TELL = "Tell the caller where the parcel is."
QUESTION = "can you still hear me"
LEAST_HEARD_S = 0.2


@dataclass(frozen=True)
class Lines:
    """What the model says, by what it is asked, so that requests of the product's own do not
    shift the script.

    Attributes:
        requests: by a part of the request's instructions.
        questions: by what the caller said, heard now or found at the end of the history.
        result: after a tool's result.
        otherwise: to any other request.
    """

    requests: Mapping[str, Turn] = field(default_factory=lambda: {TELL: STORY})
    questions: Mapping[str, Turn] = field(default_factory=dict)
    result: Turn = FORECAST
    otherwise: Turn = GO_ON

    def __call__(self, asked: TurnRequest) -> Turn:
        if asked.tool_results:
            return self.result
        if asked.reason == "speech":
            return self.questions.get(asked.user_text, ANSWER)
        for fragment, turn in self.requests.items():
            if fragment in asked.user_text:
                return turn
        last = asked.knows[-1] if asked.knows else ""
        return self.questions.get(last, self.otherwise)


async def quiet(stage: OpenAIStage, seconds: float = 5.0) -> None:
    """Give the product time for what it may still owe, and let it finish speaking."""
    await stage.rest(seconds)
    await stage.call.agent_done()


def require_fault(stage: OpenAIStage) -> None:
    """What the scenario is about has happened: else its promise is kept by accident."""
    armed = stage.faulty and stage.scenario.faults
    stage.require(not armed or stage.server.recording.faults, "the fault has happened")


async def next_question_is_answered(
    stage: OpenAIStage, *, within_s: float = 20.0, averted: bool = False
) -> None:
    """The caller asks something new and hears the whole answer, once.

    `averted` says that the promise is to be gone before the fault.
    """
    before = times_heard(stage, ANSWER)
    stage.server.user_says(QUESTION)
    await stage.ask(timeout_s=within_s)
    stage.require_heard(whole(stage, ANSWER), "the next question is answered in full")
    stage.require_heard(times_heard(stage, ANSWER) == before + 1, "the next answer is heard once")
    if not averted:
        require_fault(stage)
    stage.require(stage.call.closed is None, "the session is still open")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")


async def reconnected(stage: OpenAIStage, *, timeout_s: float = 60.0) -> None:
    """Wait until a later connection than the first took the session's settings; in a control
    return at once."""
    if not stage.faulty:
        return
    updates = stage.server.recording.frames
    await stage.server.wait_until(
        lambda: any(frame.connection > 1 for frame in updates("session.update")),
        timeout_s=timeout_s,
        what="a new connection with the session's settings",
    )


def hang_up_the_microphone(stage: OpenAIStage) -> None:
    """Take the microphone away, so that a long silence costs nothing."""
    stage.call.session.input.audio = None


# What the caller heard -----------------------------------------------------------------------


def heard_of(stage: OpenAIStage, item: Item) -> float:
    """Seconds of a generated item that the caller heard, by its samples."""
    longest = 0
    for segment in stage.call.heard.segments:
        size = min(len(segment.pcm), len(item.pcm))
        if segment.pcm[:size] == item.pcm[:size]:
            longest = max(longest, size)
    return longest / 2 / RATE


def spoken_items(stage: OpenAIStage, reply: Reply) -> list[Item]:
    """The items in which the model said `reply` or its beginning, over all connections."""
    return [
        item
        for session in stage.server.sessions
        for item in session.items
        if item.pcm and item.role == "assistant" and reply.text.startswith(item.text)
    ]


def times_heard(stage: OpenAIStage, reply: Reply) -> int:
    """How many times the caller heard the beginning of `reply`."""
    return sum(heard_of(stage, item) >= LEAST_HEARD_S for item in spoken_items(stage, reply))


def heard_s(stage: OpenAIStage, reply: Reply) -> float:
    """The most that the caller heard of `reply` at one time, in seconds."""
    return max((heard_of(stage, item) for item in spoken_items(stage, reply)), default=0.0)


def whole(stage: OpenAIStage, reply: Reply) -> bool:
    """Whether the caller heard `reply` to its end."""
    return heard_s(stage, reply) >= reply.duration_s - 0.001


def words_heard(stage: OpenAIStage, reply: Reply) -> str:
    """The words of `reply` that the caller heard to their end."""
    return reply.words_until(heard_s(stage, reply))


# What the model was told ---------------------------------------------------------------------


def told_of(session: Session, reply: Reply) -> list[str]:
    """What a session holds of `reply`: the assistant's texts that are a beginning of it."""
    return [text for text in session.texts("assistant") if text and reply.text.startswith(text)]


def require_true_record(stage: OpenAIStage, reply: Reply) -> None:
    """The newest session holds exactly the words of `reply` that the caller heard, once."""
    told, heard = told_of(stage.server.session, reply), words_heard(stage, reply)
    stage.require(told == [heard], f"the model is told what was heard: {heard!r}, not {told}")


def answered_calls(session: Session) -> list[tuple[str, str]]:
    """Kind and call id of a session's calls and results, in order, as `call_id_of` gives it."""
    return [(item.kind, call_id_of(item.call_id)) for item in session.items if item.call_id]


def call_id_of(call_id: str) -> str:
    """A call's id as upstream answers it: those of xAI are too long for OpenAI."""
    return _shorten_call_id(call_id)
