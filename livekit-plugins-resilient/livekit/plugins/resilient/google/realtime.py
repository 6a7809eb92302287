"""Gemini Live: the public model and the driver of its sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from livekit.agents import llm

from .._vendor.google import realtime_api as _impl
from ..connection_log import ConnectionLog
from ..events import ReconnectMode
from ..hooks import options_of
from ..notify import notify
from .tool_schema import restore_schema_details

if TYPE_CHECKING:
    from google.genai import types
    from google.genai.live import AsyncSession

    from ..options import ResilienceOptions

__all__ = ["RealtimeModel", "RealtimeSession"]


class RealtimeModel(_impl.RealtimeModel):
    """Gemini Live, as `livekit.plugins.google.realtime.RealtimeModel`, kept alive over drops.

    Takes every keyword of upstream's model with the same meaning, and `resilience`, a
    `ResilienceOptions`. Pass it to `AgentSession(llm=...)` or to
    `llm.RealtimeModelFallbackAdapter`.

    Raises:
        OptionError: `resilience` is not a `ResilienceOptions`.
        ValueError: Upstream refuses a keyword, for example a missing API key.
    """

    _resilience: ResilienceOptions

    def session(self, *, turn_detection_disabled: bool = False) -> RealtimeSession:
        """Open a session; must be called inside a running event loop."""
        session = RealtimeSession(self)
        self._sessions.add(session)
        return session


class RealtimeSession(_impl.RealtimeSession):
    """One conversation with Gemini Live over as many connections as it takes.

    Emits "resilience" with the events of `livekit.plugins.resilient.events`, and
    "session_reconnected" after each reconnect.
    """

    def __init__(self, realtime_model: RealtimeModel) -> None:
        self._resilience = options_of(realtime_model)
        self._connection_log = ConnectionLog()
        super().__init__(realtime_model)

    def _build_connect_config(self) -> types.LiveConnectConfig:
        # Built once per dial, so it also counts them.
        self._connection_log.dialling()
        config = super()._build_connect_config()
        restore_schema_details(config.tools or [], self._tools)
        return config

    async def _recv_task(self, session: AsyncSession) -> None:
        # Starts once the connection is set up and holds the context.
        loop = asyncio.get_running_loop()
        reconnected = self._connection_log.connected(loop.time(), self._context_source())
        notify(self, self._resilience, reconnected)
        if reconnected is not None:
            self.emit("session_reconnected", llm.RealtimeSessionReconnectedEvent())
        try:
            await super()._recv_task(session)
        finally:
            error = self._session_error
            code = getattr(error, "code", None)
            notify(
                self,
                self._resilience,
                self._connection_log.ended(loop.time(), cause=error, code=code),
            )

    def _context_source(self) -> ReconnectMode:
        if self._session_resumption_handle is not None:
            return "resumed"
        return "replayed" if self._chat_ctx.items else "fresh"

    def _redials(self) -> bool:
        # The first dial of a session fails on what is wrong with it (key, model, set-up), a
        # later one on the network or the provider (bug report gap G1).
        return self._connection_log.was_connected
