"""Takes an `http_session` that is not aiohttp's: it need do no more than upstream asks of one.

Applications pass a wrapper for tracing or a proxy, tests a fake. We ask a connection more than
upstream does: for its close code, its socket, pings.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

import aiohttp

from .._vendor.openai import realtime_model as _impl

__all__ = ["AnyHttpModel"]


class AnyHttpModel(_impl.RealtimeModel):
    """A model whose `http_session` may be anything that has `ws_connect`."""

    def _ensure_http_session(self) -> aiohttp.ClientSession:
        http = super()._ensure_http_session()
        if isinstance(http, aiohttp.ClientSession):
            return http
        return cast("aiohttp.ClientSession", _StandIn(http))


class _StandIn:
    """Passes on what `ws_connect` of the given object takes."""

    def __init__(self, http: Any) -> None:
        self._http = http

    def __getattr__(self, name: str) -> Any:
        return getattr(self._http, name)

    async def ws_connect(self, **given: Any) -> Any:
        takes = inspect.signature(self._http.ws_connect).parameters
        takes_all = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        kept = {name: value for name, value in given.items() if takes_all or name in takes}
        connected = await self._http.ws_connect(**kept)
        if isinstance(connected, aiohttp.ClientWebSocketResponse):
            return connected
        return _Socket(connected)


async def _nothing(message: bytes = b"") -> None: ...


# What we ask of a connection beyond upstream, and the answer of one that does not know.
_UNKNOWN: dict[str, Any] = {
    "close_code": None,
    "exception": lambda: None,
    "get_extra_info": lambda name, default=None: default,
    "ping": _nothing,
    "pong": _nothing,
}


class _Socket:
    """A connection, with an answer to whatever we ask that the given object does not know."""

    def __init__(self, connected: Any) -> None:
        self._connected = connected

    def __getattr__(self, name: str) -> Any:
        if name in _UNKNOWN:
            return getattr(self._connected, name, _UNKNOWN[name])
        return getattr(self._connected, name)
