"""`ResilienceOptions`: the one keyword that our models add to upstream's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from .core import limits
from .core.limits import Bounds, ProviderBounds
from .errors import OptionError
from .events import ResilienceEvent
from .runtime.log import logger
from .wording import WORDED_CAUSES, RedriveInstructions

__all__ = ["ResilienceOptions"]

_SECONDS = (
    "connect_timeout_s",
    "reconnect_deadline_s",
    "redial_base_s",
    "redial_cap_s",
    "healthy_after_s",
    "redrive_after_s",
    "reply_timeout_s",
    "goaway_margin_s",
    "speech_quiet_s",
    "finalise_working_after_s",
)
_SECONDS_OR_NONE = (
    "failover_after_s",
    "finalise_interrupted_after_s",
    "finalise_complete_after_s",
    "finalise_stalled_after_s",
    "finalise_silent_after_s",
    "hedge_after_s",
    "liveness_speech_after_s",
    "liveness_interrupted_after_s",
    "gap_audio_s",
)
_SECONDS_OF_PROVIDER = ("liveness_timeout_s", "liveness_reply_after_s")
_SWITCHES = ("redrive", "resend_utterance", "speech_hint")
_ORDERED = (  # the first must not exceed the second, where neither is None
    ("redial_base_s", "redial_cap_s"),
    ("connect_timeout_s", "reconnect_deadline_s"),
    ("redrive_after_s", "finalise_silent_after_s"),
)
# What would cut healthy calls that are on record.
_LEAST_HEALTHY: Mapping[str, float] = {
    "reply_timeout_s": limits.SLOWEST_START_S,
    "finalise_stalled_after_s": limits.SLOWEST_START_S,
    "finalise_silent_after_s": limits.SLOWEST_START_S,
    "finalise_working_after_s": limits.SLOWEST_START_S,
    "finalise_complete_after_s": limits.SLOWEST_END_S,
    "finalise_interrupted_after_s": limits.SLOWEST_END_S,
    "liveness_timeout_s": limits.OPENAI_LIVENESS_TIMEOUT_S,
    "liveness_reply_after_s": limits.OPENAI_REPLY_SILENT_AFTER_S,
}


@dataclass(frozen=True, kw_only=True)
class ResilienceOptions:
    """How a call is kept alive. Every field has a default; the defaults are the product.

    Times are seconds above 0. The sources of the default numbers stand in `core.limits`. Where
    None is allowed it switches that rule off.

    Attributes:
        on_event: Called with every event of `livekit.plugins.resilient.events`, on the event
            loop; an exception it raises is logged and ignored.
        speech_rate_cps: Characters per second by which an agent's transcript is matched to the
            audio that arrived, where the provider sends no times of its own. Above 0. The
            default of 15 is 150 words per minute at six characters a word, a slow speaker:
            erring low leaves out a heard word rather than recording an unheard one.
        connect_timeout_s: For one dial, up to the provider's first answer. At most
            `reconnect_deadline_s`.
        reconnect_deadline_s: For one outage; once spent, the session fails for good.
        failover_after_s: For one outage, inside a `RealtimeModelFallbackAdapter` that has another
            model available: this session then gives up, and the call goes on with that one.
            None always tries for `reconnect_deadline_s`.
        redial_base_s: Before the second redial, with full jitter; doubles up to `redial_cap_s`.
            The first comes after up to 0.25, at random.
        redial_cap_s: Longest wait between two dials.
        healthy_after_s: Of connection in which nothing is owed, that restore the outage budget; a
            turn that was finished or heard does too.
            Where the application gives a model `conn_options`, their `timeout` takes the place of
            `connect_timeout_s`, `retry_interval` that of `redial_base_s`, and `max_retry` bounds
            the redials of one outage.
        renewal_wait_s: OpenAI: how long a connection that is due to be renewed waits for nobody
            to speak and nothing to be under way; the renewal is inaudible then. "provider" takes
            most of what is left until the provider's limit, see `core.limits`. When a renewal is
            due is upstream's `max_session_duration`, without it the provider's limit less a
            margin.
        gap_audio_s: Of microphone audio from an outage that the next connection is given, the
            newest; None keeps none. What is older is dropped, see `events.AudioDropped`.
        resend_utterance: OpenAI: what the caller was saying when the connection dropped is sent
            to the next one again, from where the server heard it begin, at most 15 s.
        goaway_margin_s: Gemini: longest time before an announced end of the connection, by which
            it is left whatever is under way; less where two dials take less. Until then the move
            waits for a moment at rest.
        playout_on_drop: What becomes of a reply's audio that had arrived when its connection
            dropped: "finish" plays it to its end, so that most drops are inaudible; "flush" stops
            it at once. Either way the records keep what was heard.
        redrive: Ask the model for a reply that is owed after a reconnect, or after a reply that
            stalled. Requests of the application that a drop caught are issued again regardless.
        redrive_after_s: In which a resumed session that can know of the turn may go on by itself.
            At most `finalise_silent_after_s`.
        reply_timeout_s: Of connection in which a reply that the application asked for must begin
            (Gemini); its future fails then.
        redrive_instructions: What a re-drive says: a function of `wording.RedriveContext`, or a
            text for each cause ("reply_cut", "user_words_lost", "unanswered_turn",
            "tool_result_unanswered") in which "{last_words}" stands for the last words heard.
        finalise_interrupted_after_s: From an interruption to its terminal event, after which the
            generation is closed locally.
        finalise_complete_after_s: The same from when the caller has heard complete output.
        finalise_stalled_after_s: The same from when the caller has heard all of a stream that
            stalled.
        finalise_silent_after_s: For a reply's first output, before it counts as never started.
        finalise_working_after_s: In place of the last two where it is longer, and where the
            provider may be at work without a sign: it runs tools of its own or tools that do not
            block, the model reasons, or says that it only comments on what it does.
        hedge_after_s: For a reply that is owed or has begun, without any output of it, before a
            second connection is asked for it beside the one that serves. Whichever gives output
            first serves, the other is closed unheard. A reply that stopped is given 6 from when
            the caller has heard all of it, or this where it is shorter. None never asks a second.
        liveness_timeout_s: Without a byte from the server before the connection is suspected;
            "provider" takes the provider's own default (Gemini 25, OpenAI 8).
        liveness_reply_after_s: Without a message since a reply was requested, likewise;
            "provider" takes the provider's own default: OpenAI, which confirms a request at once,
            10; Gemini, which says nothing while it thinks, none.
        liveness_speech_after_s: Without a message or an answer to a ping since the caller, who
            audibly spoke, has been quiet, likewise, where the provider finds the turns. Where it
            answers pings, or is slow to, that takes longer (Gemini 20, OpenAI 12). Each false
            alarm doubles it.
        liveness_interrupted_after_s: Without an answer to what the caller says, or the application
            asks for, after a reply was interrupted whose end never came, likewise. None, or None
            for `finalise_interrupted_after_s`, switches that sign off.
        speech_hint: Listen for speech in the microphone frames by their energy. False also
            switches `liveness_speech_after_s` off.
        speech_quiet_s: Of quiet that end the caller's speech, by that hint.

    A bound that would cut calls which were healthy on record is taken, and warned about by name.

    Raises:
        OptionError: A field has a value outside its range.
    """

    on_event: Callable[[ResilienceEvent], None] | None = None
    speech_rate_cps: float = 15.0
    connect_timeout_s: float = limits.CONNECT_TIMEOUT_S
    reconnect_deadline_s: float = limits.RECONNECT_DEADLINE_S
    failover_after_s: float | None = limits.FAILOVER_AFTER_S
    redial_base_s: float = limits.REDIAL_BASE_S
    redial_cap_s: float = limits.REDIAL_CAP_S
    healthy_after_s: float = limits.HEALTHY_AFTER_S
    renewal_wait_s: float | Literal["provider"] = "provider"
    gap_audio_s: float | None = limits.GAP_AUDIO_S
    resend_utterance: bool = True
    goaway_margin_s: float = limits.GOAWAY_MARGIN_S
    playout_on_drop: Literal["finish", "flush"] = "finish"
    redrive: bool = True
    redrive_after_s: float = limits.REDRIVE_AFTER_S
    reply_timeout_s: float = limits.REPLY_TIMEOUT_S
    redrive_instructions: RedriveInstructions | None = None
    finalise_interrupted_after_s: float | None = limits.INTERRUPTED_AFTER_S
    finalise_complete_after_s: float | None = limits.COMPLETE_AFTER_S
    finalise_stalled_after_s: float | None = limits.STALLED_AFTER_S
    finalise_silent_after_s: float | None = limits.SILENT_AFTER_S
    finalise_working_after_s: float = limits.WORKING_AFTER_S
    hedge_after_s: float | None = limits.HEDGE_AFTER_S
    liveness_timeout_s: float | Literal["provider"] | None = "provider"
    liveness_reply_after_s: float | Literal["provider"] | None = "provider"
    liveness_speech_after_s: float | None = limits.UNHEARD_AFTER_S
    liveness_interrupted_after_s: float | None = limits.MUTE_AFTER_S
    speech_hint: bool = True
    speech_quiet_s: float = limits.SPEECH_QUIET_S

    def __post_init__(self) -> None:
        if self.on_event is not None and not callable(self.on_event):
            raise OptionError("on_event", self.on_event, "a callable or None")
        if not _is_above_0(self.speech_rate_cps):
            raise OptionError("speech_rate_cps", self.speech_rate_cps, "a number above 0")
        for name in _SECONDS:
            if not _is_above_0(getattr(self, name)):
                raise OptionError(name, getattr(self, name), "seconds above 0")
        for name in _SECONDS_OR_NONE:
            value = getattr(self, name)
            if value is not None and not _is_above_0(value):
                raise OptionError(name, value, "seconds above 0, or None to switch it off")
        for name in _SECONDS_OF_PROVIDER:
            value = getattr(self, name)
            if value not in (None, "provider") and not _is_above_0(value):
                raise OptionError(name, value, 'seconds above 0, "provider", or None')
        if self.playout_on_drop not in ("finish", "flush"):
            raise OptionError("playout_on_drop", self.playout_on_drop, '"finish" or "flush"')
        wait = self.renewal_wait_s
        if wait != "provider" and not _is_above_0(wait):
            raise OptionError("renewal_wait_s", wait, 'seconds above 0, or "provider"')
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(name, getattr(self, name), "True or False")
        for low, high in _ORDERED:
            least, most = getattr(self, low), getattr(self, high)
            if most is not None and least > most:
                raise OptionError(low, least, f"at most {high} ({most!r})")
        _check_instructions(self.redrive_instructions)
        for name, healthy_s in _LEAST_HEALTHY.items():
            value = getattr(self, name)
            if isinstance(value, int | float) and value < healthy_s:
                logger.warning(
                    "%s=%r can cut healthy calls: %g s were seen in some; allowed, but give more",
                    name,
                    value,
                    healthy_s,
                )

    def bounds(self, provider: ProviderBounds) -> Bounds:
        """The bounds for a `core.TurnMachine`.

        Args:
            provider: What "provider" stands for: one of the constants in `core.limits`.
        """
        stalled_s = limits.HEDGE_STALLED_AFTER_S
        hedge_s = stalled_s if self.hedge_after_s is None else self.hedge_after_s
        timeout, reply = self.liveness_timeout_s, self.liveness_reply_after_s
        return Bounds(
            redrive=self.redrive,
            redrive_after_s=self.redrive_after_s,
            interrupted_after_s=self.finalise_interrupted_after_s,
            mute_after_s=self.liveness_interrupted_after_s,
            complete_after_s=self.finalise_complete_after_s,
            stalled_after_s=self.finalise_stalled_after_s,
            silent_after_s=self.finalise_silent_after_s,
            working_after_s=self.finalise_working_after_s,
            hedge_after_s=self.hedge_after_s,
            hedge_stalled_after_s=min(stalled_s, hedge_s),
            liveness_timeout_s=provider.liveness_timeout_s if timeout == "provider" else timeout,
            reply_silent_after_s=provider.reply_silent_after_s if reply == "provider" else reply,
            deaf_after_s=provider.deaf_after_s,
            unheard_after_s=self.liveness_speech_after_s if self.speech_hint else None,
            speech_quiet_s=self.speech_quiet_s,
        )


def _is_above_0(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def _check_instructions(instructions: object) -> None:
    """Raises OptionError without quoting the texts, which are the application's."""
    allowed = f"a function or a mapping of {', '.join(sorted(WORDED_CAUSES))} to texts"
    if instructions is None or callable(instructions):
        return
    if not isinstance(instructions, Mapping):
        raise OptionError("redrive_instructions", type(instructions).__name__, allowed)
    for cause, text in instructions.items():
        if cause not in WORDED_CAUSES:
            raise OptionError("redrive_instructions", cause, allowed)
        if not isinstance(text, str) or not text.strip():
            raise OptionError("redrive_instructions", f"{cause}: ...", "a text that is not empty")
