"""Every item that is created or deleted reaches the model once, whenever a drop comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.events import HandedOver
from livekit.plugins.resilient.openai.realtime import RealtimeSession
from livekit.plugins.resilient.testing import (
    Abort,
    After,
    Before,
    Close,
    Fault,
    HangHandshake,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Received,
    Refuse,
    Swallow,
)
from livekit.plugins.resilient.testing.faults import Trigger

pytestmark = pytest.mark.virtual_time

OLD = ["One.", "Two.", "Three."]
AFTERWARDS = ["One.", "Note.", "Three, and more.", "Four."]
"""What becomes of `OLD` when it is updated: an item added, one deleted, one changed."""


@asynccontextmanager
async def call_on(server: OpenAIRealtimeServer, **options: Any) -> AsyncIterator[HeadlessCall]:
    async with server, AsyncExitStack() as stack:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs(**options))
        call = await stack.enter_async_context(HeadlessCall(model))
        context = call.agent.chat_ctx.copy()
        for number, text in enumerate(OLD):
            context.add_message(role="user", content=text, id=f"old_{number}")
        await call.agent.update_chat_ctx(context)
        assert server.session.texts() == OLD
        yield call


def afterwards(call: HeadlessCall) -> llm.ChatContext:
    """The context with one item added, one deleted, and one changed."""
    first, _, third = call.agent.chat_ctx.copy().messages()
    changed = third.model_copy(update={"content": [AFTERWARDS[2]]})
    note = llm.ChatMessage(id="note", role="system", content=[AFTERWARDS[1]])
    last = llm.ChatMessage(id="last", role="user", content=[AFTERWARDS[3]])
    return llm.ChatContext([first, note, changed, last])


async def update(call: HeadlessCall) -> None:
    """Update the context; it must not fail, and not take long.

    Raises:
        RealtimeError: Part of it was refused, or it timed out.
    """
    since = call.now
    await call.agent.update_chat_ctx(afterwards(call))
    assert call.now - since < 1.5


async def settled(server: OpenAIRealtimeServer, call: HeadlessCall) -> None:
    """Wait until the newest connection has been told all there is."""
    await asyncio.sleep(8.0)
    assert call.closed is None
    assert server.session.texts() == AFTERWARDS
    assert call.realtime_session.chat_ctx.items == server_items(server, call)


def server_items(server: OpenAIRealtimeServer, call: HeadlessCall) -> list[llm.ChatItem]:
    """The items of the mirror that the server has too, in the server's order."""
    by_id = {item.id: item for item in call.realtime_session.chat_ctx.items}
    return [by_id[item.item_id] for item in server.session.items]


CREATES, DELETES = "conversation.item.create", "conversation.item.delete"
# Three creates have set the context up.
MOMENTS: dict[str, Trigger] = {
    **{f"received-create-{n}": Received(CREATES, connection=1, nth=3 + n) for n in range(1, 4)},
    **{f"received-delete-{n}": Received(DELETES, connection=1, nth=n) for n in range(1, 3)},
    **{
        f"before-added-{n}": Before("conversation.item.added", connection=1, nth=3 + n)
        for n in range(1, 4)
    },
    **{
        f"after-added-{n}": After("conversation.item.added", connection=1, nth=3 + n)
        for n in range(1, 4)
    },
    **{
        f"before-deleted-{n}": Before("conversation.item.deleted", connection=1, nth=n)
        for n in range(1, 3)
    },
    **{
        f"after-deleted-{n}": After("conversation.item.deleted", connection=1, nth=n)
        for n in range(1, 3)
    },
}
"""Every moment of an update at which the connection can be lost."""

LATER: dict[str, list[Fault]] = {
    "once": [],
    "and-refused-for-6-s": [Fault(OnConnection(2), HangHandshake(6.0))],
    "and-refused-twice": [Fault(OnConnection(n), Refuse(503)) for n in (2, 3)],
    "and-in-the-replay": [
        Fault(Received(CREATES, connection=2, nth=2), Abort()),
        Fault(Received("session.update", connection=3), Abort()),
    ],
    "and-after-it": [Fault(After("conversation.item.added", connection=2, nth=2), Close(1011))],
}
"""What happens to the connections after the first."""


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_update_that_is_cut_anywhere_is_done_once(moment: str, later: str) -> None:
    drop = Fault(MOMENTS[moment], Abort())
    server = OpenAIRealtimeServer([], faults=[drop, *LATER[later]], strict=True)
    async with call_on(server) as call:
        await update(call)
        await settled(server, call)
        assert server.recording.faults, "the drop has happened"
        assert server.recording.count("error") == 0


@pytest.mark.parametrize("after_s", [0.0, 0.2, 1.0, 3.9, 4.5])
@pytest.mark.parametrize("refused", [False, True], ids=["slow-dial", "refused"])
async def test_an_update_during_an_outage_is_done_at_once(after_s: float, refused: bool) -> None:
    away = [Fault(OnConnection(2), HangHandshake(4.0))]
    if refused:
        away = [Fault(OnConnection(n), Refuse(503)) for n in range(2, 6)]
    server = OpenAIRealtimeServer([], faults=away, strict=True)
    async with call_on(server) as call:
        await server.do(Abort())
        await server.wait_for("close")
        await asyncio.sleep(after_s)
        await update(call)
        await settled(server, call)
        assert server.recording.count("error") == 0


@pytest.mark.parametrize("then", ["goes-on", "is-lost"])
@pytest.mark.parametrize("written", range(1, 5))
async def test_an_update_while_the_replay_is_written(written: int, then: str) -> None:
    server = OpenAIRealtimeServer([], strict=True)
    async with call_on(server) as call:
        session = call.realtime_session
        assert isinstance(session, RealtimeSession)
        updating: list[asyncio.Task[None]] = []
        seen = 0

        def on_event(event: dict[str, Any]) -> None:
            nonlocal seen
            seen += 1
            if seen == written:
                updating.append(asyncio.create_task(update(call)))

        session.on("openai_client_event_queued", on_event)
        if then == "is-lost":
            server.inject(Fault(Received("session.update", connection=2), Abort()))
        await server.do(Abort())
        await settled(server, call)
        await updating[0]
        assert server.recording.count("error") == 0


async def test_what_is_sent_as_the_reconnect_is_announced_follows_the_replay() -> None:
    server = OpenAIRealtimeServer([], strict=True)
    async with call_on(server) as call:
        session = call.realtime_session
        assert isinstance(session, RealtimeSession)
        content = [{"type": "input_text", "text": "Note."}]
        item = {"id": "note", "type": "message", "role": "system", "content": content}
        session.on(
            "session_reconnected", lambda _: session.send_event({"type": CREATES, "item": item})
        )
        await server.do(Abort())
        await server.wait_for("session.update", connection=2)
        await asyncio.sleep(1.0)
        assert server.session.texts() == [*OLD, "Note."]


async def test_what_only_the_old_connection_was_told_goes_to_the_new_one() -> None:
    lost = Fault(Before("conversation.item.added", connection=1, nth=4), Swallow())
    server = OpenAIRealtimeServer([], faults=[lost], strict=True)
    async with call_on(server, max_session_duration=10.0) as call:
        moved: list[HandedOver] = []
        session = call.realtime_session
        assert isinstance(session, RealtimeSession)
        session.on(
            "resilience",
            lambda event: moved.append(event) if isinstance(event, HandedOver) else None,
        )
        # An event of the application's own, which nobody waits for.
        content = [{"type": "input_text", "text": "Note."}]
        item = {"id": "note", "type": "message", "role": "system", "content": content}
        session.send_event({"type": CREATES, "item": item})
        await call.until(lambda: moved, timeout_s=60, what="a handover")
        await asyncio.sleep(1.0)
        assert moved[0].overlapped
        assert server.session.texts() == [*OLD, "Note."]


async def test_an_item_that_the_server_refuses_is_not_told_again() -> None:
    server = OpenAIRealtimeServer([], strict=True)
    async with call_on(server) as call:
        content = [{"type": "input_text", "text": "Note."}]
        item = {"id": "old_1", "type": "message", "role": "user", "content": content}
        call.realtime_session.send_event({"type": CREATES, "item": item})  # type: ignore[attr-defined]
        await server.wait_for("error")
        await server.do(Abort())
        await server.wait_for("session.update", connection=2)
        await asyncio.sleep(1.0)
        assert server.session.texts() == OLD


async def test_only_the_newest_picture_of_an_outage_is_shown() -> None:
    from livekit import rtc

    away = Fault(OnConnection(2), HangHandshake(4.0))
    server = OpenAIRealtimeServer([], faults=[away])
    async with call_on(server) as call:
        await server.do(Abort())
        await server.wait_for("close")
        for _ in range(5):
            call.realtime_session.push_video(
                rtc.VideoFrame(8, 8, rtc.VideoBufferType.RGBA, bytes(8 * 8 * 4))
            )
        await asyncio.sleep(6.0)
        pictures = [
            frame
            for frame in server.recording.frames(CREATES, 2)
            if frame.message["item"]["content"][0]["type"] == "input_image"
        ]
        assert len(pictures) == 1
