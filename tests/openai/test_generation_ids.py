"""What is decided about one response is done to that one, whichever is open by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import HeadlessCall, OpenAIRealtimeServer, Reply

pytestmark = pytest.mark.virtual_time

AUDIO = "response.output_audio.delta"
STORY = Reply(
    "Your parcel left the depot this morning and will be with you before six tonight, "
    "unless the bridge over the river is still closed to heavy traffic by then."
)


@asynccontextmanager
async def speaking(
    *replies: Reply,
) -> AsyncIterator[tuple[OpenAIRealtimeServer, HeadlessCall, list[str]]]:
    """A call whose last reply has begun to arrive; the ids of all its responses."""
    async with OpenAIRealtimeServer(replies) as server:
        model = RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            ids: list[str] = []
            call.realtime_session.on(
                "generation_created", lambda event: ids.append(event.response_id)
            )
            for _ in replies[1:]:
                await call.generate_reply(instructions="Greet the caller.")
                await call.agent_done()
            before = sum(AUDIO in frame.kinds for frame in server.recording.sent)
            asking = asyncio.ensure_future(call.generate_reply(instructions="Where is it?"))
            await server.wait_for(AUDIO, count=before + 3)
            await asyncio.sleep(0.05)
            assert call.realtime_session._parts.inbound.response_id == ids[-1]  # type: ignore[attr-defined]
            yield server, call, ids
            await asking


Act: TypeAlias = Callable[[Any, str], None]


def close_streams(session: Any, generation_id: str) -> None:
    session.close_streams(generation_id)


def finalise(session: Any, generation_id: str) -> None:
    session.finalise(generation_id, "stalled")


@pytest.mark.parametrize("act", [close_streams, finalise])
async def test_what_comes_late_for_one_response_leaves_the_next_alone(act: Act) -> None:
    async with speaking(Reply("Good day."), STORY) as (server, call, ids):
        act(call.realtime_session, ids[0])
        reply = await call.reply()
        await call.agent_done()
        assert reply.position_s == pytest.approx(STORY.duration_s, abs=0.1)
        assert server.session.texts("assistant") == ["Good day.", STORY.text]
        cancels = server.recording.frames("response.cancel")
        ended = ids[:1] if act is finalise else []
        assert [frame.message.get("response_id") for frame in cancels] == ended


@pytest.mark.parametrize("act", [close_streams, finalise])
async def test_the_response_that_is_open_is_ended(act: Act) -> None:
    async with speaking(STORY) as (_, call, ids):
        act(call.realtime_session, ids[0])
        reply = await call.reply()
        assert reply.position_s < STORY.duration_s / 2
