"""One turn of the simulated Gemini model: audio, captions, tool calls, and their timing."""

from __future__ import annotations

import asyncio
import math
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
    Word,
)
from livekit.plugins.resilient.testing.times import pause

from .codec import OUTPUT_RATE, audio_part
from .script import CaptionsOnly

if TYPE_CHECKING:
    from .connection import GeminiConnection

THOUGHT = "The user asks for something. I shall answer in one short sentence."


class ModelTurn:
    """A turn from its first output until `turnComplete`.

    Audio is sent faster than it can be played. `generationComplete` follows the last piece;
    `turnComplete` waits until a client that plays in real time would almost be through. A turn
    that waits for a blocking tool stays open with `waiting` set.

    Attributes:
        request: why it is the model's turn.
        reply: what is said first.
        calls: the tools that are called then.
        trailing: what is said after that.
        thought: what the model thought aloud before.
        spoken_s: seconds of audio sent so far.
        stuck: it was cut and never ends.
    """

    def __init__(self, connection: GeminiConnection, plan: Turn, request: TurnRequest) -> None:
        self.connection = connection
        self.request = request
        self.reply, self.calls, self.trailing = _parts(plan)
        self.seed = connection.server.script.next_seed(connection.number)
        self.waiting = False
        self.thought = ""
        self.spoken_s = 0.0
        self.stuck = False
        self._dialect = connection.server.dialect
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
        await self._think()
        connection.handles.turn_begins()
        if connection.take_empty_turn() or not (self.reply.words or self.calls):
            connection.turn_ends(self, spoken="")
            return
        self._think_aloud()
        self._paced_from = connection.loop.time()
        await self._speak(self.reply)
        if self.calls:
            if not self.reply.words:
                self._mark_caption({})
            blocks = connection.tools.call(self, self.calls)
            trailing = self.trailing.words or connection.trailing_audio_s
            if blocks and not trailing:
                connection.commit_speech(self.reply.text)
                self.waiting = True
                return
            await self._speak_after_calls()
        await self._complete()
        await self._play_out()
        text = " ".join(part.text for part in (self.reply, self.trailing) if part.text)
        connection.turn_ends(self, spoken=text)

    def end_of_tools(self) -> None:
        """The tools that the turn waited for have answered."""
        if self._dialect.ends_tool_turns:
            if not self.reply.words:
                self._mark_caption({"finished": True})
            self._emit_complete()
            self.connection.complete_turn(self)

    # Before the first output ---------------------------------------------------------------

    async def _think(self) -> None:
        """Wait as long as the model takes to its first output, and stir where it would."""
        connection, times = self.connection, self.connection.server.times
        thinks_s = self.reply.first_token_s
        if thinks_s is None:
            thinks_s = times.first_output_s
        await pause(connection.take_reply_delay())
        stirs_s = min(times.stirs_s, thinks_s)
        await pause(thinks_s - stirs_s)
        self._emit_empty()
        if self._dialect.empty_content:
            connection.emit("empty", {"serverContent": {}}, turn=self)
        await pause(stirs_s)

    def _think_aloud(self) -> None:
        if not self._dialect.thinks_aloud or self.calls or self.request.reason == "tool_result":
            return
        self.thought = THOUGHT
        content = {"modelTurn": {"parts": [{"text": self.thought, "thought": True}]}}
        self.connection.emit("thought", {"serverContent": content}, turn=self)

    def _emit_empty(self) -> None:
        if self._dialect.empty_messages:
            self.connection.emit("empty", {}, turn=self)

    # Speech --------------------------------------------------------------------------------

    async def _speak_after_calls(self) -> None:
        if self.trailing.words:
            await self._speak(self.trailing)
        elif self.connection.trailing_audio_s:
            # A transcript marker and audio without words, as in the reports.
            self._emit_caption("")
            pcm = audio.speech(self.connection.trailing_audio_s, OUTPUT_RATE, self.seed)
            for start_s in self._steps(self.connection.trailing_audio_s):
                await self._emit_audio(pcm, start_s, "")

    async def _speak(self, reply: Reply) -> None:
        if not reply.words:
            return
        if self.connection.writes:
            await self._write(reply)
            return
        if isinstance(reply, CaptionsOnly):
            self._emit_caption(reply.text)
            return
        self._mark_caption({})
        pcm = reply.pcm(OUTPUT_RATE, self.seed)
        left = list(reply.words)
        paused = reply.pause_at_s is None
        if self._dialect.caption_burst_s is None:
            left = self._caption_before(
                left, self._captioned_until(reply, 0.0), piece_by_piece=True
            )
            if not left:
                self._mark_caption({"finished": True})
        for start_s in self._steps(reply.duration_s):
            if not paused and start_s >= (reply.pause_at_s or 0.0) - 1e-9:
                paused = True
                self._paced_from += reply.pause_s
                await asyncio.sleep(reply.pause_s)
            until_s = self._captioned_until(reply, start_s)
            if not self._packs:
                left = self._caption_before(left, until_s)
                await self._emit_audio(pcm, start_s, "")
                continue
            first = len(left)
            said = "".join(word.text for word in left if word.start_s < until_s - 1e-9)
            left = [word for word in left if word.start_s >= until_s - 1e-9]
            await self._emit_audio(pcm, start_s, said if len(left) < first else "")
        if left:
            self._caption_before(left, math.inf)
            self._mark_caption({"finished": True})

    @property
    def _packs(self) -> bool:
        return self._dialect.packs_parts and self.connection.transcribes

    def _captioned_until(self, reply: Reply, at_s: float) -> float:
        """Up to which place in the audio captions are out, once the audio at `at_s` is sent."""
        lead_s = reply.transcript_lead_s
        if lead_s is None:
            lead_s = self.connection.transcript_lead_s
        burst_s = self._dialect.caption_burst_s
        if burst_s is None:
            # Whole, ahead of everything, unless it was made to lag.
            return math.inf if lead_s >= 0 else at_s + self._dialect.frame_s + lead_s
        return (math.floor(at_s / burst_s + 1e-9) + 1) * burst_s + lead_s

    def _caption_before(
        self, words: list[Word], until_s: float, *, piece_by_piece: bool = False
    ) -> list[Word]:
        """Send the caption of the words that begin before `until_s`; return the others."""
        now = [word.text for word in words if word.start_s < until_s - 1e-9]
        for text in now if piece_by_piece else filter(None, ["".join(now)]):
            self._emit_caption(text)
        return words[len(now) :]

    async def _write(self, reply: Reply) -> None:
        """Send the reply as text; `pause_at_s` counts as if it were spoken."""
        for word in reply.words:
            if reply.pause_at_s is not None and word.start_s <= reply.pause_at_s < word.end_s:
                await asyncio.sleep(reply.pause_s)
            content = {"modelTurn": {"role": "model", "parts": [{"text": word.text}]}}
            self.connection.emit("modelTurn", {"serverContent": content}, turn=self)

    async def _emit_audio(self, pcm: bytes, start_s: float, caption: str) -> None:
        """Send one piece of audio, when it is due, and the caption that goes with it."""
        connection = self.connection
        if connection.server.pace is not None:
            due = self._paced_from + self.spoken_s / connection.server.pace
            await pause(due - connection.loop.time())
        if self._playback_from is None:
            self._playback_from = max(connection.loop.time(), connection.playback_until)
        piece = self._cut(pcm, start_s)
        length_s = audio.duration_of(piece, OUTPUT_RATE)
        span = AudioSpan(self.spoken_s, self.spoken_s + length_s, piece)
        self.spoken_s = span.end_s
        content: dict[str, Any] = {"modelTurn": audio_part(piece, self._dialect)}
        kinds: tuple[str, ...] = ("modelTurn",)
        if caption:
            content["outputTranscription"] = {"text": caption}
            kinds = ("modelTurn", "outputTranscription")
        self._emit_empty()
        connection.emit(kinds, {"serverContent": content}, turn=self, span=span)

    def _emit_caption(self, text: str) -> None:
        self._emit_transcription({"text": text})

    def _mark_caption(self, mark: dict[str, bool]) -> None:
        if self._dialect.marks_captions:
            self._emit_transcription(mark)

    def _emit_transcription(self, caption: dict[str, Any]) -> None:
        if self.connection.transcribes:
            content = {"outputTranscription": caption}
            self.connection.emit("outputTranscription", {"serverContent": content}, turn=self)

    def _steps(self, duration_s: float) -> list[float]:
        frame_s = self._dialect.frame_s
        count = int((duration_s - 1e-9) / frame_s) + 1 if duration_s > 0 else 0
        return [index * frame_s for index in range(count)]

    def _cut(self, pcm: bytes, start_s: float) -> bytes:
        size = audio.BYTES_PER_SAMPLE
        first = round(start_s * OUTPUT_RATE) * size
        return pcm[first : first + round(self._dialect.frame_s * OUTPUT_RATE) * size]

    # After the last output -----------------------------------------------------------------

    async def _complete(self) -> None:
        await pause(self.connection.server.times.complete_s)
        self._emit_complete()

    def _emit_complete(self) -> None:
        self.connection.emit(
            "generationComplete", {"serverContent": {"generationComplete": True}}, turn=self
        )

    async def _play_out(self) -> None:
        connection = self.connection
        if self._playback_from is None:
            return
        connection.playback_until = self._playback_from + self.spoken_s
        if connection.server.assume_playback:
            ends_at = connection.playback_until - connection.server.times.left_s
            await pause(ends_at - connection.loop.time())


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
