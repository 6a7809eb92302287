"""One turn of the simulated Gemini model: audio, transcript, tool calls, and their timing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.connection import AudioSpan
from livekit.plugins.resilient.testing.script import (
    NoReply,
    Reply,
    ToolCall,
    ToolCalls,
    Turn,
    TurnRequest,
)

from .codec import OUTPUT_RATE, audio_part

if TYPE_CHECKING:
    from .connection import GeminiConnection

CHUNK_S = 0.04


class ModelTurn:
    """A turn from its first output until `turnComplete`.

    Audio is sent faster than it can be played. `generationComplete` follows the last piece at
    once; `turnComplete` waits until a client that plays in real time would be through. A turn that
    waits for a blocking tool stays open with `waiting` set.
    """

    def __init__(self, connection: GeminiConnection, plan: Turn, request: TurnRequest) -> None:
        self.connection = connection
        self.request = request
        self.reply, self.calls, self.trailing = _parts(plan)
        self.seed = connection.server.script.next_seed()
        self.waiting = False
        self.spoken_s = 0.0
        self._playback_from: float | None = None
        self._paced_from = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to speak."""
        self._task = self.connection.spawn(self._run())

    def stop(self) -> None:
        """Say no more."""
        if self._task is not None:
            self._task.cancel()

    def heard_s(self) -> float:
        """Seconds of this turn's audio that a client playing in real time has played by now."""
        if self._playback_from is None:
            return 0.0
        elapsed = self.connection.loop.time() - self._playback_from
        return min(max(0.0, elapsed), self.spoken_s)

    async def _run(self) -> None:
        connection = self.connection
        delay_s = connection.take_reply_delay() + self.reply.first_token_s
        if delay_s:
            await asyncio.sleep(delay_s)
        connection.handles.turn_begins()
        if connection.take_empty_turn() or not (self.reply.words or self.calls):
            connection.turn_ends(self, spoken="")
            return
        self._paced_from = connection.loop.time()
        await self._speak(self.reply)
        if self.calls:
            blocks = connection.tools.call(self, self.calls)
            trailing = self.trailing.words or connection.trailing_audio_s
            if blocks and not trailing:
                connection.commit_speech(self.reply.text)
                self.waiting = True
                return
            await self._speak_after_calls()
        connection.emit(
            "generationComplete", {"serverContent": {"generationComplete": True}}, turn=self
        )
        await self._play_out()
        text = " ".join(part.text for part in (self.reply, self.trailing) if part.text)
        connection.turn_ends(self, spoken=text)

    async def _speak_after_calls(self) -> None:
        if self.trailing.words:
            await self._speak(self.trailing)
        elif self.connection.trailing_audio_s:
            # A transcript marker and audio without words, as in the reports.
            self._emit_transcript("")
            pcm = audio.speech(self.connection.trailing_audio_s, OUTPUT_RATE, self.seed)
            for start_s in _steps(self.connection.trailing_audio_s):
                await self._emit_audio(pcm, start_s, "")

    async def _speak(self, reply: Reply) -> None:
        connection = self.connection
        lead_s = reply.transcript_lead_s
        if lead_s is None:
            lead_s = connection.transcript_lead_s
        if connection.writes:
            await self._write(reply)
            return
        pcm = reply.pcm(OUTPUT_RATE, self.seed)
        words, said = reply.words, 0
        paused = reply.pause_at_s is None
        for start_s in _steps(reply.duration_s):
            if not paused and start_s >= (reply.pause_at_s or 0.0) - 1e-9:
                paused = True
                self._paced_from += reply.pause_s
                await asyncio.sleep(reply.pause_s)
            until_s = start_s + CHUNK_S + lead_s
            first = said
            while said < len(words) and words[said].start_s < until_s - 1e-9:
                said += 1
            await self._emit_audio(pcm, start_s, "".join(w.text for w in words[first:said]))
        if said < len(words):
            self._emit_transcript("".join(w.text for w in words[said:]))

    async def _write(self, reply: Reply) -> None:
        """Send the reply as text; `pause_at_s` counts as if it were spoken."""
        for word in reply.words:
            if reply.pause_at_s is not None and word.start_s <= reply.pause_at_s < word.end_s:
                await asyncio.sleep(reply.pause_s)
            content = {"modelTurn": {"role": "model", "parts": [{"text": word.text}]}}
            self.connection.emit("modelTurn", {"serverContent": content}, turn=self)

    async def _emit_audio(self, pcm: bytes, start_s: float, text: str) -> None:
        connection = self.connection
        if connection.server.pace is not None:
            due = self._paced_from + self.spoken_s / connection.server.pace
            wait_s = due - connection.loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
        if self._playback_from is None:
            self._playback_from = max(connection.loop.time(), connection.playback_until)
        piece = _cut(pcm, start_s)
        length_s = audio.duration_of(piece, OUTPUT_RATE)
        span = AudioSpan(self.spoken_s, self.spoken_s + length_s, piece)
        self.spoken_s = span.end_s
        content: dict[str, Any] = {"modelTurn": audio_part(piece)}
        kinds: tuple[str, ...] = ("modelTurn",)
        packed = bool(text) and connection.transcribes and connection.rules.packs_parts
        if packed:
            content["outputTranscription"] = {"text": text}
            kinds = ("modelTurn", "outputTranscription")
        connection.emit(kinds, {"serverContent": content}, turn=self, span=span)
        if text and not packed:
            self._emit_transcript(text)

    def _emit_transcript(self, text: str) -> None:
        if self.connection.transcribes:
            self.connection.emit(
                "outputTranscription",
                {"serverContent": {"outputTranscription": {"text": text}}},
                turn=self,
            )

    async def _play_out(self) -> None:
        connection = self.connection
        if self._playback_from is None:
            return
        connection.playback_until = self._playback_from + self.spoken_s
        if connection.server.assume_playback:
            wait_s = connection.playback_until - connection.loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)


def _parts(plan: Turn) -> tuple[Reply, tuple[ToolCall, ...], Reply]:
    """What is said first, which tools are called, and what is said after."""
    nothing = Reply("")
    if isinstance(plan, Reply):
        return plan, (), nothing
    if isinstance(plan, ToolCall):
        return Reply(plan.say_first), (plan,), Reply(plan.trailing_text)
    if isinstance(plan, ToolCalls):
        return Reply(plan.say_first), plan.calls, Reply(plan.calls[-1].trailing_text)
    assert isinstance(plan, NoReply)
    raise ValueError("a turn without a reply is not performed")


def _steps(duration_s: float) -> list[float]:
    count = int((duration_s - 1e-9) / CHUNK_S) + 1 if duration_s > 0 else 0
    return [index * CHUNK_S for index in range(count)]


def _cut(pcm: bytes, start_s: float) -> bytes:
    size = audio.BYTES_PER_SAMPLE
    first = round(start_s * OUTPUT_RATE) * size
    return pcm[first : first + round(CHUNK_S * OUTPUT_RATE) * size]
