"""A handle that came before a request was sent does not stand for it: no waiting after a drop.

Upstream keeps no such record, and asks nobody after a drop.
"""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    Reply,
)

TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
REST = Reply("It will be with you before six tonight.")
CUT_S = 2.0


@pytest.mark.virtual_time
async def test_a_reply_cut_on_the_first_connection_goes_on_without_a_gap(google_model: Any) -> None:
    # The first request is made before the connection is up; its handle comes in between.
    cut = Fault(AtAudio(CUT_S, connection=1), Abort())
    async with (
        GeminiLiveServer([TALE, REST], faults=[cut]) as server,
        HeadlessCall(google_model(**server.model_kwargs())) as call,
    ):
        await call.generate_reply(instructions="tell", wait=False)
        await call.until(lambda: call.heard.busy, what="the beginning")
        began_at = call.now
        await call.wait_heard(CUT_S + 1.0, after=began_at)
        assert call.dead_air(after=began_at) < 0.5
