"""One phone call per provider whose socket is cut in mid-reply: upstream's model beside ours.

Both calls of a provider run at the same time against simulated servers on this machine, with the
same script: greeting, the caller asks, a tool runs, the reply begins, the socket is cut, the first
redial is refused. No key and no network are needed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from livekit.agents import llm
from livekit.agents.types import APIConnectOptions
from livekit.plugins import google, openai, resilient

from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    AudioFileError,
    CallEndedError,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OnConnection,
    OpenAIRealtimeServer,
    Refuse,
    Reply,
    ServerTimeoutError,
    ToolCall,
    TurnRequest,
    audio,
)

Server: TypeAlias = GeminiLiveServer | OpenAIRealtimeServer

GREETING = Reply("Hello, this is the weather line.")
FORECAST = Reply(
    "It is sunny in Paris today, with a light wind from the west, and it will stay dry until the "
    "weekend, when some rain comes in from the sea."
)
AGAIN = Reply("I am still here. The weather stays dry until the weekend.")
CALLER_WAITS_S = 4.0
"""Silence after which the caller asks whether anybody is there."""
PATIENCE_S = 8.0
MIC_RATE = 24_000
COLUMN = 46


def next_reply(request: TurnRequest) -> Reply:
    # A recorded voice with pauses is several turns, so the forecast may be asked for again.
    return FORECAST if request.connection == 1 else AGAIN


def make_server(kind: type[Server]) -> Server:
    return kind(
        [GREETING, ToolCall("get_weather", {"city": "Paris"})],
        default_reply=next_reply,
        pace=1.5,
        faults=[
            # The greeting is too short to match, so this is the forecast.
            Fault(AtAudio(GREETING.duration_s + 0.1, connection=1), Abort()),
            Fault(OnConnection(2), Refuse(503)),
        ],
    )


@dataclass
class Provider:
    name: str
    server: type[Server]
    upstream: Callable[..., llm.RealtimeModel]
    ours: Callable[..., llm.RealtimeModel]


PROVIDERS = {
    "google": Provider(
        "Gemini Live",
        GeminiLiveServer,
        google.realtime.RealtimeModel,
        resilient.google.realtime.RealtimeModel,
    ),
    "openai": Provider(
        "OpenAI Realtime",
        OpenAIRealtimeServer,
        openai.realtime.RealtimeModel,
        resilient.openai.realtime.RealtimeModel,
    ),
}


@dataclass
class Verdict:
    """What became of one call."""

    heard_again_s: float = math.inf
    errors: list[str] = field(default_factory=list)
    told: str = ""
    heard: str = ""


class Timeline:
    """Prints what happens in two calls, one column each."""

    def __init__(self) -> None:
        self._start = asyncio.get_running_loop().time()

    def tell(self, column: int, text: str) -> None:
        at_s = asyncio.get_running_loop().time() - self._start
        cells = [text if i == column else "" for i in (0, 1)]
        print(f"{at_s:6.1f} s  {cells[0]:<{COLUMN}}  {cells[1]}".rstrip(), flush=True)


class Observer:
    """Tells the timeline what is new in a call and on its server."""

    def __init__(self, call: HeadlessCall, server: Server, tell: Callable[[str], None]) -> None:
        self._call, self._server, self._tell = call, server, tell
        self._seen: set[str] = set()
        self._audible = False

    async def watch(self) -> None:
        # A display, so a look every 50 ms is fine here.
        while True:
            for key, text in self._facts():
                if key not in self._seen:
                    self._seen.add(key)
                    self._tell(text)
            if self._call.heard.playing != self._audible:
                self._audible = not self._audible
                self._tell("agent is heard" if self._audible else "agent is quiet")
            await asyncio.sleep(0.05)

    def _facts(self) -> Iterator[tuple[str, str]]:
        for index, fired in enumerate(self._server.recording.faults):
            if isinstance(fired.action, Abort):
                yield f"fault {index}", "*** the socket is cut ***"
        for dial in self._server.dials():
            if dial.status == 101:
                yield f"dial {dial.connection}", f"connection {dial.connection} is open"
            elif dial.status:
                yield f"dial {dial.connection}", f"redial is refused: HTTP {dial.status}"
        for index, error in enumerate(self._call.errors):
            kind = "recoverable" if error.recoverable else "FATAL"
            yield f"error {index}", f"error event, {kind}"
        for run in self._call.tools:
            yield f"tool {run.call_id}", f"tool {run.name} runs"
        if self._call.closed is not None:
            yield "closed", f"the session ends: {self._call.closed.reason}"


async def run_call(
    server: Server, model: llm.RealtimeModel, voice: bytes | None, tell: Callable[[str], None]
) -> Verdict:
    verdict = Verdict()
    server.user_says("What is the weather in Paris?", "Hello, are you there?")
    async with HeadlessCall(model, close_timeout_s=5.0) as call:
        observer = asyncio.create_task(Observer(call, server, tell).watch())
        try:
            await call.generate_reply(instructions="Greet the caller.")
            tell('caller: "What is the weather in Paris?"' if voice is None else "caller: --mic")
            speaking = asyncio.create_task(call.say(1.5 if voice is None else voice))
            await call.until(lambda: server.recording.faults, what="the cut")
            cut_at = server.recording.faults[0].at
            reply = await call.until(
                lambda: next((s for s in call.heard.segments if s.ended_at > cut_at), None),
                what="the end of the cut reply",
            )
            verdict.heard = FORECAST.words_until(reply.position_s)
            with contextlib.suppress(CallEndedError, ServerTimeoutError):
                await speaking
                if not await heard_again(call, reply.ended_at, CALLER_WAITS_S):
                    tell('caller: "Hello, are you there?"')
                    await call.say(1.0, seed=1)
                    await heard_again(call, reply.ended_at, PATIENCE_S)
                await asyncio.sleep(1.0)
        finally:
            observer.cancel()
        again_at = call.heard.first_audio_after(reply.ended_at + 0.01)
        if again_at is not None:
            verdict.heard_again_s = again_at - reply.ended_at
        verdict.errors = [
            f"{'recoverable' if e.recoverable else 'FATAL'} +{e.at - cut_at:.1f} s"
            for e in call.errors
        ]
    verdict.told = words_told(server)
    return verdict


async def heard_again(call: HeadlessCall, since: float, timeout_s: float) -> bool:
    """Whether the agent is heard within `timeout_s`. Raises CallEndedError."""
    try:
        await call.wait_heard(0.1, after=since + 0.01, timeout_s=timeout_s)
    except ServerTimeoutError:
        return False
    return True


def words_told(server: Server) -> str:
    """The beginning of the forecast that the last connection was given as what the agent said."""
    told = " ".join(server.recording.texts_sent(server.dials()[-1].connection))
    known = ""
    for word in FORECAST.words:
        if known + word.text not in told:
            break
        known += word.text
    return known


async def compare(provider: Provider, voice: bytes | None) -> tuple[Verdict, Verdict]:
    print(f"\n{provider.name}\n{'':10}{'upstream':<{COLUMN}}  livekit-plugins-resilient")
    timeline = Timeline()
    options = APIConnectOptions(max_retry=3, retry_interval=1.0, timeout=5.0)

    async def one(column: int, make: Callable[..., llm.RealtimeModel]) -> Verdict:
        async with make_server(provider.server) as server:
            model = make(**server.model_kwargs(conn_options=options))
            return await run_call(server, model, voice, lambda text: timeline.tell(column, text))

    upstream, ours = await asyncio.gather(one(0, provider.upstream), one(1, provider.ours))
    return upstream, ours


def print_verdicts(results: dict[str, tuple[Verdict, Verdict]]) -> None:
    rows: list[tuple[str, Callable[[Verdict], Any]]] = [
        (
            "heard again after",
            lambda v: "never" if math.isinf(v.heard_again_s) else f"{v.heard_again_s:.1f} s",
        ),
        ("error events after the cut", lambda v: ", ".join(v.errors) or "none"),
        ("caller heard of the reply", lambda v: f'"{v.heard}"'),
        ("replayed to the model", lambda v: f'"{v.told}"' if v.told else "nothing"),
    ]
    for name, verdicts in results.items():
        print(f"\nVerdict, {PROVIDERS[name].name}")
        for title, show in rows:
            for who, verdict in zip(("upstream", "ours"), verdicts, strict=True):
                print(f"  {title if who == 'upstream' else '':<28}{who:<10}{show(verdict)}")


def read_voice(path: Path) -> bytes:
    """A recording as PCM. Raises AudioFileError, also when there is no speech in it."""
    pcm = audio.load_wav(path, MIC_RATE)
    if not audio.SpeechDetector(MIC_RATE).feed(pcm):
        raise AudioFileError(f"no speech is heard in {path.name!r}: is it too quiet?")
    return pcm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mic", type=Path, metavar="FILE.wav", help="the caller's voice")
    parser.add_argument("--provider", choices=[*PROVIDERS, "both"], default="both")
    arguments = parser.parse_args()
    voice = None
    if arguments.mic is not None:
        try:
            voice = read_voice(arguments.mic)
        except AudioFileError as e:
            parser.error(f"--mic: {e}")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    names = list(PROVIDERS) if arguments.provider == "both" else [arguments.provider]

    async def run() -> dict[str, tuple[Verdict, Verdict]]:
        return {name: await compare(PROVIDERS[name], voice) for name in names}

    print_verdicts(asyncio.run(run()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
