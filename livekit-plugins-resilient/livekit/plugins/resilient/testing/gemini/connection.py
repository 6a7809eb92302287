"""One client connection of the Gemini Live simulator."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from websockets.protocol import State

from livekit.plugins.resilient.testing.connection import SimConnection
from livekit.plugins.resilient.testing.faults import (
    Action,
    CallWithoutId,
    CancelCall,
    ContinueAlone,
    EmptyHandle,
    GoAway,
    LateHandle,
    NoHandle,
    PhantomInterruption,
    PoisonHandle,
    RefuseOverlap,
    StaleHandle,
    TrailingAudio,
)
from livekit.plugins.resilient.testing.recording import Frame
from livekit.plugins.resilient.testing.script import NoReply, TurnRequest

from .codec import (
    INVALID_ARGUMENT,
    decode_client_message,
    duration_text,
    text_of,
)
from .content import take_content
from .handles import HandleDesk
from .hearing import Hearing
from .session import HistoryEntry, Session
from .setup import answer_setup
from .tools import ToolDesk
from .turns import ModelTurn
from .usage import usage_of

if TYPE_CHECKING:
    from livekit.plugins.resilient.testing.wire import Wire

    from .server import GeminiLiveServer


class GeminiConnection(SimConnection):
    """Takes the client's messages and lets the model speak."""

    server: GeminiLiveServer

    def __init__(self, server: GeminiLiveServer, wire: Wire) -> None:
        super().__init__(server, wire)
        self.rules = server.rules
        self.session: Session | None = None
        self.turn: ModelTurn | None = None
        self.tools = ToolDesk(self)
        self.handles = HandleDesk(self)
        self.hearing = Hearing(self)
        self.playback_until = 0.0
        self.trailing_audio_s = 0.0
        self.transcribes = False
        self.takes_initial_history = False
        # Set by faults, most of them before set-up.
        self.stale: StaleHandle | None = None
        self.poison: PoisonHandle | None = None
        self.continue_alone_s: float | None = None
        self._backlog: deque[TurnRequest] = deque()

    # State ---------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the client can still hear this connection, as far as the server knows."""
        return not self.closing and self.wire.state is State.OPEN

    @property
    def refuses_unknown_calls(self) -> bool:
        """Whether a tool response for an unknown call closes the connection."""
        return self.server.strict

    def require_session(self) -> Session:
        """The session; only called after set-up."""
        assert self.session is not None
        return self.session

    def declared_behavior(self, name: str) -> str | None:
        """BLOCKING or NON_BLOCKING as the client declared the tool, or None."""
        for tool in self.require_session().setup.get("tools") or []:
            for declaration in tool.get("functionDeclarations") or []:
                if declaration.get("name") == name:
                    behavior = declaration.get("behavior")
                    return None if behavior in (None, "UNSPECIFIED") else str(behavior)
        return None

    async def still_there(self, delay_s: float) -> bool:
        """Wait for `delay_s`, and say whether the client has stayed."""
        if delay_s:
            gone = self.loop.create_task(self.wire.wait_closed())
            await asyncio.wait({gone}, timeout=delay_s)
            gone.cancel()
        return self.is_open

    # Incoming ------------------------------------------------------------------------------

    async def on_open(self) -> None:
        """Nothing is sent before set-up."""

    def decode(self, raw: str | bytes) -> Frame:
        return decode_client_message(raw, self.number, self.loop.time(), strict=self.server.strict)

    async def on_frame(self, frame: Frame) -> None:
        if frame.kind == "audio":
            if self.session is not None:
                await self.hearing.hear(frame)
            elif self.answers_setup:
                self.refuse()
            return
        if not self.answers_setup:
            return
        if (frame.kind == "setup") is (self.session is not None):
            self.refuse()  # a second set-up, or anything before the first
            return
        for kind in frame.kinds:
            await self._HANDLERS[kind](self, frame)

    def refuse(self, reason: str = INVALID_ARGUMENT) -> None:
        """Close as the server does on a message it does not take."""
        self.close(1007, reason)

    async def _on_setup(self, frame: Frame) -> None:
        await answer_setup(self, frame.message["setup"])

    async def _on_content(self, frame: Frame) -> None:
        take_content(self, frame.message["clientContent"])

    async def _on_tool_response(self, frame: Frame) -> None:
        responses = frame.message["toolResponse"].get("functionResponses") or []
        anonymous = self.server.vertex or self.tools.without_id
        if self.server.strict and not anonymous and not all(r.get("id") for r in responses):
            self.refuse()
        elif not self.ignores_tool_responses:
            self.tools.take(responses)

    async def _on_context_update(self, frame: Frame) -> None:
        if self.server.strict and not self.rules.context_update:
            self.refuse()
            return
        text = text_of(frame.message["contextUpdate"].get("systemInstruction"))
        if text:
            self.learn(HistoryEntry("system", "instructions", text, self.number))

    async def _on_text(self, frame: Frame) -> None:
        text = str(frame.message["realtimeInput"]["text"])
        self.learn(HistoryEntry("user", "text", text, self.number))
        self.interrupt()
        self.ask(self.request("request", text))

    async def _on_video(self, frame: Frame) -> None:
        """Video is recorded and otherwise ignored."""

    async def _on_activity_start(self, frame: Frame) -> None:
        await self.hearing.begin()

    async def _on_activity_end(self, frame: Frame) -> None:
        await self.hearing.end()

    async def _on_audio_end(self, frame: Frame) -> None:
        await self.hearing.stream_end()

    _HANDLERS = {  # noqa: RUF012 - a table of methods
        "setup": _on_setup,
        "clientContent": _on_content,
        "toolResponse": _on_tool_response,
        "contextUpdate": _on_context_update,
        "text": _on_text,
        "video": _on_video,
        "activityStart": _on_activity_start,
        "activityEnd": _on_activity_end,
        "audioStreamEnd": _on_audio_end,
    }

    @property
    def writes(self) -> bool:
        """Whether the model answers in text and not in speech."""
        config = self.require_session().setup.get("generationConfig") or {}
        return (config.get("responseModalities") or ["AUDIO"]) == ["TEXT"]

    # The model's turns ---------------------------------------------------------------------

    def request(self, reason: Any, text: str) -> TurnRequest:
        """What the script is told about the turn that it is asked for."""
        session = self.require_session()
        return TurnRequest(reason, text, self.number, knows=tuple(session.texts()))

    def ask(self, request: TurnRequest, *, interrupt: bool = False) -> None:
        """Let the model answer now, or as soon as it and the user are quiet."""
        if interrupt and self.turn is not None and not self.hearing.speaking:
            self.interrupt()
        if self.turn is not None or (self.hearing.speaking and request.reason == "tool_result"):
            self._backlog.append(request)
            return
        plan = self.server.script.next_turn(request)
        if isinstance(plan, NoReply):
            return
        session = self.require_session()
        if session.seeded_unseen:
            session.forgetful_answers += 1
            session.seeded_unseen = False
        session.model_turns += 1
        self.turn = ModelTurn(self, plan, request)
        self.turn.begin()

    def interrupt(self) -> None:
        """Cut the running turn: what was not played is not part of the context."""
        turn = self.turn
        if turn is None or turn.stuck:
            return
        turn.stop()
        self.discard(turn)
        turn.stuck = self.wedges
        self.turn = turn if turn.stuck else None
        if not turn.waiting:
            self.commit_speech(turn.reply.words_until(turn.heard_s()))
        self.playback_until = self.loop.time()
        self.tools.cancel(blocking_only=True)
        self.emit("interrupted", {"serverContent": {"interrupted": True}})
        if not turn.stuck:
            self.complete_turn(turn)

    def commit_speech(self, text: str) -> None:
        """Let the model know what it said."""
        if text:
            self.learn(HistoryEntry("model", "speech", text, self.number))

    def turn_ends(self, turn: ModelTurn, spoken: str) -> None:
        """The turn was played to its end."""
        if self.turn is not turn:
            return
        self.turn = None
        self.commit_speech(spoken)
        self.complete_turn(turn)
        self._go_on()

    def end_wait(self) -> None:
        """The turn that waited for blocking tools goes on with their results."""
        turn = self.turn
        if turn is not None and turn.waiting:
            self.turn = None
            turn.end_of_tools()

    def _go_on(self) -> None:
        if self._backlog and self.turn is None:
            self.ask(self._backlog.popleft())

    def complete_turn(self, turn: ModelTurn) -> None:
        """Say that a turn is over."""
        content: dict[str, Any] = {"turnComplete": True}
        if self.server.dialect.grounding:
            content["groundingMetadata"] = {}
        usage = usage_of(turn, self.require_session(), self.server.dialect)
        self.emit(
            ("turnComplete", "usageMetadata"), {"serverContent": content, "usageMetadata": usage}
        )
        self.handles.offer()

    def learn(self, entry: HistoryEntry) -> None:
        """Add to the context; a full one is compressed, or closes the connection with 1007."""
        session, window = self.require_session(), self.server.context_limit_tokens
        session.add(entry)
        if not session.compress(window) and session.context_tokens > window:
            self.refuse()

    # Limits and faults ---------------------------------------------------------------------

    def go_away(self, time_left_s: float) -> None:
        """Announce the end of the connection."""
        self.emit("goAway", {"goAway": {"timeLeft": duration_text(time_left_s)}})

    def repeat_call(self) -> None:
        if self.session is not None:
            self.tools.repeat()

    def perform_provider(self, action: Action) -> None:
        match action:
            case GoAway(time_left_s=left_s, close=close, code=code, reason=reason):
                self.go_away(left_s)
                if close:
                    self.after(left_s, lambda: self.close(code, reason))
            case LateHandle() | EmptyHandle() | NoHandle():
                self.handles.mode = action
            case StaleHandle():
                self.stale = action
            case PoisonHandle():
                self.poison = action
            case RefuseOverlap():
                self.server.refuse_overlap = True
            case TrailingAudio(duration_s=duration_s):
                self.trailing_audio_s = duration_s
            case CancelCall():
                self.tools.cancel(blocking_only=False)
                turn = self.turn
                if turn is not None and turn.waiting:
                    self.turn = None
                    self.complete_turn(turn)
            case CallWithoutId():
                self.tools.without_id = True
            case ContinueAlone(delay_s=delay_s):
                self.continue_alone_s = delay_s
            case PhantomInterruption(deaf=deaf):
                self.emit("interrupted", {"serverContent": {"interrupted": True}})
                if deaf:
                    self.go_deaf()
            case _:
                super().perform_provider(action)

    def on_closed(self) -> None:
        session, turn = self.session, self.turn
        if session is None:
            return
        if turn is not None:
            turn.stop()
            if turn.reply.words and not turn.waiting:
                session.lineage.cut = (turn.reply, turn.heard_s())
        self.server.store.close(self, session, self.server.clock.now())
