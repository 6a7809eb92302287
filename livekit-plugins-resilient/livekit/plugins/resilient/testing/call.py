"""A whole phone call without a phone: a real `AgentSession` between a script and a loudspeaker.

    async with HeadlessCall(model) as call:
        await call.generate_reply(instructions="greet the caller")
        await call.say(1.0)
        reply = await call.reply()
        assert call.dead_air() < 1.0

It works with any `llm.RealtimeModel`. On a `VirtualTimeLoop` a call takes only its CPU time; on any
other loop it runs in real time. No room, no key, no network beyond what the model itself opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from livekit.agents import Agent, AgentSession, llm
from livekit.agents.utils import http_context
from livekit.agents.voice import events as agent_events
from livekit.agents.voice.speech_handle import SpeechHandle

from . import owned_tasks
from .call_agent import CallAgent, Captions
from .call_log import (
    CallEvent,
    ErrorSeen,
    GenerationCreated,
    HistoryItem,
    Reconnected,
    SessionClosed,
    StateChanged,
    ToolRun,
    UserHeard,
    ended_error,
    history_of,
)
from .changes import Changes
from .devices import PacedSpeaker, ScriptedMicrophone, Speech, Utterance
from .errors import CallEndedError
from .heard import HeardSegment

_T = TypeVar("_T")

DEFAULT_TIMEOUT_S = 60.0
"""Loop time that a wait may take: far more than any provider's answer, and free in virtual time."""

CLOSE_TIMEOUT_S = 10.0
"""Loop time after which closing is given up and reported in `close_problem`."""

SESSION_DEFAULTS: Mapping[str, Any] = {
    "vad": None,
    "turn_handling": {"turn_detection": "realtime_llm"},
    # The echo-canceller warm-up would replace the caller's first seconds by silence.
    "aec_warmup_duration": None,
    "user_away_timeout": None,
}
"""`AgentSession` keywords of every call; `session_options` overrides them."""

_BUSY_STATES = ("thinking", "speaking", "initializing")


class HeadlessCall:
    """One call. Use it as an async context manager; leaving it hangs up.

    Every method that waits raises CallEndedError where the call ended before what it waits for,
    and ServerTimeoutError where that did not happen in time.

    Args:
        model: the model under test, closed with the call.
        agent: the agent; by default a `CallAgent` with `instructions` and `tools`.
        mic: the caller's microphone.
        speaker: the caller's loudspeaker.
        session_options: keywords for `AgentSession`, over `SESSION_DEFAULTS`.
        close_timeout_s: loop time that hanging up may take, or a failed session's own close.
    """

    def __init__(
        self,
        model: llm.RealtimeModel,
        *,
        agent: Agent | None = None,
        instructions: str = "Be brief.",
        tools: Sequence[llm.Tool | llm.Toolset] = (),
        mic: ScriptedMicrophone | None = None,
        speaker: PacedSpeaker | None = None,
        session_options: Mapping[str, Any] | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
    ) -> None:
        if not isinstance(model, llm.RealtimeModel):
            raise TypeError(f"model must be an llm.RealtimeModel, not {type(model).__name__}")
        for name, given, wanted in (
            ("agent", agent, Agent),
            ("mic", mic, ScriptedMicrophone),
            ("speaker", speaker, PacedSpeaker),
        ):
            if given is not None and not isinstance(given, wanted):
                raise TypeError(
                    f"{name} must be of type {wanted.__name__}, not {type(given).__name__}"
                )
        if not close_timeout_s > 0:
            raise ValueError(f"close_timeout_s must be positive, not {close_timeout_s}")
        self.model = model
        self.agent = agent or CallAgent(instructions=instructions, tools=tools)
        self.mic = mic or ScriptedMicrophone()
        self.heard = speaker or PacedSpeaker()
        self.changes = self.mic.changes = self.heard.changes = Changes()
        self.captions = Captions(self.changes)
        self.events: list[CallEvent] = []
        self.tools: list[ToolRun] = []
        self.close_problem: BaseException | None = None
        """What went wrong while hanging up: the error that closing raised, or a TimeoutError."""
        self._options = {**SESSION_DEFAULTS, **(session_options or {})}
        self._close_timeout_s = close_timeout_s
        self._session: AgentSession[Any] | None = None
        self._context: contextvars.Context | None = None
        self._host: asyncio.Task[None] | None = None
        self._hang_up = asyncio.Event()
        self._speeches: list[SpeechHandle] = []
        self._mark = -math.inf
        self._doom: asyncio.TimerHandle | None = None

    # Life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> HeadlessCall:
        loop = asyncio.get_running_loop()
        owned_tasks.track(loop)
        started: asyncio.Future[None] = loop.create_future()
        # One task holds everything, because what it opens must be closed in the same context.
        self._host = owned_tasks.context_of(self).run(
            loop.create_task, self._run(started), name="HeadlessCall"
        )
        await asyncio.wait({started, self._host}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            await self._host
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up. Never raises; a problem is left in `close_problem`. Takes at most
        `close_timeout_s`, whatever the model does."""
        if self._host is None:
            return
        self._hang_up.set()
        _, pending = await asyncio.wait({self._host}, timeout=self._close_timeout_s)
        if pending:
            self.close_problem = TimeoutError(f"no end within {self._close_timeout_s:g} s")
            self._host.cancel()
            await asyncio.wait({self._host}, timeout=1.0)
        elif not self._host.cancelled() and (error := self._host.exception()) is not None:
            self.close_problem = error
        self._end()
        if leftover := owned_tasks.unfinished(self):
            await asyncio.wait(leftover, timeout=1.0)

    def leftover_tasks(self) -> list[str]:
        """Names of the tasks that the call started and that still run; empty after a clean end."""
        return sorted(task.get_name() for task in owned_tasks.unfinished(self))

    # The caller and the app ----------------------------------------------------------------

    async def say(
        self, speech: Speech = 1.0, *, seed: int = 0, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Utterance:
        """Speak, and return when the last sample was pushed.

        `speech` is a number of seconds, PCM at the microphone's rate, or the path of a WAV file.
        `timeout_s` is allowed on top of the time that the speech itself takes.
        """
        self._mark = self.now
        utterance = self.mic.say(speech, seed=seed)
        await self.until(
            lambda: utterance.over,
            timeout_s=self.mic.pending_s + timeout_s,
            what="the end of what the caller says (the session must read the microphone)",
        )
        await utterance.wait()  # raises if it was cut short
        return utterance

    async def generate_reply(
        self,
        *,
        instructions: str | None = None,
        user_input: str | None = None,
        wait: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> SpeechHandle:
        """Have the app ask for a reply; return its handle when it was spoken, or at once.

        The handle's `exception()` tells whether the request failed.
        """
        self._mark = self.now
        options = {"instructions": instructions, "user_input": user_input}
        given = {name: value for name, value in options.items() if value is not None}
        try:
            handle = self._inside(self.session.generate_reply, **given)
        except RuntimeError:
            if self._has_ended:
                raise self._why_ended() from None
            raise
        if wait:
            await self.until(handle.done, timeout_s=timeout_s, what="the end of the reply")
        return handle

    # Waiting -------------------------------------------------------------------------------

    async def until(
        self,
        check: Callable[[], _T | None],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        what: str = "the condition",
    ) -> _T:
        """Return the first true value of `check`, asked now and after everything recorded here.

        Raises:
            ServerTimeoutError: `what` did not happen within `timeout_s` seconds of loop time.
            CallEndedError: the call ended before.
        """
        return await self.changes.until(check, timeout_s=timeout_s, what=what)

    async def reply(
        self, *, after: float | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> HeardSegment:
        """Return the first segment that began at `after` or later, once it has been heard.

        `after` is a loop time; by default that of the latest `say` or `generate_reply`. The
        session writes its history a little later: call `agent_done` before you look there.
        """
        since = self._mark if after is None else after
        return await self.until(
            lambda: next(
                (s for s in self.heard.segments if s.started_at and s.started_at >= since), None
            ),
            timeout_s=timeout_s,
            what="a reply that was heard to its end",
        )

    async def agent_done(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Return when no speech is under way and the loudspeaker is quiet."""
        await self.until(self._is_idle, timeout_s=timeout_s, what="a quiet agent")

    async def wait_heard(
        self,
        seconds: float,
        *,
        after: float | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> float:
        """Return the loop time once the caller has heard `seconds` since `after` (see `reply`)."""
        since = self._mark if after is None else after
        return await self.heard.wait_heard(seconds, after=since, timeout_s=timeout_s)

    async def wait_error(
        self, *, recoverable: bool | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ErrorSeen:
        """Return the first error, or the first with this `recoverable` flag."""
        return await self.until(
            lambda: next((e for e in self.errors if recoverable in (None, e.recoverable)), None),
            timeout_s=timeout_s,
            what="an error event",
        )

    # What happened -------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Loop time."""
        return asyncio.get_running_loop().time()

    @property
    def session(self) -> AgentSession[Any]:
        """The running session. Raises RuntimeError before the call."""
        if self._session is None:
            raise RuntimeError("the call has not started; use it with 'async with'")
        return self._session

    @property
    def realtime_session(self) -> llm.RealtimeSession[Any]:
        """The model's session. Raises RuntimeError once it is gone."""
        return self.agent.realtime_llm_session

    @property
    def errors(self) -> list[ErrorSeen]:
        """The `error` events so far."""
        return [event for event in self.events if isinstance(event, ErrorSeen)]

    @property
    def closed(self) -> SessionClosed | None:
        """The `close` event, if it was emitted."""
        return next((e for e in self.events if isinstance(e, SessionClosed)), None)

    @property
    def history(self) -> list[HistoryItem]:
        """The session's history in order."""
        return history_of(self.session.history)

    def agent_texts(self) -> list[str]:
        """The texts of the assistant's messages in the history."""
        return [item.text for item in self.history if item.role == "assistant"]

    def user_texts(self) -> list[str]:
        """The texts of the user's messages in the history."""
        return [item.text for item in self.history if item.role == "user"]

    def dead_air(self, *, after: float | None = None, until: float | None = None) -> float:
        """The longest silence, in seconds, between two loop times.

        Without `after` it counts from the first time that the agent was heard. Without `until` it
        counts up to the last, so that the quiet after a finished conversation is not dead air.
        Infinite where nothing at all was heard since.
        """
        spans = self.heard.spans()
        since = after if after is not None else spans[0].start if spans else -math.inf
        if until is None:
            later = [span.end for span in spans if span.end > since]
            if not later:
                return math.inf
            until = later[-1]
        return max((gap.duration_s for gap in self.heard.gaps(since, until)), default=0.0)

    # Inside --------------------------------------------------------------------------------

    async def _run(self, started: asyncio.Future[None]) -> None:
        async with contextlib.AsyncExitStack() as opened:
            await opened.enter_async_context(http_context.open())
            opened.push_async_callback(self.model.aclose)
            session: AgentSession[Any] = AgentSession(llm=self.model, **self._options)
            opened.push_async_callback(session.aclose)
            self._session = session
            self._subscribe(session)
            session.input.audio = self.mic
            session.output.audio = self.heard
            session.output.transcription = self.captions
            self._context = contextvars.copy_context()
            await session.start(self.agent, record=False)
            with contextlib.suppress(RuntimeError):
                self._subscribe_model(self.realtime_session)
            started.set_result(None)
            await self._hang_up.wait()

    @property
    def _has_ended(self) -> bool:
        return self.closed is not None or any(not error.recoverable for error in self.errors)

    def _end(self) -> None:
        """Release whoever waits for something that can no longer happen."""
        if self._doom is not None:
            self._doom.cancel()
        self.mic.close(self._why_ended)
        self.changes.end(self._why_ended)

    def _why_ended(self) -> CallEndedError:
        return ended_error(self.closed, self.errors, hung_up=self._hang_up.is_set())

    def _inside(self, function: Callable[..., _T], **options: Any) -> _T:
        """Run in the call's own context, so that the tasks it starts belong to the call."""
        if self._context is None:
            raise RuntimeError("the call has not started; use it with 'async with'")
        return self._context.run(lambda: function(**options))

    def _is_idle(self) -> bool:
        return (
            (self._has_ended or self.session.agent_state not in _BUSY_STATES)
            and all(speech.done() for speech in self._speeches)
            and not self.heard.busy
        )

    def _record(self, event: CallEvent) -> None:
        self.events.append(event)
        self.changes.notify()

    def _subscribe(self, session: AgentSession[Any]) -> None:
        session.on("error", self._on_error)
        session.on("close", self._on_close)
        session.on("agent_state_changed", lambda ev: self._on_state("agent", ev))
        session.on("user_state_changed", lambda ev: self._on_state("user", ev))
        session.on(
            "user_input_transcribed",
            lambda ev: self._record(UserHeard(self.now, ev.transcript, ev.is_final)),
        )
        session.on("speech_created", self._on_speech)
        session.on("tool_execution_updated", self._on_tool)
        session.on("conversation_item_added", lambda _: self.changes.notify())

    def _subscribe_model(self, realtime: llm.RealtimeSession[Any]) -> None:
        realtime.on("session_reconnected", lambda _: self._record(Reconnected(self.now)))
        realtime.on(
            "generation_created",
            lambda ev: self._record(GenerationCreated(self.now, ev.user_initiated)),
        )

    def _on_error(self, event: agent_events.ErrorEvent) -> None:
        error = event.error
        cause: Any = getattr(error, "error", error)
        recoverable = bool(getattr(error, "recoverable", False))
        self._record(ErrorSeen(self.now, recoverable, cause))
        if not recoverable and isinstance(error, llm.RealtimeModelError) and self._doom is None:
            # The session closes now, but a model that fails to close keeps it from saying so.
            loop = asyncio.get_running_loop()
            self._doom = loop.call_later(self._close_timeout_s, self._end)

    def _on_close(self, event: agent_events.CloseEvent) -> None:
        cause = None if event.error is None else event.error.error
        self._record(SessionClosed(self.now, event.reason.value, cause))
        self._end()

    def _on_state(
        self,
        who: Any,
        event: agent_events.AgentStateChangedEvent | agent_events.UserStateChangedEvent,
    ) -> None:
        self._record(StateChanged(self.now, who, event.old_state, event.new_state))

    def _on_speech(self, event: agent_events.SpeechCreatedEvent) -> None:
        self._speeches.append(event.speech_handle)
        event.speech_handle.add_done_callback(lambda _: self.changes.notify())

    def _on_tool(self, event: agent_events.ToolExecutionUpdatedEvent) -> None:
        update = event.update
        if isinstance(update, agent_events.ToolCallStarted):
            call = update.function_call
            args = json.loads(call.arguments or "{}")
            self.tools.append(ToolRun(call.call_id, call.name, args, self.now))
        elif isinstance(update, agent_events.ToolCallEnded):
            for run in self.tools:
                if run.call_id == update.call_id and run.ended_at is None:
                    run.ended_at, run.status, run.result = self.now, update.status, update.message
                    break
        self.changes.notify()
