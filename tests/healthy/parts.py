"""Parts of an application that needs no network: a VAD, a TTS, a turn detector, agents."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentTask, RunContext, ToolError, llm, tts, vad
from livekit.agents.llm import function_tool
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS, APIConnectOptions

from livekit.plugins.resilient.testing import CallAgent, Reply, audio
from livekit.plugins.resilient.testing.server import SimulatedServer
from livekit.plugins.resilient.testing.virtual_time import VirtualTimeLoop

_QUIET_S = 0.55
_LOUD_S = 0.06


def stall(seconds: float, server: SimulatedServer) -> None:
    """Block the event loop of the client, but not the server."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(seconds, but=server)


class EnergyVAD(vad.VAD):
    """Hears speech by its energy: in the place of a model that would have to be installed."""

    def __init__(self) -> None:
        super().__init__(capabilities=vad.VADCapabilities(update_interval=0.06))

    def stream(self) -> vad.VADStream:
        return _EnergyStream(self)


class _EnergyStream(vad.VADStream):
    async def _main_task(self) -> None:
        self._samples = 0
        self._start_over()
        async for frame in self._input_ch:
            if isinstance(frame, rtc.AudioFrame):
                self._hear(frame)
            else:
                self._start_over()

    def _start_over(self) -> None:
        self._speaking = False
        self._loud_s = self._quiet_s = 0.0
        self._frames: list[rtc.AudioFrame] = []

    def _hear(self, frame: rtc.AudioFrame) -> None:
        self._samples += frame.samples_per_channel
        loud = audio.rms(frame.data.tobytes()) > audio.SPEECH_THRESHOLD
        if loud:
            self._loud_s, self._quiet_s = self._loud_s + frame.duration, 0.0
        else:
            self._quiet_s += frame.duration
            self._loud_s = self._loud_s if self._speaking else 0.0
        if loud or self._speaking:
            self._frames.append(frame)
        if not self._speaking and self._loud_s >= _LOUD_S:
            self._speaking = True
            self._tell(vad.VADEventType.START_OF_SPEECH, loud)
        self._tell(vad.VADEventType.INFERENCE_DONE, loud)
        if self._speaking and self._quiet_s >= _QUIET_S:
            self._speaking = False
            self._tell(vad.VADEventType.END_OF_SPEECH, loud)
            self._start_over()

    def _tell(self, kind: vad.VADEventType, loud: bool) -> None:
        self._event_ch.send_nowait(
            vad.VADEvent(
                type=kind,
                samples_index=self._samples,
                timestamp=time.time(),
                speech_duration=self._loud_s,
                silence_duration=self._quiet_s,
                frames=list(self._frames),
                probability=float(loud),
                speaking=self._speaking,
                raw_accumulated_silence=self._quiet_s,
                raw_accumulated_speech=self._loud_s,
            )
        )


class ToneTTS(tts.TTS[Any]):
    """Speaks any text as the simulators' model would."""

    RATE = 24_000

    def __init__(self) -> None:
        super().__init__(
            capabilities=tts.TTSCapabilities(streaming=False),
            sample_rate=self.RATE,
            num_channels=1,
        )

    def synthesize(
        self, text: str, *, conn_options: APIConnectOptions = DEFAULT_API_CONNECT_OPTIONS
    ) -> tts.ChunkedStream:
        return _Tone(tts=self, input_text=text, conn_options=conn_options)


class _Tone(tts.ChunkedStream):
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="tone",
            sample_rate=ToneTTS.RATE,
            num_channels=1,
            mime_type="audio/pcm",
        )
        await asyncio.sleep(0.2)
        output_emitter.push(Reply(self.input_text).pcm(ToneTTS.RATE, seed=99))
        output_emitter.flush()


class PatientDetector:
    """A turn detector that holds every turn to be over after all."""

    model = "patient"
    provider = "tests"

    async def unlikely_threshold(self, language: Any) -> float | None:
        return 0.3

    async def supports_language(self, language: Any) -> bool:
        return True

    async def predict_end_of_turn(
        self, chat_ctx: llm.ChatContext, *, timeout: float | None = None
    ) -> float:
        await asyncio.sleep(0.05)
        return 0.9


class Desk(CallAgent):
    """An agent with a tool of each kind; `get_weather` is that of `CallAgent`.

    Attributes:
        server: the server of the call; a script sets it for `block`.
    """

    server: SimulatedServer

    @function_tool
    async def get_time(self, city: str) -> str:
        """Tell the time in a city."""
        await asyncio.sleep(1.0)
        return "noon"

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        raise ToolError("we are closed on that day")

    @function_tool
    async def crash(self) -> str:
        """Fail for a reason of its own."""
        raise LookupError("no such record")

    @function_tool
    async def block(self, seconds: float) -> str:
        """Do something that blocks the event loop."""
        stall(seconds, self.server)
        return "done"

    @function_tool
    async def note(self, text: str) -> None:
        """Note something down; there is nothing to say about it."""

    @function_tool
    async def transfer(self) -> Agent:
        """Hand the caller over to a colleague."""
        return Colleague()

    @function_tool
    async def ask_name(self, context: RunContext[Any]) -> str:
        """Ask the caller for a name."""
        return await AskName()

    @function_tool
    async def look_up(self, context: RunContext[Any]) -> str:
        """Look something up, and keep the caller company meanwhile."""
        await context.session.generate_reply(instructions="Say that it takes a moment.")
        await asyncio.sleep(2.0)
        return "found"


class Colleague(CallAgent):
    """The agent that a call is handed over to; it greets."""

    async def on_enter(self) -> None:
        self.session.generate_reply(instructions="Introduce yourself.")


class AskName(AgentTask[str]):
    """Asks for a name and is done when the model has it."""

    def __init__(self) -> None:
        super().__init__(instructions="Ask for the caller's name.")

    async def on_enter(self) -> None:
        self.session.generate_reply(instructions="Ask for the name.")

    @function_tool
    async def name_is(self, name: str) -> None:
        """Take the caller's name."""
        self.complete(name)
