"""Counts and times of a session's reconnects and replies, as OpenTelemetry metrics.

Attributes are closed sets, class names and close codes; no transcript, handle, key or error text
can become one. `docs/metrics.md` lists the instruments.
"""

from __future__ import annotations

import functools
import re
import threading
import weakref
from dataclasses import dataclass
from typing import Final

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, Meter
from typing_extensions import assert_never

from ..core.decisions import RedriveCause
from ..errors import OptionError
from ..events import (
    AudioDropped,
    ContinuationRejected,
    Disconnected,
    FirstAudioAfterReconnect,
    GenerationFinalised,
    GoAwayReceived,
    HandedOver,
    HedgeDecided,
    HedgeOutcome,
    LoopStalled,
    Reconnected,
    RedriveDecided,
    RedriveOutcome,
    ResilienceEvent,
    ToolResultRedelivered,
)
from ..version import __version__

__all__ = ["METER_NAME", "OTHER_CAUSE", "PLANNED", "SECONDS_BUCKETS", "Telemetry"]

METER_NAME: Final = "livekit.plugins.resilient"
"""Name of the meter, the instrumentation scope of every metric here."""

PLANNED: Final = "planned"
"""`cause` of a reconnect that no drop went before: we closed the connection ourselves."""

OTHER_CAUSE: Final = "_OTHER"
"""`cause` in place of one that is no class name. Source: OpenTelemetry's `error.type`."""

SECONDS_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
"""Suggested upper bounds of all histograms, in seconds: from a gap that nobody hears to twice the
longest outage of `core.limits.RECONNECT_DEADLINE_S`. OpenTelemetry's own defaults suit
milliseconds. An SDK view overrides them. Source: our choice. Date: 2026-11."""

_PROVIDER: Final = re.compile(r"[a-z][a-z0-9_./-]{0,63}", re.ASCII)
_CLASS_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)

_Attributes = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class _Instruments:
    reconnects: Counter
    handovers: Counter
    gap: Histogram
    first_audio: Histogram
    redrives: Counter
    hedges: Counter
    generation_open: Histogram
    unterminated: Counter
    finalised: Counter
    audio_dropped: Histogram
    rejected: Counter
    go_aways: Counter
    redelivered: Counter
    stalls: Histogram


_instruments: weakref.WeakKeyDictionary[Meter, _Instruments] = weakref.WeakKeyDictionary()
_instruments_lock = threading.Lock()


def _instruments_of(meter: Meter) -> _Instruments:
    # Jobs can run in threads of one process.
    with _instruments_lock:
        found = _instruments.get(meter)
        if found is None:
            found = _instruments[meter] = _create_instruments(meter)
        return found


def _create_instruments(meter: Meter) -> _Instruments:
    seconds = functools.partial(
        meter.create_histogram, unit="s", explicit_bucket_boundaries_advisory=SECONDS_BUCKETS
    )
    return _Instruments(
        reconnects=meter.create_counter(
            "livekit.resilient.reconnects",
            unit="{reconnect}",
            description="Connections that took over a session from an earlier one",
        ),
        handovers=meter.create_counter(
            "livekit.resilient.handovers",
            unit="{handover}",
            description="Connections that were given up for another before they ended",
        ),
        gap=seconds(
            "livekit.resilient.reconnect.gap",
            description="From the end of a connection until the next one could take audio",
        ),
        first_audio=seconds(
            "livekit.resilient.reconnect.first_audio",
            description="From a reconnect until the caller hears a reply that began after it",
        ),
        redrives=meter.create_counter(
            "livekit.resilient.redrives",
            unit="{redrive}",
            description="Replies the model was asked for again, by what became of them",
        ),
        hedges=meter.create_counter(
            "livekit.resilient.hedges",
            unit="{hedge}",
            description="Slow replies that a second connection was asked for, by what came of it",
        ),
        generation_open=seconds(
            "livekit.resilient.generation.duration",
            description="From the start of a generation to its terminal event",
        ),
        unterminated=meter.create_counter(
            "livekit.resilient.generation.unterminated",
            unit="{generation}",
            description="Generations that ended without a terminal event",
        ),
        finalised=meter.create_counter(
            "livekit.resilient.generation.finalised",
            unit="{generation}",
            description="Generations closed locally because their terminal event was overdue",
        ),
        audio_dropped=seconds(
            "livekit.resilient.reconnect.audio_dropped",
            description="Microphone audio of an outage that no connection could take",
        ),
        rejected=meter.create_counter(
            "livekit.resilient.continuations_rejected",
            unit="{rejection}",
            description="Handles from which a session could not be restored",
        ),
        go_aways=meter.create_counter(
            "livekit.resilient.go_aways",
            unit="{notice}",
            description="Announcements of a connection's end",
        ),
        redelivered=meter.create_counter(
            "livekit.resilient.tool_results_redelivered",
            unit="{result}",
            description="Tool results that went to another connection than their call came from",
        ),
        stalls=seconds(
            "livekit.resilient.loop_stalls",
            description="Blocks of the event loop during a call",
        ),
    )


@functools.cache
def _global_meter() -> Meter:
    # Asked for once: without an SDK, the API keeps every meter it ever handed out. A provider
    # that is installed later takes over the instruments of this one.
    return metrics.get_meter(METER_NAME, __version__)


class Telemetry:
    """The metrics of one realtime session.

    Pass every event of the session to `record`, in order, and call `generation_closed` once for
    each generation. Sessions on the same meter share its instruments. Without an OpenTelemetry
    SDK nothing is kept or sent.

    Args:
        provider: Which API the session talks to, such as "google" or "openai": at most 64
            characters, of a-z, 0-9 and `_./-`, the first a letter.
        meter: Where the instruments are created; None for the global meter provider's.

    Raises:
        OptionError: `provider` is not such a name.
    """

    __slots__ = ("_base", "_drop", "_hedge_reason", "_instruments", "_redrive_reason")

    def __init__(self, provider: str, meter: Meter | None = None) -> None:
        if not _PROVIDER.fullmatch(provider):
            raise OptionError(
                "provider", provider, "a letter a-z, then up to 63 of a-z, 0-9, '_', '.', '/', '-'"
            )
        self._base: _Attributes = {"provider": provider}
        self._instruments = _instruments_of(_global_meter() if meter is None else meter)
        # What the next event of a pair is counted with.
        self._drop: Disconnected | None = None
        self._redrive_reason: RedriveCause | None = None
        self._hedge_reason: RedriveCause | None = None

    def record(self, event: ResilienceEvent) -> None:
        """Count an event of this session.

        A reconnect is counted with the drop before it, a re-drive or a hedge when its outcome is
        known; a session that ends in between counts neither.
        """
        to = self._instruments
        match event:
            case Disconnected():
                self._drop = event
            case Reconnected():
                to.reconnects.add(1, self._reconnect_attributes(event))
                to.gap.record(event.gap_s, self._with(mode=event.mode))
                self._drop = None
            case HandedOver():
                to.handovers.add(1, self._with(overlapped=event.overlapped))
            case RedriveDecided():
                self._redrive_reason = event.reason
            case RedriveOutcome():
                to.redrives.add(1, self._with(outcome=event.outcome, reason=self._redrive_reason))
            case HedgeDecided():
                self._hedge_reason = event.reason
            case HedgeOutcome():
                to.hedges.add(1, self._with(outcome=event.result, reason=self._hedge_reason))
            case GenerationFinalised():
                to.finalised.add(1, self._with(reason=event.reason))
            case FirstAudioAfterReconnect():
                to.first_audio.record(event.seconds, self._base)
            case AudioDropped():
                to.audio_dropped.record(event.seconds, self._base)
            case ContinuationRejected():
                to.rejected.add(1, self._with(code=event.code))
            case GoAwayReceived():
                to.go_aways.add(1, self._base)
            case LoopStalled():
                to.stalls.record(event.seconds, self._base)
            case ToolResultRedelivered():
                to.redelivered.add(1, self._with(form=event.form))
            case _:
                assert_never(event)

    def generation_closed(self, open_s: float, *, terminated: bool) -> None:
        """Count a generation that is over.

        Args:
            open_s: Seconds since it began, 0 or more.
            terminated: Whether the provider's terminal event came. Its time is recorded only
                then: how long we waited in vain is our bound, not the provider's pace.
        """
        if terminated:
            self._instruments.generation_open.record(open_s, self._base)
        else:
            self._instruments.unterminated.add(1, self._base)

    def _reconnect_attributes(self, event: Reconnected) -> _Attributes:
        drop = self._drop
        if drop is None:
            return self._with(cause=PLANNED, mode=event.mode)
        cause = drop.cause if _CLASS_NAME.fullmatch(drop.cause) else OTHER_CAUSE
        # Some clients' errors carry a `code` that is a text.
        code = drop.code if isinstance(drop.code, int) else None
        return self._with(cause=cause, code=code, mode=event.mode)

    def _with(self, **values: str | int | None) -> _Attributes:
        return {**self._base, **{k: v for k, v in values.items() if v is not None}}
