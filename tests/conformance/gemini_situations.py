"""What the recorded Gemini sessions are about, played against the simulator with a bare client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed

from livekit.plugins.resilient.testing import GeminiLiveServer, Reply, ToolCall, audio
from livekit.plugins.resilient.testing.gemini.codec import INPUT_RATE
from livekit.plugins.resilient.testing.gemini.peer import GeminiPeer
from livekit.plugins.resilient.testing.gemini.script import CaptionsOnly

from .facts import Step
from .gemini import name_of

STORY = Reply("Once upon a time a caller asked a model for a short story, and here it is.")
CALL = ToolCall("get_weather", {"city": "Paris"})
FLIGHTS = ToolCall("search_flights", {"to": "Rome"}, trailing_text=STORY.text)
WAIT_S = 8.0
"""Virtual seconds in which each message must come; longer than `STORY`."""


class Session(GeminiPeer):
    """A bare client that keeps what crosses the wire, in order and with its time.

    It listens while it speaks, so that what it keeps is when a message came and not when it was
    looked at.
    """

    def __init__(self, server: GeminiLiveServer) -> None:
        super().__init__(server)
        self.server = server
        self.steps: list[Step] = []
        self._arrived: asyncio.Queue[dict[str, Any] | ConnectionClosed] = asyncio.Queue()
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Session:
        await super().__aenter__()
        self._listener = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        assert self._listener is not None
        self._listener.cancel()
        await super().__aexit__(*exc_info)

    async def _listen(self) -> None:
        while True:
            try:
                message = await super().receive()
            except ConnectionClosed as exc:
                self._arrived.put_nowait(exc)
                return
            at = asyncio.get_running_loop().time()
            self.steps.append(Step(name_of(message), message, at))
            self._arrived.put_nowait(message)

    def note(self, gate: str) -> None:
        """The client now does what recordings name so."""
        self.steps.append(Step(f">{gate}", at=asyncio.get_running_loop().time()))

    async def receive(self) -> dict[str, Any]:
        message = await asyncio.wait_for(self._arrived.get(), WAIT_S)
        if isinstance(message, ConnectionClosed):
            raise message
        return message

    async def begin(self, *, resumption: bool = False, **fields: Any) -> None:
        """Set the session up as the recorded client did: without asking for resumption."""
        self.note("setup")
        setup = {
            "model": f"models/{self.server.rules.model}",
            "generationConfig": {"responseModalities": ["AUDIO"]},
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
            **({"sessionResumption": {}} if resumption else {}),
        }
        await self.send({"setup": setup | fields})
        await self.until("setupComplete")
        if self.server.dialect.unasked_handle == "after_setup":
            await self.until("sessionResumptionUpdate")

    async def type(self) -> None:
        """Ask in writing."""
        self.note("content")
        await self.ask("What can you tell me?")

    async def talk(self, gate: str = "voice") -> None:
        """Speak, as fast as the microphone records."""
        self.note(gate)
        sound = audio.speech(1.0, INPUT_RATE) + audio.silence(0.6, INPUT_RATE)
        step = 1_600
        for at in range(0, len(sound), step):
            await self.send_audio(sound[at : at + step])
            await asyncio.sleep(0.05)

    async def answer_call(self, **fields: Any) -> None:
        """Answer the latest call."""
        call = next(s.message["toolCall"] for s in reversed(self.steps) if s.name == "toolCall")
        self.note("tool")
        [body] = call["functionCalls"]
        await self.answer(body["id"], "it is sunny", name=body["name"], **fields)


Play = Callable[[Session], Awaitable[None]]


async def spoken_turn(session: Session) -> None:
    await session.begin()
    await session.talk()
    await session.until("turnComplete")


async def typed_turn(session: Session) -> None:
    await session.begin()
    await session.type()
    await session.until("turnComplete")


async def seeded_turn(session: Session) -> None:
    await session.begin(historyConfig={"initialHistoryInClientContent": True})
    session.note("seed")
    turns = [
        {"role": role, "parts": [{"text": text}]}
        for role, text in (("user", "My name is Ada."), ("model", "Hello Ada."))
    ]
    await session.send({"clientContent": {"turns": turns, "turnComplete": True}})
    await session.type()
    await session.until("turnComplete")


async def tool_round(session: Session) -> None:
    await session.begin()
    await session.type()
    await session.until("toolCall")
    await session.answer_call()
    await session.until("turnComplete")
    if session.server.dialect.ends_tool_turns:
        await session.until("turnComplete")


async def spoken_tool_round(session: Session) -> None:
    await session.begin()
    await session.talk()
    await session.until("toolCall")
    await session.answer_call()
    await session.until("turnComplete")


async def barge_in(session: Session) -> None:
    await session.begin()
    await session.talk()
    await session.until("generationComplete")
    await session.talk("voice_start")
    await session.until("turnComplete")
    await session.until("turnComplete")


async def speech_over_a_call(session: Session) -> None:
    await session.begin()
    await session.type()
    await session.until("toolCall")
    await session.talk()
    await session.until("toolCallCancellation")


async def resumable(session: Session) -> None:
    await session.begin(resumption=True)
    if session.server.dialect.unasked_handle != "after_setup":
        await session.until_handle()
    await session.type()
    await session.until("turnComplete")
    await session.until_handle()


async def end_of_a_connection(session: Session) -> None:
    await session.begin()
    session.server.clock.advance(session.server.rules.connection_limit_s - 50.0)
    await session.until("goAway")
    session.server.clock.advance(50.0)
    code, _ = await session.until_closed()
    session.note(f"closed-{code}")


async def interrupting_result(session: Session) -> None:
    tools = [{"functionDeclarations": [{"name": "search_flights", "behavior": "NON_BLOCKING"}]}]
    await session.begin(tools=tools)
    await session.type()
    await session.until("generationComplete")
    await session.answer_call(scheduling="INTERRUPT")
    await session.until("turnComplete")
    await session.until("turnComplete")


SITUATIONS: Mapping[str, tuple[Play, list[Any]]] = {
    "spoken-turn": (spoken_turn, [STORY]),
    "typed-turn": (typed_turn, [STORY]),
    "seeded-turn": (seeded_turn, [STORY]),
    "seeded-captions-only": (seeded_turn, [CaptionsOnly("Your name is Ada.")]),
    "tool-round": (tool_round, [CALL, STORY]),
    "spoken-tool-round": (spoken_tool_round, [CALL, STORY]),
    "barge-in": (barge_in, [STORY, STORY]),
    "speech-over-a-call": (speech_over_a_call, [CALL, STORY]),
    "resumable": (resumable, [STORY]),
    "end-of-a-connection": (end_of_a_connection, []),
    "interrupting-result": (interrupting_result, [FLIGHTS, STORY]),
}
"""By name: how a client plays it, and what the model says."""


async def play(situation: str, dialect: str) -> list[Step]:
    """The session of a situation with a simulator that speaks a dialect."""
    how, replies = SITUATIONS[situation]
    vertex = dialect == "vertex"
    family = "2.5" if vertex else dialect
    async with GeminiLiveServer(
        replies, family=family, vertex=vertex, strict=True, go_away_notice_s=50.0
    ) as server:
        server.user_says("what can you tell me")
        async with Session(server) as session:
            await how(session)
    return session.steps
