"""A call that outlives six connections keeps its context, and its caller notices none of them.

Real connections last ten minutes; here one, so that six lifetimes pass in a few seconds. Each
lifetime has a drop at another bad moment, a tool, a caller who cuts in, and ends by GoAway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.events import (
    ContinuationRejected,
    Disconnected,
    GoAwayReceived,
    HandedOver,
    RedriveDecided,
    ResilienceEvent,
)
from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    CallAgent,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    Received,
    Reply,
    ToolCall,
    TurnRequest,
)

LIFETIME_S = 42.0
NOTICE_S = 10.0
TOOL_S = 1.5
GREETING = Reply("Welcome to the line, what can I do for you?")
TOPICS = ("opening", "delivery", "payment", "returns", "repairs", "warranty")


def answer(request: TurnRequest) -> Reply | ToolCall:
    """A line that names what it answers, so that each can be told from every other."""
    topic = request.user_text.rpartition(" ")[2]
    match request.reason:
        case "speech" if request.user_text.startswith("weather"):
            return ToolCall("get_weather", {"city": topic})
        case "speech":
            return Reply(f"{topic.title()} is what you ask about, and all of it is well with us.")
        case "tool_result":
            return Reply("That is what they have told me of the weather there.")
        case _:
            return Reply("Where were we, let me go on from there.")


def sky_over(city: str) -> str:
    return f"cloudless over {city}"


class Caller:
    """Talks through one lifetime after another."""

    def __init__(self, call: HeadlessCall, server: GeminiLiveServer) -> None:
        self.call = call
        self.server = server
        self.said: list[str] = []

    def means(self, text: str) -> None:
        self.said.append(text)
        self.server.user_says(text)

    async def asks(self, text: str) -> None:
        """Ask, and hear the answer out, however it comes."""
        self.means(text)
        said = await self.call.say(1.0)
        await self.call.reply(after=said.ended_at, timeout_s=20)
        await self.call.agent_done()

    async def asks_and_hears_begin(self, text: str, heard_s: float) -> None:
        self.means(text)
        await self.call.say(1.0)
        await self.call.wait_heard(heard_s)

    async def cuts_in(self, topic: str) -> None:
        await self.asks_and_hears_begin(f"first about cut-{topic}", 0.8)
        await self.asks(f"but rather about new-{topic}")

    # --- the bad moments -----------------------------------------------------------------------

    async def drop_between_turns(self, topic: str) -> None:
        await self.server.do(Abort())
        await self.rests(2.0)
        await self.asks(f"weather in {topic}")

    async def drop_in_mid_reply(self, topic: str) -> None:
        await self.asks_and_hears_begin(f"tell me of long-{topic}", 1.5)
        await self.server.do(Abort())
        await self.call.until(
            lambda: sum("Where were we" in text for text in self.call.agent_texts()),
            what="the rest of the reply",
        )
        await self.call.agent_done()
        await self.asks(f"weather in {topic}")

    async def drop_while_a_tool_runs(self, topic: str) -> None:
        self.means(f"weather in {topic}")
        runs = len(self.call.tools)
        said = await self.call.say(1.0)
        await self.call.until(lambda: len(self.call.tools) > runs, what="the tool")
        await self.server.do(Abort())
        await self.call.reply(after=said.ended_at, timeout_s=20)
        await self.call.agent_done()

    async def drop_with_the_result(self, topic: str) -> None:
        self.server.inject(
            Fault(Received("toolResponse", connection=len(self.server.dials())), Abort())
        )
        await self.asks(f"weather in {topic}")

    async def drop_while_the_caller_speaks(self, topic: str) -> None:
        self.means(f"the end of said-{topic}")
        utterance = self.call.mic.say(2.5)
        await self.rests(1.0)
        await self.server.do(Abort())
        await utterance.wait()
        await self.call.reply(after=utterance.ended_at, timeout_s=20)
        await self.call.agent_done()
        await self.asks(f"weather in {topic}")

    async def drop_after_cutting_in(self, topic: str) -> None:
        await self.asks_and_hears_begin(f"slowly about left-{topic}", 0.8)
        self.means(f"quickly about right-{topic}")
        heard = self.server.recording.count("inputTranscription")
        await self.call.say(1.0)
        await self.server.wait_for("inputTranscription", count=heard + 1)
        await self.server.do(Abort())
        await self.call.reply(timeout_s=20)
        await self.call.agent_done()
        await self.asks(f"weather in {topic}")

    async def rests(self, seconds: float) -> None:
        until = self.call.now + seconds
        while (left_s := until - self.call.now) > 0:
            await self.call.changes.wait(left_s)

    async def moves_on(self, notices: int) -> None:
        """Chat until the connection is announced to end, and has been left."""
        await self.server.wait_for("goAway", count=notices, timeout_s=LIFETIME_S)
        leaving = self.server.recording.events("goAway")[-1].connection
        await self.server.wait_for("close", connection=leaving, timeout_s=NOTICE_S)


@pytest.mark.virtual_time
async def test_a_call_over_six_connections() -> None:
    events: list[ResilienceEvent] = []
    async with GeminiLiveServer(
        [GREETING],
        default_reply=answer,
        family="3.1",
        strict=True,
        pace=1.5,
        connection_limit_s=LIFETIME_S,
        go_away_notice_s=NOTICE_S,
    ) as server:
        model = RealtimeModel(
            **server.model_kwargs(resilience=ResilienceOptions(on_event=events.append))
        )
        agent = CallAgent(weather=sky_over, tool_delay_s=TOOL_S)
        async with HeadlessCall(model, agent=agent) as call:
            caller = Caller(call, server)
            drops: list[Callable[[str], Awaitable[None]]] = [
                caller.drop_between_turns,
                caller.drop_in_mid_reply,
                caller.drop_while_a_tool_runs,
                caller.drop_with_the_result,
                caller.drop_while_the_caller_speaks,
                caller.drop_after_cutting_in,
            ]
            await call.generate_reply(instructions="Greet the caller.")
            for number, (topic, drop) in enumerate(zip(TOPICS, drops, strict=True), start=1):
                await caller.asks(f"a question about {topic}")
                await drop(topic)
                await caller.cuts_in(topic)
                await caller.moves_on(number)
            await caller.asks("a last question about everything")

            session = server.session
            known = {text: session.knows(text) for text in caller.said}
            assert known == dict.fromkeys(caller.said, 1), "what the caller said is known once"
            results = [sky_over(topic) for topic in TOPICS]
            assert {text: session.knows(text) for text in results} == dict.fromkeys(results, 1)
            begun = [text.split()[0] for text in call.agent_texts()]
            assert len(begun) > 3 * len(TOPICS)
            known_of_agent = [text.split()[0] for text in session.texts("model") if text[0] != "{"]
            assert known_of_agent == begun, "what the agent said is known once, in order"
            assert sum(text.startswith("Welcome") for text in call.agent_texts()) == 1
            assert len(call.tools) == len(TOPICS), "each tool ran once"

        assert call.closed is None or call.closed.error is None
    assert all(error.recoverable for error in call.errors)
    assert call.leftover_tasks() == []

    def count(kind: type[ResilienceEvent]) -> int:
        return sum(isinstance(event, kind) for event in events)

    assert count(GoAwayReceived) == count(HandedOver) == len(TOPICS)
    assert count(Disconnected) == len(TOPICS)
    assert count(ContinuationRejected) == 0
    assert count(RedriveDecided) <= len(TOPICS), "what need not be asked for is not"
    greetings = [text for text in server.recording.texts_sent() if "Greet" in text]
    assert len(greetings) == 1, "the request for a greeting is sent once"
