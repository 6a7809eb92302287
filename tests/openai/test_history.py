"""System messages in the conversation survive a reconnect, in their place and once."""

from __future__ import annotations

import pytest

from livekit.plugins.resilient.openai.realtime import RealtimeModel
from livekit.plugins.resilient.testing import Abort, HeadlessCall, OpenAIRealtimeServer

FIRST, NOTE, LAST = "Good day.", "The caller is called Ada.", "Good bye."


@pytest.mark.virtual_time
async def test_the_replay_holds_system_messages() -> None:
    async with (
        OpenAIRealtimeServer([]) as server,
        HeadlessCall(RealtimeModel(**server.model_kwargs())) as call,
    ):
        context = call.agent.chat_ctx.copy()
        context.add_message(role="user", content=FIRST)
        context.add_message(role="system", content=NOTE)
        context.add_message(role="user", content=LAST)
        await call.agent.update_chat_ctx(context)
        await server.do(Abort())
        await server.wait_for("session.update", connection=2)
        await server.wait_until(
            lambda: server.session.knows(LAST) > 0, what="the end of the replay"
        )
        assert server.session.texts() == [FIRST, NOTE, LAST]
