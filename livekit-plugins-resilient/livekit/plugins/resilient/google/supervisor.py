"""Dials, restores the context and dials again, until the session ends (R2, R3, R7)."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from google.genai import types
from livekit.agents import APIConnectionError, llm, utils
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

from ..core.limits import POISONED_WITHIN_S
from ..core.reconnect import Redial, RedialLimits
from ..events import ReconnectMode
from ..log import logger
from .failures import Verdict, classify

if TYPE_CHECKING:
    from google.genai.live import AsyncSession

    from .realtime import RealtimeSession

__all__ = ["Supervisor", "context_source"]

# What upstream's conversion to turns cannot take, or the model must not be told.
_NOT_TOLD: dict[str, Any] = dict.fromkeys(
    (
        "exclude_config_update",
        "exclude_empty_message",
        "exclude_function_call",
        "exclude_handoff",
        "exclude_instructions",
    ),
    True,
)
# Deaths soon after resuming that make a handle a bad one.
_POISONED_AFTER = 2


class _EndedError(Exception):
    """The connection ended without an error."""


def context_source(session: RealtimeSession) -> ReconnectMode:
    """How the next connection of a session gets its context."""
    if session._session_resumption_handle is not None:
        return "resumed"
    return "replayed" if session._chat_ctx.items else "fresh"


class Supervisor:
    """Keeps one session connected. Reads and writes the session's own connection state."""

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        options, given = session._resilience, session._opts.conn_options
        own = given is not DEFAULT_API_CONNECT_OPTIONS
        base_s = (own and given.retry_interval) or options.redial_base_s
        self._connect_timeout_s = (own and given.timeout) or options.connect_timeout_s
        self._redial = Redial(
            RedialLimits(
                deadline_s=options.reconnect_deadline_s,
                base_s=base_s,
                cap_s=max(base_s, options.redial_cap_s),
                healthy_after_s=options.healthy_after_s,
                max_redials=given.max_retry if own else None,
            )
        )
        self._now = asyncio.get_running_loop().time
        self._resumed = False
        self._set_up_at: float | None = None
        self._early_deaths = 0
        self._seeded = 0
        self._history_limit: int | None = None

    async def run(self) -> None:
        """Serve the session until it is closed.

        Raises:
            APIConnectionError: It cannot be connected; the application was told.
        """
        session = self._session
        while not session._msg_ch.closed:
            session._session_should_close.clear()
            session._turn_finished = False
            self._resumed = session._session_resumption_handle is not None
            self._set_up_at = None
            self._seeded = 0
            error: Exception | None = None
            try:
                await self._connection()
            except Exception as caught:
                error = caught
            finally:
                await session._close_active_session()
            if session._msg_ch.closed:
                return
            if error is not None:
                await self._recover(error)

    # -- one connection

    async def _connection(self) -> None:
        session = self._session
        config = session._build_connect_config()
        dial = session._client.aio.live.connect(model=session._opts.model, config=config)
        began_at = self._now()
        async with AsyncExitStack() as stack:
            live = await asyncio.wait_for(stack.enter_async_context(dial), self._connect_timeout_s)
            self._set_up_at = self._now()
            session._report_connection_acquired(self._set_up_at - began_at)
            self._redial.connected(self._set_up_at)
            async with session._session_lock:
                session._active_session = live
                await self._restore(live)
            await self._serve(live)

    async def _restore(self, live: AsyncSession) -> None:
        session = self._session
        waiting, session._pending_chat_ctx = session._pending_chat_ctx, None
        context = session._chat_ctx if waiting is None else waiting
        known = session._resumption_chat_ctx
        if self._resumed and known is not None:
            session._sync_chat_ctx(context, known=known)
            return
        session._chat_ctx = context
        if not self._resumed:
            await self._seed(live, context)
            session._unsent_item_ids.clear()

    async def _seed(self, live: AsyncSession, context: llm.ChatContext) -> None:
        """Tell a fresh session what was said, before it gets anything else."""
        history = context.copy(**_NOT_TOLD)
        if self._history_limit is not None:
            surplus = max(0, len(history.items) - self._history_limit)
            history = llm.ChatContext(history.items[surplus:])
        self._seeded = len(history.items)
        told, _ = history.to_provider_format("google", inject_dummy_user_message=False)
        if told:
            turns: list[Any] = [types.Content.model_validate(turn) for turn in told]
            await live.send_client_content(turns=turns, turn_complete=False)

    async def _serve(self, live: AsyncSession) -> None:
        session = self._session
        carrying = [
            asyncio.create_task(session._send_task(live), name="resilient-gemini-send"),
            asyncio.create_task(session._recv_task(live), name="resilient-gemini-recv"),
        ]
        closing = asyncio.create_task(session._session_should_close.wait())
        try:
            await asyncio.wait([*carrying, closing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await utils.aio.cancel_and_wait(*carrying, closing)
        error, session._session_error = session._session_error, None
        failed = [task.exception() for task in carrying if not task.cancelled()]
        error = error or next((e for e in failed if isinstance(e, Exception)), None)
        if error is not None:
            raise error
        if not session._session_should_close.is_set():
            raise _EndedError

    # -- after it

    async def _recover(self, error: Exception) -> None:
        session, now = self._session, self._now()
        if session._turn_finished:
            self._redial.progressed()
            self._history_limit = None
        verdict = classify(error, was_connected=session._connection_log.was_connected)
        hopeless = verdict == "fatal" or not self._leave_out(verdict, now)
        wait_s = None if hopeless else self._redial.lost(now, random.random())
        if wait_s is None:
            session._emit_error(error, recoverable=False)
            raise APIConnectionError("Gemini Live cannot be connected") from error
        logger.warning(
            "connection lost",
            extra={"error": type(error).__name__, "verdict": verdict, "redial_in_s": wait_s},
        )
        await asyncio.sleep(wait_s)
        # After the wait, so that whoever reacts to it meets a redial (R4).
        session._emit_error(error, recoverable=True)

    def _leave_out(self, verdict: Verdict, now: float) -> bool:
        """Drop what may have caused the loss; False if there is nothing left to drop."""
        session = self._session
        if session._turn_finished or (
            self._set_up_at is not None and now - self._set_up_at >= POISONED_WITHIN_S
        ):
            self._early_deaths = 0
            healthy = True
        else:
            self._early_deaths += self._resumed and self._set_up_at is not None
            healthy = False
        if verdict == "invalid":
            session._gap_audio_spoilt = True
        refused = verdict in ("handle_refused", "invalid") and not healthy
        if self._resumed and (refused or self._early_deaths >= _POISONED_AFTER):
            self._early_deaths = 0
            session._session_resumption_handle = session._resumption_chat_ctx = None
            session._turns.handle_lost()
        elif refused and verdict == "invalid":
            # A fresh session, so it was the history, or else the set-up itself.
            if self._seeded == 0 and self._set_up_at is None:
                return False
            self._history_limit = self._seeded // 2
        return True
