"""What a cut reply said is in the record that is replayed: as heard, and once (R14, first form)."""

from __future__ import annotations

from typing import Any

import pytest
from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Before,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Received,
    Reply,
    Swallow,
)

REPLY = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
CUT_S = 2.0
OPTIONS = APIConnectOptions(max_retry=3, retry_interval=0.2, timeout=5)


def replayed(server: OpenAIRealtimeServer, connection: int) -> list[str]:
    """The assistant's texts that a connection was given first; a later one of the same item
    corrects it to what was heard when the caller cut in."""
    first: dict[str, Any] = {}
    for frame in server.recording.frames("conversation.item.create", connection):
        first.setdefault(frame.message["item"]["id"], frame.message["item"])
    return [
        "".join(part.get("text", "") for part in item["content"])
        for item in first.values()
        if item["type"] == "message" and item["role"] == "assistant"
    ]


async def call_until_replayed(model: Any, server: OpenAIRealtimeServer, connection: int) -> None:
    async with HeadlessCall(model) as call:
        await call.generate_reply(instructions="where is my parcel", wait=False)
        await server.wait_for("session.update", connection=connection)
        await call.say(1.0)
        await call.reply()


@pytest.mark.virtual_time
@pytest.mark.parametrize("lead_s", [0.0, 1.5], ids=["aligned", "transcript-ahead"])
async def test_the_replay_holds_the_words_whose_audio_arrived(lead_s: float) -> None:
    cut = Fault(AtAudio(CUT_S, connection=1), Abort())
    async with OpenAIRealtimeServer([REPLY], faults=[cut], transcript_lead_s=lead_s) as server:
        model = RealtimeModel(**server.model_kwargs(conn_options=OPTIONS))
        await call_until_replayed(model, server, connection=2)
        assert replayed(server, 2) == [REPLY.words_until(CUT_S)]


@pytest.mark.virtual_time
async def test_a_replay_that_is_cut_too_is_repeated_without_doubling() -> None:
    faults = (
        Fault(AtAudio(CUT_S, connection=1), Abort()),
        Fault(Received("conversation.item.create", connection=2), Abort()),
        Fault(Received("session.update", connection=3), Abort()),
    )
    async with OpenAIRealtimeServer([REPLY], faults=faults) as server:
        model = RealtimeModel(**server.model_kwargs(conn_options=OPTIONS))
        await call_until_replayed(model, server, connection=4)
        assert replayed(server, 4) == [REPLY.words_until(CUT_S)]


@pytest.mark.virtual_time
async def test_a_reply_whose_item_was_never_confirmed_is_recorded_too() -> None:
    faults = (
        Fault(Before("conversation.item.added", connection=1), Swallow()),
        Fault(AtAudio(CUT_S, connection=1), Abort()),
    )
    async with OpenAIRealtimeServer([REPLY], faults=faults) as server:
        model = RealtimeModel(**server.model_kwargs(conn_options=OPTIONS))
        await call_until_replayed(model, server, connection=2)
        assert replayed(server, 2) == [REPLY.words_until(CUT_S)]
