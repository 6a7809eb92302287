"""A simulated OpenAI Realtime endpoint, for OpenAI, Azure and LiveKit Inference clients."""

from __future__ import annotations

import hmac
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from livekit import api

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.clock import Clock
from livekit.plugins.resilient.testing.errors import check_choice, check_number
from livekit.plugins.resilient.testing.fault_plan import Vocabulary
from livekit.plugins.resilient.testing.faults import OPENAI_ACTIONS, FailResponse, Fault
from livekit.plugins.resilient.testing.script import ToolCall, TurnSource
from livekit.plugins.resilient.testing.server import Pace, SimulatedServer
from livekit.plugins.resilient.testing.wire import Wire

from .connection import OpenAIConnection
from .dialects import AZURE_LEGACY, DIALECTS, Dialect, DialectName, dialect_named, dialect_of
from .events import CLIENT_EVENTS, SERVER_EVENTS
from .session import Session
from .times import OpenAITimes, times_of

SESSION_CAP_S = 3600.0
"""OpenAI's session limit: 60 minutes (pollen-robotics/reachy_mini#134). Azure's is 30 minutes."""

LEGACY_API_VERSION = "2024-10-01-preview"
"""An Azure api-version of the time before the current event names."""

EventNames = Literal["auto", "current", "legacy"]

_PATHS = ("/v1/realtime", "/openai/v1/realtime", "/openai/realtime")


class OpenAIRealtimeServer(SimulatedServer):
    """OpenAI Realtime on a loopback port. Use it with `async with`.

        async with OpenAIRealtimeServer(["Hello!"]) as server:
            model = openai.realtime.RealtimeModel(**server.model_kwargs())

    Args:
        replies, default_reply, faults, clock, strict, speech_threshold, host, port: see
            `SimulatedServer`.
        dialect: whose messages to send: "gpt-realtime", "gpt-realtime-2.1", "azure",
            "azure-legacy", "azure-voice-live" or "xai"; "auto" takes that of the path and model
            that a client dials.
        times: how long the server takes: "recorded", as real ones do, "instant", or your own.
        pace: audio seconds sent per second; "realtime" is 1.0; None sends a reply at once; "times"
            takes that of `times`.
        transcript_lead_s: how far the output transcript runs ahead of the audio; negative lags;
            0 takes that of `times`.
        api_key: the key that clients must present; others are refused with 401.
        api_secret: with `api_key` it signs the tokens of LiveKit Inference; 32 bytes or more.
        session_cap_s: how long a session lasts on the server's clock; None: for ever.
        error_before_expiry: whether the cap sends a session_expired error before its close.
        event_names: "legacy" and "current" force the names of the dialect "azure-legacy", or of
            any other; "auto" leaves them to `dialect`.
        timed_transcript: put the word's place in the audio, `start_time` in seconds, into
            transcript deltas, as LiveKit Inference does.
        transcription_delay_s: time between an utterance's end and its whole transcript; None takes
            that of `times`.
        transcription_fails: whether no utterance can be transcribed, as with Azure where the model
            has no deployment.
        names_refused_event: whether errors carry the `event_id` of the event they refuse.
    """

    vocabulary: ClassVar[Vocabulary] = Vocabulary(
        "OpenAI Realtime", SERVER_EVENTS, CLIENT_EVENTS, OPENAI_ACTIONS
    )

    def __init__(
        self,
        replies: Iterable[TurnSource] = (),
        *,
        default_reply: TurnSource = "Hello, this is the simulated model speaking.",
        faults: Iterable[Fault] = (),
        clock: Clock | None = None,
        dialect: DialectName | Literal["auto"] = "auto",
        times: OpenAITimes | Literal["recorded", "instant"] = "recorded",
        pace: Pace | Literal["times"] = "times",
        transcript_lead_s: float = 0.0,
        strict: bool = False,
        speech_threshold: float = audio.SPEECH_THRESHOLD,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str = "simulated-key",
        api_secret: str = "simulated-secret-that-is-long-enough",
        session_cap_s: float | None = SESSION_CAP_S,
        error_before_expiry: bool = True,
        event_names: EventNames = "auto",
        timed_transcript: bool = False,
        transcription_delay_s: float | None = None,
        transcription_fails: bool = False,
        names_refused_event: bool = True,
    ) -> None:
        self.times = times_of(times)
        super().__init__(
            replies,
            default_reply=default_reply,
            faults=faults,
            clock=clock,
            pace=self.times.pace if pace == "times" else pace,
            transcript_lead_s=transcript_lead_s,
            strict=strict,
            speech_threshold=speech_threshold,
            host=host,
            port=port,
        )
        check_choice("event_names", event_names, ["auto", "current", "legacy"])
        if session_cap_s is not None:
            check_number("session_cap_s", session_cap_s, least=0, above=True)
        if transcription_delay_s is None:
            transcription_delay_s = self.times.created_s + self.times.transcribed_s
        check_number("transcription_delay_s", transcription_delay_s, least=0)
        self.dialect = dialect_named(dialect)
        self.session_cap_s = session_cap_s
        self.error_before_expiry = error_before_expiry
        self.event_names = event_names
        self.timed_transcript = timed_transcript
        self.transcription_delay_s = transcription_delay_s
        self.transcription_fails = transcription_fails
        self.names_refused_event = names_refused_event
        self.last_call: ToolCall | None = None
        self.sessions: list[Session] = []
        """Every session in the order of the connections; kept after its end."""
        self._api_key = api_key
        self._api_secret = api_secret
        self._ids: Counter[str] = Counter()
        self._failures: FailResponse | None = None
        self._failures_left = 0

    # Clients -------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """What to give a client as `base_url`."""
        return f"{self._root}/v1"

    def model_kwargs(self, **overrides: Any) -> dict[str, Any]:
        """Keywords for an `openai.realtime.RealtimeModel`; `overrides` are added or win."""
        return {"api_key": self._api_key, "base_url": self.base_url, **overrides}

    def azure_kwargs(self, *, legacy: bool = False, **overrides: Any) -> dict[str, Any]:
        """Keywords for `openai.realtime.RealtimeModel.with_azure`.

        `legacy` adds an api_version: the old path and event names.
        """
        kwargs = {
            "azure_deployment": "gpt-realtime",
            "azure_endpoint": self._root,
            "api_key": self._api_key,
        }
        if legacy:
            kwargs["api_version"] = LEGACY_API_VERSION
        return kwargs | overrides

    def inference_kwargs(self, **overrides: Any) -> dict[str, Any]:
        """Keywords for an `inference.RealtimeModel`; `overrides` are added or win."""
        return {
            "model": "openai/gpt-realtime",
            "base_url": self.base_url,
            "api_key": self._api_key,
            "api_secret": self._api_secret,
            **overrides,
        }

    @property
    def session(self) -> Session:
        """The newest session.

        Raises:
            LookupError: no client has connected yet.
        """
        if not self.sessions:
            raise LookupError("no session yet: wait_for('session.created') first")
        return self.sessions[-1]

    def session_of(self, connection: int) -> Session:
        """The session of a connection, by its number.

        Raises:
            LookupError: no such connection was accepted.
        """
        for session in self.sessions:
            if session.number == connection:
                return session
        raise LookupError(f"connection {connection} was never accepted")

    @property
    def generating(self) -> bool:
        """Whether a response goes on, on any connection."""
        return any(
            isinstance(connection, OpenAIConnection) and connection.active_response is not None
            for connection in self.connections.values()
        )

    @property
    def _root(self) -> str:
        return f"http://{self.host}:{self.port}"

    # For connections -----------------------------------------------------------------------

    def new_id(self, prefix: str, dialect: Dialect, connection: int) -> str:
        """A fresh id for a connection, unique in this server, as long as the dialect's."""
        self._ids[prefix] += 1
        number = self._ids[prefix]
        if dialect.ids == "prefixed":
            return f"{prefix}_{number:0{16 if prefix == 'call' else 21}d}"
        if prefix == "call":
            return f"call_{number:038d}"
        unique = UUID(int=(zlib.crc32(prefix.encode()) << 96) | number)
        return unique.hex if prefix == "sess" else str(unique)

    def fail_responses(self, action: FailResponse) -> None:
        """Let the next responses of any connection fail."""
        self._failures = action
        self._failures_left = action.count or -1

    def take_failure(self) -> FailResponse | None:
        """How the response that now begins must fail, if it must."""
        if self._failures is None or self._failures_left == 0:
            return None
        self._failures_left -= self._failures_left > 0
        return self._failures

    # Overrides -----------------------------------------------------------------------------

    def make_connection(self, wire: Wire) -> OpenAIConnection:
        assert wire.request is not None
        query = parse_qs(urlsplit(wire.request.path).query)
        model = (query.get("model") or query.get("deployment") or [""])[0]
        connection = OpenAIConnection(self, wire, model, self._dialect_for(wire.request.path))
        self.sessions.append(connection.session)
        return connection

    def _dialect_for(self, path: str) -> Dialect:
        if self.event_names == "legacy":
            return AZURE_LEGACY
        dialect = self.dialect or dialect_of(path)
        if self.event_names == "current" and dialect.legacy:
            return DIALECTS["azure"]
        return dialect

    def check_request(self, path: str) -> tuple[int, str] | None:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        if parts.path.rstrip("/") not in _PATHS:
            return 404, f"no such path; known: {', '.join(_PATHS)}\n"
        if not query.get("model") and not query.get("deployment"):
            return 400, "You must provide a model parameter.\n"
        return None

    def check_headers(self, headers: Mapping[str, str]) -> tuple[int, str] | None:
        key = headers.get("api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(key.encode(), self._api_key.encode()) or self._is_signed(key):
            return None
        return 401, "Incorrect API key provided.\n"

    def _is_signed(self, token: str) -> bool:
        if token.count(".") != 2:
            return False
        try:
            api.TokenVerifier(self._api_key, self._api_secret).verify(token)
        except Exception:  # whatever is wrong with it: it is no valid token
            return False
        return True
