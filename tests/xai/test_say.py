"""`say`: a line that the application gives is spoken once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from livekit.agents.voice.speech_handle import SpeechHandle
from livekit.plugins import resilient, xai

from livekit.plugins.resilient.events import RedriveDecided, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Before,
    Close,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Reply,
    Swallow,
)

pytestmark = pytest.mark.virtual_time

LINE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
ANSWER = Reply("Yes, I can hear you well.")
CREATE = "conversation.item.create"
# Two dials are given up after 10 s each: longer than a line is given to begin.
DOWN = [
    Fault(OnConnection(2), HangHandshake()),
    Fault(OnConnection(3), HangHandshake()),
    Fault(OnConnection(4), HangHandshake(4.0)),
]


@dataclass
class Stage:
    server: OpenAIRealtimeServer
    call: HeadlessCall
    events: list[ResilienceEvent] = field(default_factory=list)

    def say(self, text: Any = LINE.text) -> SpeechHandle:
        return self.call._inside(self.call.session.say, text=text)

    async def said(self, handle: SpeechHandle) -> None:
        await handle
        assert handle.exception() is None
        await self.call.agent_done()

    @property
    def lines(self) -> list[tuple[int, str]]:
        """What the server was told to speak, and on which connection."""
        frames = self.server.recording.frames(CREATE)
        return [
            (frame.connection, frame.texts[0])
            for frame in frames
            if frame.message["item"]["type"] == "force_message"
        ]

    @property
    def heard(self) -> list[str]:
        """What the agent said, as the application has recorded it."""
        messages = self.call.agent.chat_ctx.messages()
        return [message.text_content or "" for message in messages if message.role == "assistant"]

    async def answers(self) -> None:
        """The next question is answered."""
        said = await self.call.say(1.0)
        await self.call.reply(after=said.ended_at)
        await self.call.agent_done()
        assert self.heard[-1] == ANSWER.text


@asynccontextmanager
async def calling(*faults: Fault, ours: bool = True) -> AsyncIterator[Stage]:
    events: list[ResilienceEvent] = []
    async with OpenAIRealtimeServer(default_reply=ANSWER, faults=faults) as server:
        if ours:
            options = resilient.ResilienceOptions(on_event=events.append)
            kwargs = server.model_kwargs(resilience=options)
            model: Any = resilient.xai.realtime.RealtimeModel(**kwargs)
        else:
            model = xai.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            yield Stage(server, call, events)
            assert all(error.recoverable for error in call.errors)
        assert call.close_problem is None
        assert call.leftover_tasks() == []


async def in_pieces() -> AsyncIterator[str]:
    for word in LINE.text.split():
        yield word + " "


@pytest.mark.parametrize("pieces", [False, True], ids=["whole", "in-pieces"])
async def test_a_healthy_line_is_asked_for_as_upstream_does(pieces: bool) -> None:
    written = []
    for ours in (False, True):
        async with calling(ours=ours) as on:
            await on.said(on.say(in_pieces() if pieces else LINE.text))
            await on.answers()
            assert [text.strip() for text in on.heard] == [LINE.text, ANSWER.text]
            assert on.events == []
            frames = on.server.recording.frames(CREATE)
            written.append([{**frame.message, "event_id": ""} for frame in frames])
    assert written[0] == written[1] != []


async def test_a_line_and_a_request_of_one_moment_go_in_upstreams_order() -> None:
    kinds = []
    for ours in (False, True):
        async with calling(ours=ours) as on:
            session: Any = on.call.realtime_session
            await asyncio.wait([line := session.say(LINE.text), reply := session.generate_reply()])
            assert [future.exception() for future in (line, reply)].count(None) >= 1
            frames = on.server.recording.frames()
            kinds.append([f.kind for f in frames if f.kind in (CREATE, "response.create")])
    assert kinds[0][:2] == kinds[1][:2]


@pytest.mark.parametrize(
    "drop",
    [
        Fault(Received(CREATE, connection=1), Abort()),
        Fault(Received(CREATE, connection=1), Close(1011)),
        Fault(Before("response.created", connection=1), (Swallow(), Abort())),
    ],
    ids=["as-it-comes", "closed", "before-it-begins"],
)
@pytest.mark.parametrize("down", [[], DOWN], ids=["short", "24-s"])
async def test_a_line_that_a_drop_catches_is_said_once(drop: Fault, down: list[Fault]) -> None:
    async with calling(drop, *down) as on:
        await on.said(on.say())
        newest = len(on.server.dials())
        assert on.lines == [(1, LINE.text), (newest, LINE.text)]
        assert on.heard == [LINE.text]
        await on.answers()
        assert len(on.lines) == 2


async def test_a_line_given_while_down_is_said_once_and_in_time() -> None:
    async with calling(*DOWN) as on:
        await on.server.wait_for("session.updated", connection=1)
        await on.server.do(Abort())
        await on.call.until(lambda: len(on.server.dials()) > 1, what="a redial")
        await on.said(on.say())
        assert on.lines == [(4, LINE.text)]
        assert on.heard == [LINE.text]
        await on.answers()


async def test_a_line_withdrawn_while_down_is_never_said() -> None:
    async with calling(*DOWN) as on:
        await on.server.wait_for("session.updated", connection=1)
        await on.server.do(Abort())
        await on.call.until(lambda: len(on.server.dials()) > 1, what="a redial")
        handle = on.say()
        await asyncio.sleep(0.5)
        handle.interrupt()
        await on.server.wait_for("session.updated", connection=4, timeout_s=60)
        await asyncio.sleep(5.0)
        assert on.lines == []
        await on.answers()


async def test_the_rest_of_a_line_that_was_cut_is_said_as_it_was_given() -> None:
    cut = Fault(AtAudio(2.0, connection=1), Abort())
    async with calling(cut) as on:
        await on.said(on.say())
        await on.call.until(lambda: len(on.heard) == 2, timeout_s=20, what="the rest")
        await on.call.agent_done()
        assert " ".join(on.heard) == LINE.text
        assert [event.reason for event in on.events if isinstance(event, RedriveDecided)] == [
            "reply_cut"
        ]
        assert on.server.recording.frames("response.create") == []
        await on.answers()


async def test_hanging_up_withdraws_a_line() -> None:
    for ours in (False, True):
        never = Fault(Before("response.created", connection=1), Swallow())
        async with calling(never, ours=ours) as on:
            line = (session := on.call.realtime_session).say(LINE.text)
            await on.server.wait_for(CREATE)
            await session.aclose()
            assert line.cancelled()
