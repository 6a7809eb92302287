"""The caller's turns where the server does not detect them: push-to-talk, a detector of the app's.

`automatic_activity_detection` is off then, and the client says when the caller speaks. Also where
it does detect them, right after an outage: the request that is issued again then may cut what the
server makes of the caller's last words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from google.genai import types

from ..core import facts as f

if TYPE_CHECKING:
    from .._vendor.google.api_proto import ClientEvents
    from ..options import ResilienceOptions
    from ..runtime.driver import Driver
    from .engine import Engine
    from .inbound import InboundEvents
    from .serving import Serving

__all__ = ["Activity"]


class Activity:
    """Follows what one session is told of its caller, and tells interruptions of ours from theirs.

    A server that detects nothing stops a reply only because of what it is sent: an activity, which
    is the caller, or a request, which is not (R18). Upstream takes either for the caller, and its
    `AgentSession` then begins an activity that nobody ends (livekit/agents#5408).

    Args:
        engine: Of the session, as all that follow.
        driver: Gets facts.
        serving: Tells whether a connection serves.
        inbound: Knows what the server has understood.
        options: The application's.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        inbound: InboundEvents,
        options: ResilienceOptions,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._inbound = inbound
        self._kept_s = options.gap_audio_s or 0.0
        self._listens = options.speech_hint
        # The generation that began first since the model was last asked for a reply.
        self._answers: str | None = None
        self._asked = False
        # When that was a request issued again, behind what an outage kept of the caller.
        self._reissued_at: float | None = None
        # What our request cut is still to end.
        self._cut_turn_ends = False
        self._captions = ""
        # The last activity, and the last connection.
        self._began_at = self._ended_at = float("-inf")
        self._served_at = self._lost_at = float("-inf")
        self.ended_in_gap = False
        """Whether an activity ended while no connection served."""
        self.words_lost = False
        """Whether the connection that serves was never given the words of the last one."""

    @property
    def held(self) -> bool:
        """Whether the caller speaks, as the application says."""
        return self._engine.marks_activity and self._engine.in_activity

    @property
    def released(self) -> bool:
        """Whether only the application could say that the caller speaks, and it does not."""
        return self._engine.marks_activity and not self._engine.in_activity

    @property
    def captions(self) -> str:
        """The words of the caller that wait for the generation which answers them."""
        return self._captions

    def sending(self, event: ClientEvents) -> None:
        """Look at an event on its way to the server."""
        driver, connected = self._driver, self._serving.connected
        if isinstance(event, types.LiveClientContent) and event.turn_complete:
            self._asked, self._answers = True, None
            self._reissued_at = None
        if not isinstance(event, types.LiveClientRealtimeInput):
            return
        if event.activity_start:
            self._began_at = driver.now
            self.ended_in_gap = self.words_lost = False
            if connected:
                driver.feed(f.UserSpeechStarted(driver.now))
        elif event.activity_end:
            self._ended_at = driver.now
            if connected:
                driver.feed(f.UserSpeechStopped(driver.now))
                driver.feed(f.UserTurnEnded(driver.now))
            else:
                self.ended_in_gap = self._serving.log.was_connected

    def reissued(self) -> None:
        """A request was issued again."""
        self._reissued_at = self._driver.now

    def disconnected(self) -> None:
        """No connection serves any more."""
        self._lost_at = self._driver.now

    def connected(self, fact: f.Connected) -> f.Connected:
        """Say what a new connection can know of the caller's turn."""
        self._asked, self._cut_turn_ends, self._reissued_at = False, False, None
        if not self._engine.marks_activity:
            return fact
        now, lost_at = self._driver.now, self._lost_at
        ended_at = now if self.held else self._ended_at
        if lost_at < self._served_at:
            lost_at = now  # it took over from the one before
        cut = self._began_at < lost_at or ended_at - self._began_at > self._kept_s
        self._served_at = now
        self.words_lost = fact.words_lost and cut and ended_at > self._inbound.understood_at
        return replace(fact, words_lost=self.words_lost, speaking=self.held)

    def opened(self, generation_id: str) -> None:
        """A generation began."""
        if self._asked:
            self._asked, self._answers = False, generation_id

    def strip(self, message: types.LiveServerMessage) -> None:
        """Take out of a message what would begin or end a turn of the model's too soon."""
        if self._engine.marks_activity:
            self._hold_captions(message)
        elif self._reissued_at is None:
            return
        content = message.server_content
        if content is None or self.held:
            return
        # The server answers the end of an activity by itself. The request that upstream sends with
        # it cuts that answer, and the one to the request goes into the same generation.
        if content.interrupted and self._cuts_own_answer():
            self._cut_turn_ends = True
            content.interrupted = None
        if not self._cut_turn_ends:
            return
        if content.turn_complete:
            content.turn_complete = content.generation_complete = None
            self._cut_turn_ends = False
        elif content.model_turn or content.output_transcription:
            self._cut_turn_ends = False

    def _hold_captions(self, message: types.LiveServerMessage) -> None:
        """Keep what is transcribed of a held turn for the generation that answers it.

        Upstream begins a generation for it, for whose end its `AgentSession` then waits before it
        ends the activity, without which the server does not go on.
        """
        content = message.server_content
        caption = content.input_transcription if content is not None else None
        if self.held:
            if content is not None and caption is not None:
                self._captions += caption.text or ""
                content.input_transcription = None
            return
        begins = message.tool_call or (
            content and (caption or content.model_turn or content.output_transcription)
        )
        reply = self._engine.open_reply
        is_free = reply is None or reply.response_id == self._answers
        if self._captions and begins and is_free:
            content = message.server_content = content or types.LiveServerContent()
            text = self._captions + ((caption.text or "") if caption else "")
            content.input_transcription = types.Transcription(text=text)
            self._captions = ""

    def _cuts_own_answer(self) -> bool:
        reply = self._engine.open_reply
        if reply is None or reply.text_ch.closed or reply.response_id != self._answers:
            return False
        if self._reissued_at is None or self._engine.marks_activity:
            return self._engine.marks_activity
        # Where the server detects turns, the caller may have cut in: on output, or with words.
        spoke_at = self._driver.heard_speech_at
        is_quiet = self._listens and (spoke_at is None or spoke_at < self._reissued_at)
        return is_quiet and not self._inbound.has_begun(reply.response_id)
