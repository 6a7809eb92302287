"""A session resumed by its handle is told only what came after the handle (R6, first form).

Upstream does so since 1.8.1, so this is a probe of upstream's own class: see patches/README.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import Abort, GeminiLiveServer, HeadlessCall, Reply

GREETING = Reply("Good morning, how can I help you?")
ANSWER = Reply("It is on the van.")


@pytest.mark.virtual_time
async def test_the_history_is_not_told_again_with_a_handle(google_engine: Any) -> None:
    async with (
        GeminiLiveServer([GREETING, ANSWER]) as server,
        HeadlessCall(google_engine(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="greet")
        await call.say(1.0)
        await call.reply()
        await call.agent_done()
        await server.do(Abort())
        await server.wait_for("setupComplete", connection=2)
        context = call.realtime_session.chat_ctx.copy()
        context.add_message(role="user", content="And when will it be here?")
        await call.realtime_session.update_chat_ctx(context)
        await server.wait_for("clientContent", connection=2)
        assert server.recording.texts_sent(2) == ["And when will it be here?"]
