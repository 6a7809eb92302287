"""How a fresh session is told the history, and what follows a refusal, wherever it comes (R7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import google.auth
import pytest
from google.oauth2.credentials import Credentials
from livekit.agents import llm
from livekit.plugins import google as upstream_google

from livekit.plugins.resilient.google.realtime import RealtimeModel
from livekit.plugins.resilient.testing import (
    Abort,
    CallAgent,
    Close,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    NoHandle,
    OnConnection,
    Received,
    Refuse,
    Reply,
    Send,
    StaleHandle,
    ToolCall,
    UserStarts,
)

from ..pairs import pairwise

pytestmark = pytest.mark.virtual_time

ANSWER = Reply("This answers what you have just asked.")
UNKNOWN = "Invalid JSON payload received. Unknown name \"historyConfig\" at 'setup'"
INVALID = "Request contains an invalid argument."
FAMILIES = ["2.5", "3.1", "3.1-release", "3.8", "vertex"]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def default(*_: object, **__: object) -> tuple[Credentials, str]:
        return Credentials(token="token"), "project"  # type: ignore[no-untyped-call]

    monkeypatch.setattr(google.auth, "default", default)


@asynccontextmanager
async def a_call(
    *faults: Fault,
    family: str = "2.5",
    replies: list[Any] | None = None,
    make: Any = RealtimeModel,
    chat_ctx: llm.ChatContext | None = None,
) -> AsyncIterator[tuple[GeminiLiveServer, HeadlessCall]]:
    server = GeminiLiveServer(
        replies or [],
        default_reply=ANSWER,
        faults=faults,
        family="2.5" if family == "vertex" else family,
        vertex=family == "vertex",
        strict=True,
        pace=1.5,
    )
    on_vertex = {
        "vertexai": True,
        "project": "project",
        "location": "us-central1",
        "model": "gemini-live-2.5-flash-native-audio",
        "api_key": None,
    }
    async with server:
        model = make(**server.model_kwargs(**(on_vertex if family == "vertex" else {})))
        agent = CallAgent(weather="cloudless")
        if chat_ctx is not None:
            agent._chat_ctx = chat_ctx
        async with HeadlessCall(model, agent=agent) as call:
            yield server, call


async def ask(call: HeadlessCall) -> None:
    said = await call.say(1.0)
    assert said.ended_at is not None
    await call.reply(after=said.ended_at, timeout_s=30)
    await call.agent_done()


async def talk_and_drop(server: GeminiLiveServer, call: HeadlessCall) -> None:
    server.user_says("my name is Ada", "and now")
    await ask(call)
    await server.do(Abort())


def knows_once(server: GeminiLiveServer, *texts: str) -> None:
    for text in texts:
        assert server.session.knows(text) == 1, text


LOST = Fault(OnConnection(1), NoHandle())


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_form_of_the_family_is_taken_at_once(family: str) -> None:
    async with a_call(LOST, family=family) as (server, call):
        await talk_and_drop(server, call)
        await ask(call)
        knows_once(server, "my name is Ada")
        refused = [info.code for info in server.recording.closes if info.code == 1007]
        # Where it must be announced that costs a dial, which recordings of the family deny.
        assert refused == ([1007] if family == "3.1-release" else [])
        setups = [frame.message["setup"] for frame in server.recording.frames("setup")]
        assert ["historyConfig" in setup for setup in setups] == [False] * 2 + [True] * len(refused)
        assert all(error.recoverable for error in call.errors)


REFUSALS = {
    "1007": Close(1007, UNKNOWN),
    "1007-unnamed": Close(1007, INVALID),
    "1008": Close(1008, UNKNOWN),
    "1011": Close(1011, UNKNOWN),
    "1003": Close(1003, UNKNOWN),
}


@pairwise(family=list(FAMILIES), refusal=list(REFUSALS), where=["setup", "clientContent"])
async def test_a_refusal_is_followed_by_a_plainer_form(
    family: str, refusal: str, where: str
) -> None:
    fault = Fault(Received(where, connection=2), REFUSALS[refusal])
    async with a_call(LOST, fault, family=family) as (server, call):
        await talk_and_drop(server, call)
        await ask(call)
        knows_once(server, "my name is Ada")
        if family != "3.1-release":
            assert len(server.dials()) == 3
        assert all(error.recoverable for error in call.errors)


@pytest.mark.parametrize("family", ["2.5", "3.1"])
async def test_each_form_may_be_refused(family: str) -> None:
    """And the set-up besides, in which we put more than upstream."""
    faults = [
        Fault(Received("clientContent", connection=2), Close(1007, INVALID)),
        Fault(Received("setup", connection=3), Close(1007, UNKNOWN)),
    ]
    if family == "3.1":
        faults.append(Fault(Received("setup", connection=4), Close(1007, INVALID)))
    async with a_call(LOST, *faults, family=family) as (server, call):
        await talk_and_drop(server, call)
        await ask(call)
        knows_once(server, "my name is Ada")
        assert len(server.dials()) == 2 + len(faults)
        announced = sum(
            "historyConfig" in frame.message["setup"] for frame in server.recording.frames("setup")
        )
        assert announced == (family == "3.1")
        assert all(error.recoverable for error in call.errors)


async def test_a_history_that_is_refused_when_the_caller_speaks() -> None:
    """Long after it was told, but before the model showed that it took it."""
    faults = [
        Fault(Received("clientContent", connection=2), NoHandle()),
        Fault(UserStarts(connection=2), Close(1007, INVALID)),
    ]
    async with a_call(LOST, *faults) as (server, call):
        await talk_and_drop(server, call)
        await server.wait_for("setupComplete", connection=2)
        await asyncio.sleep(20.0)
        await call.say(1.0)
        await server.wait_for("setupComplete", connection=3)
        await asyncio.sleep(10.0)
        await ask(call)
        assert (
            server.recording.frames("clientContent", 3)[:1]
            != server.recording.frames("clientContent", 2)[:1]
        )
        assert "Ada" in str(server.recording.frames("setup", 3)[0].message)
        assert all(error.recoverable for error in call.errors)


async def test_a_server_that_dies_of_it_without_saying_so() -> None:
    faults = [
        Fault(OnConnection(2), NoHandle()),
        Fault(OnConnection(3), NoHandle()),
        Fault(Received("clientContent", connection=2), Close(1011, "Internal error encountered.")),
        Fault(Received("clientContent", connection=3), Close(1011, "Internal error encountered.")),
    ]
    async with a_call(LOST, *faults) as (server, call):
        await talk_and_drop(server, call)
        await server.wait_for("setupComplete", connection=4)
        await ask(call)
        knows_once(server, "my name is Ada")
        assert server.recording.frames("clientContent", 4) == []
        assert len(server.dials()) == 4


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            Fault(OnConnection(2), Refuse(400, body=UNKNOWN)),
            id="HTTP",
        ),
        pytest.param(
            Fault(
                Received("setup", connection=2),
                (
                    Send({"error": {"code": 400, "message": UNKNOWN}}),
                    Close(1000),
                ),
            ),
            id="message",
        ),
    ],
)
async def test_a_refusal_in_another_form(refusal: Fault) -> None:
    async with a_call(LOST, refusal) as (server, call):
        await talk_and_drop(server, call)
        await ask(call)
        knows_once(server, "my name is Ada")
        assert all(error.recoverable for error in call.errors)


# --- the first session of a call ------------------------------------------------------------------


def loaded() -> llm.ChatContext:
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="my name is Ada")
    context.insert(llm.FunctionCall(call_id="1", name="get_weather", arguments="{}"))
    context.insert(
        llm.FunctionCallOutput(call_id="1", name="get_weather", output="sunny", is_error=False)
    )
    context.add_message(role="assistant", content="It is sunny, Ada.")
    return context


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_loaded_context_is_told_as_upstream_does(family: str) -> None:
    told = []
    for make in (upstream_google.realtime.RealtimeModel, RealtimeModel):
        call = a_call(family=family, make=make, chat_ctx=loaded())
        async with call as (server, _):
            await server.wait_for("clientContent")
            contents = [frame.message for frame in server.recording.frames("clientContent", 1)]
            setup = dict(server.recording.frames("setup", 1)[0].message["setup"])
            setup.pop("contextWindowCompression", None)
            told.append((contents, setup))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(OnConnection(1), Refuse(400, body=UNKNOWN)),
        Fault(Received("setup", connection=1), Close(1007, UNKNOWN)),
        Fault(Received("setup", connection=1), Close(1007, INVALID)),
        Fault(Received("setup", connection=1), Close(1008, UNKNOWN)),
        Fault(Received("clientContent", connection=1), Close(1007, INVALID)),
        Fault(Received("clientContent", connection=1), Close(1008, UNKNOWN)),
    ],
    ids=["HTTP", "1007", "1007-unnamed", "1008", "seed-1007", "seed-1008"],
)
async def test_a_loaded_context_that_is_refused_is_told_plainer(fault: Fault) -> None:
    async with a_call(fault, chat_ctx=loaded()) as (server, call):
        await ask(call)
        knows_once(server, "my name is Ada", "It is sunny, Ada.")
        assert len(server.dials()) == 2
        assert all(error.recoverable for error in call.errors)


async def test_a_set_up_that_is_refused_as_upstream_s_is_final() -> None:
    faults = [
        Fault(Received("setup", connection=number), Close(1007, INVALID)) for number in (1, 2)
    ]
    async with a_call(*faults) as (server, call):
        error = await call.wait_error(recoverable=False)
        assert not error.recoverable
        setups = [frame.message["setup"] for frame in server.recording.frames("setup")]
        assert ["contextWindowCompression" in setup for setup in setups] == [True, False]


@pytest.mark.parametrize("family", FAMILIES)
async def test_calls_are_told_in_words(family: str) -> None:
    fault = Fault(OnConnection(2), StaleHandle())
    tool = ToolCall("get_weather", {"city": "Paris"})
    async with a_call(fault, family=family, replies=[tool, ANSWER]) as (server, call):
        await ask(call)
        await server.do(Abort())
        await ask(call)
        knows_once(server, "cloudless", "Paris")
        assert server.session.resumed_from is None
