"""A fresh session that is prepared beside the one that serves takes over, or leaves no trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.genai import types
from livekit.agents import llm

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.core.limits import COVERAGE_GRACE_S
from livekit.plugins.resilient.events import ToolResultRedelivered
from livekit.plugins.resilient.google import connection as connecting
from livekit.plugins.resilient.google.history import SeedForm
from livekit.plugins.resilient.google.live_connection import LiveConnection, dial
from livekit.plugins.resilient.google.realtime import RealtimeModel, RealtimeSession
from livekit.plugins.resilient.google.seed import Seed
from livekit.plugins.resilient.testing import (
    Abort,
    Fault,
    GeminiLiveServer,
    NoHandle,
    OnConnection,
    Reply,
    ToolCall,
)

pytestmark = pytest.mark.virtual_time

RESULT = "cloudless"
STORY = Reply("Once upon a time there was a caller who listened to a long story to its very end.")
AFTER_GRACE_S = COVERAGE_GRACE_S + 0.1


@dataclass
class Beside:
    """A connection that nobody hears."""

    seed: Seed
    connection: LiveConnection
    reading: asyncio.Task[None] | None = None
    answering: bool = False

    def read_along(self) -> None:
        """Keep the handles that it is issued, as whoever prepares it must."""
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self.connection.live.receive():
            self.seed.take_handle(message)

    async def drop(self) -> None:
        await self.stop_reading()
        await self.connection.close()

    async def stop_reading(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            await asyncio.gather(self.reading, return_exceptions=True)


@dataclass
class Stage:
    server: GeminiLiveServer
    session: RealtimeSession
    events: list[Any]
    taking_over: list[Beside] = field(default_factory=list)

    async def say(self, *texts: str) -> None:
        """The application adds words of the caller to the conversation."""
        record = self.session.chat_ctx.copy()
        for text in texts:
            record.add_message(role="user", content=text)
        await self.session.update_chat_ctx(record)
        await asyncio.sleep(0.05)

    async def call_a_tool(self) -> llm.FunctionCall:
        called = await self.session.generate_reply(instructions="Tell the weather.")
        (call,) = [call async for call in called.function_stream]
        return call

    async def give_result(self, call: llm.FunctionCall, output: str = RESULT) -> None:
        record = self.session.chat_ctx.copy()
        if record.get_by_id(call.id) is None:
            record.insert(call)
        result = {"call_id": call.call_id, "name": call.name, "output": output, "is_error": False}
        record.items.append(llm.FunctionCallOutput(**result))  # type: ignore[arg-type]
        await self.session.update_chat_ctx(record)
        await asyncio.sleep(0.05)

    async def prepare(self) -> Beside:
        session = self.session
        seed = session._parts.mirror.fresh()
        config = session._build_connect_config()
        seed.announce(config)
        connection = await dial(session._client, session._opts.model, config)
        await seed.tell(connection.live)
        beside = Beside(seed, connection)
        beside.read_along()
        await asyncio.sleep(0.05)  # so that the server has it all
        return beside

    async def take_over(self, beside: Beside, *, answering: bool = False) -> None:
        """Let it be what the runner is given when the connection that serves is gone."""
        await beside.stop_reading()
        beside.answering = answering
        self.taking_over.append(beside)
        await self.server.do(Abort(), connection=1)
        await until(lambda: not self.taking_over and self.session._serving.connected)

    def told(self, connection: int) -> list[str]:
        return self.server.recording.texts_sent(connection)

    def answers(self, connection: int) -> int:
        """How often results were given as answers to calls."""
        return len(self.server.recording.frames("toolResponse", connection))

    def setup(self, connection: int) -> dict[str, Any]:
        (frame,) = self.server.recording.frames("setup", connection)
        setup: dict[str, Any] = frame.message["setup"]
        return setup


@asynccontextmanager
async def a_session(
    *faults: Fault,
    monkeypatch: pytest.MonkeyPatch,
    family: str = "3.8",
    replies: list[Any] | None = None,
    form: SeedForm = SeedForm.TURNS,
) -> AsyncIterator[Stage]:
    events: list[Any] = []
    server = GeminiLiveServer(
        replies or [], default_reply=STORY, faults=faults, family=family, pace=1.5
    )
    async with server:
        options = ResilienceOptions(on_event=events.append)
        model = RealtimeModel(**server.model_kwargs(resilience=options))
        session = model.session()
        stage = Stage(server, session, events)
        poison, mirror = session._parts.poison, session._parts.mirror
        while poison.form is not form:
            assert poison.next_form()
        restore = mirror.restore

        async def dial_or_take_over(*args: Any) -> LiveConnection:
            return stage.taking_over[0].connection if stage.taking_over else await dial(*args)

        async def restore_or_take_over(live: Any, *, resumed: bool) -> bool:
            if not stage.taking_over:
                return await restore(live, resumed=resumed)
            beside = stage.taking_over.pop()
            mirror.serves(beside.seed, answering=beside.answering)
            return beside.answering

        monkeypatch.setattr(connecting, "dial", dial_or_take_over)
        monkeypatch.setattr(mirror, "restore", restore_or_take_over)
        await server.wait_for("setupComplete")
        await asyncio.sleep(1.0)  # so that its first handle is there
        yield stage
        await session.aclose()
        await model.aclose()


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 20)


def books(session: RealtimeSession) -> dict[str, Any]:
    """What the session knows of its connections."""
    mirror, serving, calls = session._parts.mirror, session._serving, session._parts.tool_calls
    resumption, poison = mirror.resumption, session._parts.poison
    return {
        "handle": (resumption.handle, session.session_resumption_handle),
        "items": [(item.id, resumption.knows(item.id)) for item in session._chat_ctx.items],
        "open": list(resumption.open_items),
        "told": (mirror.told, mirror.in_set_up, poison.form, poison.limit),
        "connection": (serving.number, serving.mode, serving.connected),
        "calls": [calls.response_to(call_id) for call_id in calls.open_on(1)],
    }


FORMS = pytest.mark.parametrize("form", SeedForm)


@FORMS
async def test_it_is_set_up_fresh_though_there_is_a_handle(
    form: SeedForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session(monkeypatch=monkeypatch, form=form) as stage:
        await stage.say("my name is Ada")
        before = books(stage.session)
        assert before["handle"][0] is not None
        beside = await stage.prepare()
        assert "handle" not in stage.setup(2)["sessionResumption"]
        assert stage.server.session.knows("my name is Ada") == 1
        assert ("historyConfig" in stage.setup(2)) == (form is SeedForm.ANNOUNCED)
        assert ("Ada" in str(stage.setup(2))) == (form is SeedForm.INSTRUCTED)
        assert books(stage.session) == before
        await beside.drop()


@FORMS
@pytest.mark.parametrize("prepared", [False, True], ids=["alone", "beside"])
async def test_one_that_is_dropped_leaves_no_trace(
    prepared: bool, form: SeedForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next resume tells exactly the difference, and each result once."""
    replies = [STORY, ToolCall("get_weather", {"city": "Paris"})]
    async with a_session(monkeypatch=monkeypatch, replies=replies, form=form) as stage:
        await stage.say("my name is Ada")
        await stage.session.generate_reply(instructions="Greet.")
        await stage.server.wait_for("turnComplete")
        await asyncio.sleep(1.0)  # so that its handle is there
        call = await stage.call_a_tool()
        await asyncio.sleep(AFTER_GRACE_S)
        if prepared:
            beside = await stage.prepare()
            before = books(stage.session)
        stage.server.inject(Fault(OnConnection(1), NoHandle()))
        await stage.say("I am in Paris")
        await stage.give_result(call)
        if prepared:
            assert stage.told(2)[:1] == ([] if form is SeedForm.INSTRUCTED else ["my name is Ada"])
            await beside.drop()
            after = books(stage.session)
            for name in ("handle", "told", "connection"):
                assert after[name] == before[name], name
        number = 3 if prepared else 2
        await stage.server.do(Abort(), connection=1)
        await stage.server.wait_for("setupComplete", connection=number)
        await asyncio.sleep(1.0)
        assert "handle" in stage.setup(number)["sessionResumption"]
        session = stage.server.session
        assert [session.knows(text) for text in ("my name is Ada", "I am in Paris")] == [1, 1]
        given = stage.answers(number) + sum(RESULT in text for text in stage.told(number))
        assert given == 1
        assert "my name is Ada" not in stage.told(number)


@FORMS
async def test_what_came_after_it_was_told_is_told_once_when_it_takes_over(
    form: SeedForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_session(monkeypatch=monkeypatch, form=form) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await stage.say("I am in Paris", "and it rains")
        await stage.take_over(beside)
        await asyncio.sleep(AFTER_GRACE_S)
        session = stage.server.session
        assert session is stage.server.sessions[1]
        for text in ("my name is Ada", "I am in Paris", "and it rains"):
            assert session.knows(text) == 1, text
        await stage.say("what is new")
        for text in ("my name is Ada", "I am in Paris", "and it rains", "what is new"):
            assert session.knows(text) == 1, text


async def test_it_is_resumed_from_its_own_handle_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the old connection was issued stands for a session that is no more."""
    no_handle = Fault(OnConnection(2), NoHandle())
    async with a_session(no_handle, monkeypatch=monkeypatch) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await stage.say("I am in Paris")
        await stage.take_over(beside)
        assert stage.session.session_resumption_handle is None
        await asyncio.sleep(1.0)
        await stage.server.do(Abort(), connection=2)
        await stage.server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(1.0)
        assert "handle" not in stage.setup(3)["sessionResumption"]
        for text in ("my name is Ada", "I am in Paris"):
            assert stage.server.session.knows(text) == 1, text


async def test_a_handle_that_came_before_it_served_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was issued at set-up, and does not stand for what was told after, however late it is
    that the connection takes over."""
    async with a_session(monkeypatch=monkeypatch) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await asyncio.sleep(2.0)
        (issued,) = stage.server.recording.events("sessionResumptionUpdate", 2)
        await stage.take_over(beside)
        handle = issued.message["sessionResumptionUpdate"]["newHandle"]
        assert stage.session.session_resumption_handle == handle
        await stage.server.do(Abort(), connection=2)
        await stage.server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(1.0)
        assert stage.setup(3)["sessionResumption"]["handle"] == handle
        assert stage.server.session.knows("my name is Ada") == 1


@pytest.mark.parametrize("first", ["seed", "result"])
async def test_a_result_that_the_old_connection_took_is_told_once(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = [ToolCall("get_weather", {"city": "Paris"})]
    async with a_session(monkeypatch=monkeypatch, replies=tools) as stage:
        call = await stage.call_a_tool()
        if first == "seed":
            beside = await stage.prepare()
        await stage.give_result(call)
        assert stage.answers(1) == 1
        if first == "result":
            beside = await stage.prepare()
        await stage.take_over(beside)
        await asyncio.sleep(20.0)
        assert stage.answers(2) == 0, "its session made no call"
        assert sum(RESULT in text for text in stage.told(2)) == 1
        again = [event for event in stage.events if isinstance(event, ToolResultRedelivered)]
        assert [event.form for event in again] == ["text"]
        await stage.server.do(Abort(), connection=2)
        await stage.server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(20.0)
        told = stage.told(3)
        assert sum(RESULT in text for text in told) == 0, "its handle stands for it"


async def test_a_result_that_comes_after_the_switch_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = [ToolCall("get_weather", {"city": "Paris"})]
    async with a_session(monkeypatch=monkeypatch, replies=tools) as stage:
        call = await stage.call_a_tool()
        beside = await stage.prepare()
        await stage.take_over(beside)
        await stage.give_result(call)
        await asyncio.sleep(20.0)
        assert stage.answers(1) == stage.answers(2) == 0
        assert sum(RESULT in text for text in stage.told(2)) == 1


@pytest.mark.parametrize("family", ["2.5", "3.1", "3.8"])
async def test_what_came_after_it_was_told_does_not_cut_its_answer(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some families stop for anything they are told."""
    async with a_session(monkeypatch=monkeypatch, family=family) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await stage.say("I am in Paris")
        asked = types.Content(role="user", parts=[types.Part(text="Go on.")])
        await beside.stop_reading()
        await beside.connection.live.send_client_content(turns=[asked], turn_complete=True)
        await stage.server.wait_for("modelTurn", connection=2)
        await stage.take_over(beside, answering=True)
        await stage.server.wait_for("turnComplete", connection=2)
        assert stage.server.recording.count("interrupted", 2) == 0
        assert stage.server.session.knows("I am in Paris") == 0
        await asyncio.sleep(1.0)
        assert stage.server.session.knows("I am in Paris") == 1
        assert stage.server.recording.count("interrupted", 2) == 0


async def test_what_waits_for_an_answer_is_told_by_the_next_connection_if_that_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_session(monkeypatch=monkeypatch) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await stage.say("I am in Paris")
        await stage.take_over(beside, answering=True)
        await asyncio.sleep(1.0)
        assert stage.server.session.knows("I am in Paris") == 0
        await stage.server.do(Abort(), connection=2)
        await stage.server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(1.0)
        for text in ("my name is Ada", "I am in Paris"):
            assert stage.server.session.knows(text) == 1, text


async def test_a_record_that_waits_for_a_connection_is_told_when_it_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that served may be gone by then."""
    # The redial waits as long as it may, so that there is time to get ready.
    monkeypatch.setattr("random.random", lambda: 1.0)
    async with a_session(monkeypatch=monkeypatch) as stage:
        await stage.say("my name is Ada")
        beside = await stage.prepare()
        await stage.server.do(Abort(), connection=1)
        await until(lambda: not stage.session._serving.connected)
        await stage.session.update_chat_ctx(
            llm.ChatContext([*stage.session.chat_ctx.items, words("I am in Paris")])
        )
        assert stage.session._pending_chat_ctx is not None
        await beside.stop_reading()
        stage.taking_over.append(beside)
        await until(lambda: stage.session._serving.connected)
        await asyncio.sleep(1.0)
        assert stage.session._serving.number == 2
        for text in ("my name is Ada", "I am in Paris"):
            assert stage.server.session.knows(text) == 1, text


def words(text: str) -> llm.ChatMessage:
    return llm.ChatMessage(role="user", content=[text])
