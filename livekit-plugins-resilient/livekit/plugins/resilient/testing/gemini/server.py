"""A Gemini Live server on loopback."""

from __future__ import annotations

import itertools
import re
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.clock import Clock
from livekit.plugins.resilient.testing.errors import check_choice, check_number
from livekit.plugins.resilient.testing.faults import Fault
from livekit.plugins.resilient.testing.script import TurnSource
from livekit.plugins.resilient.testing.server import Pace, SimulatedServer

from .codec import VOCABULARY
from .connection import GeminiConnection
from .dialects import VERTEX
from .rules import FamilyRules, family_rules
from .session import Session, SessionStore
from .times import GeminiTimes, times_of
from .tls import client_context, server_context

if TYPE_CHECKING:
    from livekit.plugins.resilient.testing.wire import Wire

_PATHS = re.compile(
    r"/+ws/google\.(ai\.generativelanguage\.\w+\.GenerativeService\.BidiGenerateContent"
    r"(Constrained)?|cloud\.aiplatform\.\w+\.LlmBidiService/BidiGenerateContent)"
)
_FROM_RULES: Literal["family"] = "family"
_FIRST_CALL = 10_000_000_000_000_000_000


class GeminiLiveServer(SimulatedServer):
    """Simulates `BidiGenerateContent` over TLS, with sessions that survive their connections.

    Use it with `async with`, then `RealtimeModel(**server.model_kwargs())`.

    Args:
        replies: what the model says, in order.
        family: "2.5", "3.1", "3.1-release", "3.8", or rules of your own.
        vertex: behave as Vertex AI does: system turns, its usage names, its closes, scheduling
            ignored.
        strict: answer with 1007 what a real server refuses: unknown fields, a null handle, a tool
            response without id or for an unknown call, a wrong role, a turn that was not begun.
        speech_threshold: see `SimulatedServer`.
        default_reply: what the model says when `replies` is empty.
        faults: the fault plan.
        clock: for the limits below; its `advance` lets an hour pass.
        times: how long the server takes: "recorded", as real ones do, "instant", or your own.
        pace: audio seconds sent per second; "realtime" is 1.0; None sends a reply at once; "times"
            takes that of `times`.
        transcript_lead_s: how much further the captions run ahead of the audio than those of the
            family do anyway; negative lags.
        silence_s: quiet on the microphone, in audio time, that ends the user's turn.
        assume_playback: hold `turnComplete` back until a real-time client has played the reply.
        handle_at_setup: issue a handle right after set-up.
        handle_while_busy: issue a handle when a turn begins, as Vertex was seen to do, whether or
            not the family says then that the session is not resumable.
        stale_handle: how an unknown or expired handle is refused: 1008 before `setupComplete`, or
            1007 after it.
        refuse_overlap: refuse a resume with 1011 while the session's old socket is open.
        refuse_audio_during_call: close with 1008 when microphone audio comes during a blocking
            call, as 2.5 native audio was reported to do.
        connection_limit_s: age at which a connection ends; "family" takes the family's, None is
            no limit.
        go_away_notice_s: how long before that `goAway` comes.
        session_limit_s: length of a session without compression; as above.
        context_limit_tokens: the model's window: a session without compression closes with 1007
            when it is full, one with it drops the oldest turns before.
        host: address to listen on.
        port: 0 takes a free port.

    Raises:
        ValueError: an unknown family.
        ScriptError, SettingError: as `SimulatedServer` says.
        FaultPlanError: a fault names an event or action that Gemini does not have.
        MissingDependencyError: on entering, when trustme is not installed.
        PortInUseError: on entering, when `port` is taken.
    """

    vocabulary = VOCABULARY

    def __init__(
        self,
        replies: Iterable[TurnSource] = (),
        *,
        family: str | FamilyRules = "2.5",
        vertex: bool = False,
        strict: bool = False,
        speech_threshold: float = audio.SPEECH_THRESHOLD,
        default_reply: TurnSource = "Hello, this is the simulated model speaking.",
        faults: Iterable[Fault] = (),
        clock: Clock | None = None,
        times: GeminiTimes | Literal["recorded", "instant"] = "recorded",
        pace: Pace | Literal["times"] = "times",
        transcript_lead_s: float = 0.0,
        silence_s: float = 0.3,
        assume_playback: bool = True,
        handle_at_setup: bool = True,
        handle_while_busy: bool = False,
        stale_handle: Literal["before_setup", "after_setup"] = "before_setup",
        refuse_overlap: bool = False,
        refuse_audio_during_call: bool = False,
        connection_limit_s: float | Literal["family"] | None = _FROM_RULES,
        go_away_notice_s: float = 60.0,
        session_limit_s: float | Literal["family"] | None = _FROM_RULES,
        context_limit_tokens: int = 128_000,
        host: str = "127.0.0.1",
        port: int = 0,
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
        check_choice("stale_handle", stale_handle, ["before_setup", "after_setup"])
        check_number("silence_s", silence_s, least=0, above=True)
        check_number("go_away_notice_s", go_away_notice_s, least=0)
        check_number("context_limit_tokens", context_limit_tokens, least=1)
        for name, limit in (
            ("connection_limit_s", connection_limit_s),
            ("session_limit_s", session_limit_s),
        ):
            if isinstance(limit, str):
                check_choice(name, limit, [_FROM_RULES])
            elif limit is not None:
                check_number(name, limit, least=0, above=True)
        self.rules = family_rules(family)
        self.vertex = vertex
        self.dialect = VERTEX if vertex else self.rules.dialect
        self.silence_s = silence_s
        self.assume_playback = assume_playback
        self.handle_at_setup = handle_at_setup
        self.handle_while_busy = handle_while_busy
        self.stale_handle = stale_handle
        self.refuse_overlap = refuse_overlap
        self.refuse_audio_during_call = refuse_audio_during_call
        self.connection_limit_s = (
            self.rules.connection_limit_s if connection_limit_s == "family" else connection_limit_s
        )
        self.go_away_notice_s = go_away_notice_s
        self.session_limit_s = (
            self.rules.session_limit_s if session_limit_s == "family" else session_limit_s
        )
        self.context_limit_tokens = context_limit_tokens
        self.store = SessionStore()
        self._call_numbers = itertools.count(1)

    @property
    def base_url(self) -> str:
        """What to give a client as `HttpOptions.base_url`."""
        return f"https://{self.host}:{self.port}"

    @property
    def sessions(self) -> list[Session]:
        """Every session in the order of set-up; a resumption is a new one with restored history."""
        return self.store.sessions

    @property
    def session(self) -> Session:
        """The newest session.

        Raises:
            LookupError: no client has completed set-up yet.
        """
        if not self.sessions:
            raise LookupError("no session yet: wait_for('setupComplete') first")
        return self.sessions[-1]

    def model_kwargs(self, **overrides: Any) -> dict[str, Any]:
        """Keywords for a `google.realtime.RealtimeModel`, with fresh `HttpOptions` each time.

        Call it once per model: the plugin changes the options that it is given. `overrides` are
        added or take precedence.
        """
        from google.genai import types

        context = client_context()
        options = types.HttpOptions(
            base_url=self.base_url,
            # Without prepared contexts each client blocks the loop for some 150 ms.
            client_args={"verify": context},
            async_client_args={
                "verify": context,
                "ssl": context,
                "close_timeout": 1,
                "proxy": None,
            },
        )
        kwargs: dict[str, Any] = {
            "model": self.rules.model,
            "api_key": "test-key",
            "http_options": options,
        }
        return kwargs | overrides

    def next_call_id(self) -> str:
        """A fresh tool-call id, in the family's form."""
        number = next(self._call_numbers)
        if self.dialect.call_id == "numbered":
            return f"function-call-{_FIRST_CALL + number}"
        if self.dialect.call_id == "uuid":
            return str(UUID(int=number))
        return f"call{number:018d}"

    def tls(self) -> ssl.SSLContext | None:
        return server_context()

    def check_request(self, path: str) -> tuple[int, str] | None:
        if _PATHS.fullmatch(path.partition("?")[0]):
            return None
        return 404, "no such method: expected a BidiGenerateContent path\n"

    def make_connection(self, wire: Wire) -> GeminiConnection:
        return GeminiConnection(self, wire)
