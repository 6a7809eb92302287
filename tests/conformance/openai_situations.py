"""The situations that the recordings of OpenAI Realtime show, played by a bare client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from websockets.exceptions import ConnectionClosed

from livekit.plugins.resilient.testing import Reply, ToolCall, audio
from livekit.plugins.resilient.testing.openai import Messages, OpenAIRealtimeServer
from livekit.plugins.resilient.testing.openai.dialects import DIALECTS, Dialect
from livekit.plugins.resilient.testing.openai.peer import OpenAIPeer
from livekit.plugins.resilient.testing.openai.server import SESSION_CAP_S

from .facts import Step
from .openai import APPEND, APPEND_S, name_of

RATE = 24_000
SHORT = Reply("Good day, I am glad that you call.")  # two seconds, as in the recordings
WEATHER = ToolCall("get_weather", {"city": "Paris"})
TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
SAID = "My name is Ada and I call from Paris."


class Client(OpenAIPeer):
    """A peer that reads what comes when it comes, and keeps what either side said."""

    def __init__(self, server: OpenAIRealtimeServer, dialect: Dialect) -> None:
        super().__init__(server, path=f"/v1/realtime?model={dialect.model}")
        self.server = server
        self.dialect = dialect
        self.session: list[Step] = []
        self._unread: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Client:
        await super().__aenter__()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await super().__aexit__(*exc)
        assert self._reading is not None
        await self._reading

    async def _read(self) -> None:
        try:
            async for raw in self.socket:
                message = json.loads(raw)
                self._keep(name_of(message), message)
                self._unread.put_nowait(message)
        except ConnectionClosed:
            pass

    def _keep(self, name: str, message: dict[str, Any]) -> None:
        self.session.append(Step(name, message, asyncio.get_running_loop().time()))

    async def send_raw(self, text: str) -> None:
        message = json.loads(text)
        if message["type"] != APPEND:
            self._keep(f">{name_of(message)}", message)
        await super().send_raw(text)

    async def receive(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._unread.get(), 10)

    # Steps of situations -------------------------------------------------------------------

    async def set_up(self, *, text: bool = False, tools: bool = False) -> None:
        """Wait for the session, send settings as the recorded clients do, and wait for them."""
        await self.until("session.created")
        await self.send("session.update", session=self._settings(text, [TOOL] if tools else []))
        await self.until("session.updated")

    def _settings(self, text: bool, tools: list[Any]) -> dict[str, Any]:
        detection = {"type": "server_vad", "create_response": True, "interrupt_response": True}
        modalities = ["text"] if text else ["audio"]
        given: dict[str, Any] = {"instructions": "Be brief."}
        if tools:
            given["tools"] = tools
        if self.dialect.legacy:
            return {
                **given,
                "modalities": modalities,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "input_audio_sampling_rate": RATE,
                "turn_detection": detection,
                "input_audio_transcription": {"model": "whisper-1"},
            }
        pcm = {"type": "audio/pcm", "rate": RATE}
        if self.dialect.name == "xai":
            heard = {"format": pcm, "transcription": {"model": "grok-transcribe"}}
            sides = {"input": heard, "output": {"format": pcm}}
            return {**given, "turn_detection": detection, "audio": sides}
        heard = {
            "format": pcm,
            "turn_detection": detection,
            "transcription": {"model": "gpt-realtime-whisper"},
        }
        sides = {"input": heard, "output": {"format": pcm}}
        return {**given, "type": "realtime", "output_modalities": modalities, "audio": sides}

    async def talk(self, *, paced: bool) -> None:
        """Say a sentence, with quiet before and after it, as fast as it is spoken or at once."""
        sound = audio.silence(1.5, RATE) + audio.speech(2.5, RATE) + audio.silence(1.5, RATE)
        size = round(APPEND_S * RATE) * audio.BYTES_PER_SAMPLE
        for at in range(0, len(sound), size):
            await self.send(APPEND, audio=audio.encode_audio(sound[at : at + size]))
            if paced:
                await asyncio.sleep(APPEND_S)

    async def ask(self, text: str = "How is the weather in Paris?") -> None:
        """Send a text and ask for a response."""
        await self.create_item(text)
        await self.send("response.create")

    async def answer_call(self) -> None:
        """Send the result of the call that comes next, and ask for a response to it."""
        done = await self.until("response.function_call_arguments.done")
        item = {
            "type": "function_call_output",
            "call_id": done[-1]["call_id"],
            "output": '{"weather": "sunny"}',
        }
        await self.send("conversation.item.create", item=item)
        await self.until("response.done")
        await self.send("response.create")

    async def quiet(self) -> None:
        """Wait until nothing more comes."""
        await asyncio.sleep(2)


Situation: TypeAlias = Callable[[Client], Awaitable[None]]


async def typed_turn(client: Client) -> None:
    client.server.replies.append(SHORT)
    await client.set_up()
    await client.ask()
    await client.until("response.done")


async def typed_turn_text(client: Client) -> None:
    client.server.replies.append(SHORT)
    await client.set_up(text=True)
    await client.ask()
    await client.until("response.done")


async def seeded_turn(client: Client) -> None:
    client.server.replies.append(SHORT)
    await client.set_up(text=True)
    await client.create_item("My name is Ada.")
    await client.create_item("Nice to meet you, Ada.", role="assistant")
    await client.ask("What is my name?")
    await client.until("response.done")


async def tool_round(client: Client) -> None:
    client.server.replies.extend([WEATHER, SHORT])
    await client.set_up(text=True, tools=True)
    await client.ask()
    await client.answer_call()
    await client.until("response.done")


async def tool_round_with_words(client: Client) -> None:
    said = ToolCall("get_weather", {"city": "Paris"}, say_first="Let me look that up.")
    client.server.replies.extend([said, SHORT])
    await client.set_up(text=True, tools=True)
    await client.ask()
    await client.answer_call()
    await client.until("response.done")


async def spoken_turn(client: Client) -> None:
    client.server.replies.append(Reply("I am glad that you call, and I would like to know why."))
    client.server.user_says(SAID)
    await client.set_up()
    await client.talk(paced=False)
    await client.until("response.done")


async def spoken_turn_untranscribed(client: Client) -> None:
    client.server.transcription_fails = True
    await spoken_turn(client)


async def spoken_tool_round(client: Client) -> None:
    client.server.replies.extend([WEATHER, SHORT])
    client.server.user_says(SAID)
    await client.set_up(tools=True)
    await client.talk(paced=False)
    await client.answer_call()
    await client.until("response.done")


async def three_turns(client: Client) -> None:
    await client.set_up()
    for _ in range(3):
        client.server.replies.append(SHORT)
        client.server.user_says(SAID)
        await client.talk(paced=True)
        await asyncio.sleep(1)


async def idle_caller(client: Client) -> None:
    client.server.replies.extend([SHORT, Reply("Are you still there?")])
    detection = {"type": "server_vad", "idle_timeout_ms": 6000}
    await client.turn_detection(detection)
    await client.ask()
    await client.until("response.done")
    await client.until("response.done")


async def two_messages(client: Client) -> None:
    client.server.replies.append(Messages.of("Let me think about that.", "It is sunny in Paris."))
    await client.set_up()
    await client.ask()
    await client.until("response.done")


async def session_cap(client: Client) -> None:
    await client.set_up()
    client.server.clock.advance(SESSION_CAP_S)
    await client.until("error")


SITUATIONS: Mapping[str, Situation] = {
    "typed-turn": typed_turn,
    "typed-turn-text": typed_turn_text,
    "seeded-turn": seeded_turn,
    "tool-round": tool_round,
    "tool-round-with-words": tool_round_with_words,
    "spoken-turn": spoken_turn,
    "spoken-turn-untranscribed": spoken_turn_untranscribed,
    "spoken-tool-round": spoken_tool_round,
    "three-turns": three_turns,
    "idle-caller": idle_caller,
    "two-messages": two_messages,
    "session-cap": session_cap,
}


async def play(situation: str, dialect: str) -> list[Step]:
    """What both sides say in a situation, from `session.created` on."""
    rules = DIALECTS[dialect]
    server = OpenAIRealtimeServer(dialect=rules.name)
    async with server, Client(server, rules) as client:
        await SITUATIONS[situation](client)
        await client.quiet()
        return client.session
