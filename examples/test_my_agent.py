"""A test of the agent beside it: its greeting is cut by a drop, and the caller hears the rest.

    python -m pytest --import-mode=prepend examples/test_my_agent.py

Needs no key and no network: pip install livekit-plugins-resilient[testing]
"""
# mypy: disable-error-code="import-not-found, no-untyped-def"

import pytest
from agent import Receptionist

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import Abort, AtAudio, Fault


@pytest.mark.asyncio
@pytest.mark.virtual_time
async def test_the_caller_hears_the_rest_of_a_cut_greeting(gemini_live_server, headless_call):
    said = ["Good day, this is the parcel service.", "This is the parcel service."]
    drop = Fault(AtAudio(position_s=1.0), Abort())
    server = await gemini_live_server(said, faults=[drop])
    call = await headless_call(RealtimeModel(**server.model_kwargs()), agent=Receptionist())
    await call.until(lambda: len(call.heard.segments) == 2, what="the rest of the greeting")
    assert call.dead_air() < 4.0
    assert len(server.dials()) == 2
