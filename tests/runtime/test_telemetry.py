"""Metrics of a session, as an OpenTelemetry SDK exports them."""

from __future__ import annotations

import re
import textwrap
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

import pytest
from opentelemetry.metrics import Counter, Histogram, NoOpMeter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)

from livekit.plugins.resilient.core.decisions import (
    FinaliseReason,
    HedgeResult,
    RedriveCause,
    RedriveResult,
)
from livekit.plugins.resilient.errors import OptionError
from livekit.plugins.resilient.events import (
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
    ReconnectMode,
    RedriveDecided,
    RedriveOutcome,
    ResilienceEvent,
    ToolResultRedelivered,
)
from livekit.plugins.resilient.runtime.connection_log import ConnectionLog
from livekit.plugins.resilient.runtime.telemetry import METER_NAME, SECONDS_BUCKETS, Telemetry
from vendoring.forks import Forks

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
SECRET = "AIza-secret key, Bearer abc"


@dataclass(frozen=True)
class Point:
    """One exported series: a counter's sum, or a histogram's sum and count."""

    metric: str
    attributes: frozenset[tuple[str, object]]
    total: float
    count: int | None = None


def point(metric: str, total: float, count: int | None = None, /, **attributes: object) -> Point:
    return Point(f"livekit.resilient.{metric}", frozenset(attributes.items()), total, count)


class Exporter:
    """An SDK of its own, so that no test sees another's points."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])
        self.meter = self.provider.get_meter(METER_NAME)

    def metrics(self) -> list[Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def points(self) -> list[Point]:
        found = []
        for metric in self.metrics():
            for data in metric.data.data_points:
                attributes = frozenset(data.attributes.items())
                if isinstance(data, HistogramDataPoint):
                    found.append(Point(metric.name, attributes, data.sum, data.count))
                else:
                    assert isinstance(data, NumberDataPoint)
                    found.append(Point(metric.name, attributes, data.value))
        return found


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    exporter = Exporter()
    yield exporter
    exporter.provider.shutdown()


def test_a_session_exports_exactly_these_points(exporter: Exporter) -> None:
    telemetry = Telemetry("google", exporter.meter)
    telemetry.generation_closed(4.0, terminated=True)
    telemetry.record(Disconnected(at=10.0, cause="ConnectionClosedError", code=1011))
    telemetry.generation_closed(1.0, terminated=False)
    telemetry.record(Reconnected(at=10.5, mode="resumed", gap_s=0.5, attempts=2))
    telemetry.record(RedriveDecided(at=13.5, reason="unanswered_turn", waited_s=3.0))
    telemetry.record(RedriveOutcome(at=14.25, outcome="rescued"))
    telemetry.record(FirstAudioAfterReconnect(at=14.25, seconds=3.75))
    telemetry.record(AudioDropped(at=14.5, seconds=2.5))
    telemetry.record(GenerationFinalised(at=20.0, reason="stalled", open_s=6.0, idle_s=4.0))
    telemetry.record(HandedOver(at=21.0, overlapped=True))
    telemetry.record(GoAwayReceived(at=22.0, time_left_s=10.0))
    telemetry.record(ContinuationRejected(at=23.0, code=1008))
    telemetry.record(ToolResultRedelivered(at=24.0, form="text"))
    telemetry.generation_closed(6.0, terminated=False)

    assert Tally(exporter.points()) == Tally(
        [
            point(
                "reconnects",
                1,
                provider="google",
                cause="ConnectionClosedError",
                code=1011,
                mode="resumed",
            ),
            point("reconnect.gap", 0.5, 1, provider="google", mode="resumed"),
            point("redrives", 1, provider="google", outcome="rescued", reason="unanswered_turn"),
            point("reconnect.first_audio", 3.75, 1, provider="google"),
            point("reconnect.audio_dropped", 2.5, 1, provider="google"),
            point("generation.duration", 4.0, 1, provider="google"),
            point("generation.unterminated", 2, provider="google"),
            point("generation.finalised", 1, provider="google", reason="stalled"),
            point("handovers", 1, provider="google", overlapped=True),
            point("go_aways", 1, provider="google"),
            point("continuations_rejected", 1, provider="google", code=1008),
            point("tool_results_redelivered", 1, provider="google", form="text"),
        ]
    )


def test_half_of_a_pair_counts_nothing(exporter: Exporter) -> None:
    telemetry = Telemetry("google", exporter.meter)
    telemetry.record(Disconnected(at=1.0, cause="eof"))
    telemetry.record(RedriveDecided(at=2.0, reason="reply_cut", waited_s=0.0))
    assert exporter.points() == []


def test_a_drop_and_a_reason_are_used_once(exporter: Exporter) -> None:
    telemetry = Telemetry("openai", exporter.meter)
    telemetry.record(Disconnected(at=1.0, cause="eof", code=1006))
    telemetry.record(Reconnected(at=2.0, mode="replayed", gap_s=1.0, attempts=1))
    telemetry.record(Reconnected(at=9.0, mode="replayed", gap_s=0.25, attempts=1))
    telemetry.record(RedriveDecided(at=9.0, reason="reply_cut", waited_s=0.0))
    telemetry.record(RedriveOutcome(at=9.5, outcome="failed"))
    telemetry.record(RedriveDecided(at=9.5, reason="reply_requested", waited_s=0.0))
    telemetry.record(RedriveOutcome(at=9.75, outcome="failed"))

    assert Tally(exporter.points()) == Tally(
        [
            point("reconnects", 1, provider="openai", cause="eof", code=1006, mode="replayed"),
            point("reconnects", 1, provider="openai", cause="planned", mode="replayed"),
            point("reconnect.gap", 1.25, 2, provider="openai", mode="replayed"),
            point("redrives", 1, provider="openai", outcome="failed", reason="reply_cut"),
            point("redrives", 1, provider="openai", outcome="failed", reason="reply_requested"),
        ]
    )


def test_sessions_do_not_mix_their_drops(exporter: Exporter) -> None:
    first, second = Telemetry("google", exporter.meter), Telemetry("google", exporter.meter)
    first.record(Disconnected(at=1.0, cause="FirstError"))
    second.record(Disconnected(at=1.0, cause="SecondError"))
    first.record(Reconnected(at=2.0, mode="fresh", gap_s=1.0, attempts=1))
    causes = [
        dict(p.attributes)["cause"]
        for p in exporter.points()
        if p.metric == "livekit.resilient.reconnects"
    ]
    assert causes == ["FirstError"]


class CountingMeter(NoOpMeter):
    """Remembers which instruments were asked for."""

    def __init__(self) -> None:
        super().__init__(METER_NAME)
        self.created: list[str] = []

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        self.created.append(name)
        return super().create_counter(name, unit, description)

    def create_histogram(
        self,
        name: str,
        unit: str = "",
        description: str = "",
        *,
        explicit_bucket_boundaries_advisory: Sequence[float] | None = None,
    ) -> Histogram:
        self.created.append(name)
        return super().create_histogram(name, unit, description)


def test_sessions_on_a_meter_share_its_instruments(exporter: Exporter) -> None:
    meter, other = CountingMeter(), CountingMeter()
    for _ in range(3):
        Telemetry("google", meter)
        Telemetry("openai", meter)
    assert len(meter.created) == len(set(meter.created)) > 0
    Telemetry("google", other)
    assert other.created == meter.created

    for _ in range(2):
        Telemetry("google", exporter.meter).generation_closed(1.0, terminated=False)
    assert exporter.points() == [point("generation.unterminated", 2, provider="google")]


def test_a_secret_error_text_is_in_no_attribute(exporter: Exporter) -> None:
    log = ConnectionLog()
    log.dialling()
    log.connected(0.0, "fresh")
    dropped = log.ended(1.0, cause=ConnectionResetError(SECRET))
    log.dialling()
    reconnected = log.connected(2.0, "fresh")
    assert dropped is not None
    assert reconnected is not None
    telemetry = Telemetry("google", exporter.meter)
    telemetry.record(dropped)
    telemetry.record(reconnected)
    assert point(
        "reconnects", 1, provider="google", cause="ConnectionResetError", mode="fresh"
    ) in (exporter.points())


@pytest.mark.parametrize("cause", [SECRET, "", "Error: no", "Naïve", "A" * 65, "Error\n"])
def test_a_cause_that_is_no_class_name_is_not_exported(exporter: Exporter, cause: str) -> None:
    telemetry = Telemetry("google", exporter.meter)
    telemetry.record(Disconnected(at=1.0, cause=cause))
    telemetry.record(Reconnected(at=2.0, mode="fresh", gap_s=1.0, attempts=1))
    assert point("reconnects", 1, provider="google", cause="_OTHER", mode="fresh") in (
        exporter.points()
    )


def test_a_code_that_is_a_text_is_not_exported(exporter: Exporter) -> None:
    telemetry = Telemetry("google", exporter.meter)
    telemetry.record(Disconnected(at=1.0, cause="APIError", code=cast("int", SECRET)))
    telemetry.record(Reconnected(at=2.0, mode="fresh", gap_s=1.0, attempts=1))
    assert point("reconnects", 1, provider="google", cause="APIError", mode="fresh") in (
        exporter.points()
    )


@pytest.mark.parametrize("provider", ["", "Google", SECRET, "google\n", "a" * 65, "1st"])
def test_a_provider_that_is_no_name_is_refused(provider: str) -> None:
    with pytest.raises(OptionError, match="provider=") as raised:
        Telemetry(provider, NoOpMeter(METER_NAME))
    assert raised.value.field == "provider"


def test_a_hedge_is_counted_with_its_outcome(exporter: Exporter) -> None:
    telemetry = Telemetry("google", exporter.meter)
    telemetry.record(HedgeDecided(at=1.0, reason="unanswered_turn", waited_s=8.0))
    assert exporter.points() == []
    telemetry.record(HedgeOutcome(at=2.0, result="served"))
    counted = {"provider": "google", "outcome": "served", "reason": "unanswered_turn"}
    assert exporter.points() == [point("hedges", 1, **counted)]


def record_everything(telemetry: Telemetry) -> None:
    """Every value of every closed set, so that every instrument has points."""
    for mode in get_args(ReconnectMode):
        telemetry.record(Disconnected(at=1.0, cause="TimeoutError", code=1001))
        telemetry.record(Reconnected(at=2.0, mode=mode, gap_s=1.0, attempts=1))
        telemetry.record(FirstAudioAfterReconnect(at=3.0, seconds=1.0))
        telemetry.record(AudioDropped(at=3.0, seconds=1.0))
    for cause in get_args(RedriveCause):
        for outcome in get_args(RedriveResult):
            telemetry.record(RedriveDecided(at=4.0, reason=cause, waited_s=0.0))
            telemetry.record(RedriveOutcome(at=5.0, outcome=outcome))
        for result in get_args(HedgeResult):
            telemetry.record(HedgeDecided(at=4.0, reason=cause, waited_s=8.0))
            telemetry.record(HedgeOutcome(at=5.0, result=result))
    for reason in get_args(FinaliseReason):
        telemetry.record(GenerationFinalised(at=6.0, reason=reason, open_s=1.0, idle_s=1.0))
    for overlapped in (True, False):
        telemetry.record(HandedOver(at=6.0, overlapped=overlapped))
    telemetry.record(GoAwayReceived(at=6.0, time_left_s=10.0))
    telemetry.record(LoopStalled(at=6.0, seconds=2.0))
    telemetry.record(ContinuationRejected(at=6.0, code=1001))
    forms: tuple[Literal["native", "text"], ...] = ("native", "text")
    for form in forms:
        telemetry.record(ToolResultRedelivered(at=6.0, form=form))
    telemetry.generation_closed(1.0, terminated=True)
    telemetry.generation_closed(1.0, terminated=False)


def test_attributes_are_of_the_closed_sets(exporter: Exporter) -> None:
    record_everything(Telemetry("google", exporter.meter))
    allowed: dict[str, set[object]] = {
        "provider": {"google"},
        "cause": {"TimeoutError"},
        "code": {1001},
        "mode": set(get_args(ReconnectMode)),
        "outcome": {*get_args(RedriveResult), *get_args(HedgeResult)},
        "reason": {*get_args(RedriveCause), *get_args(FinaliseReason)},
        "overlapped": {True, False},
        "form": {"native", "text"},
    }
    seen: dict[str, set[object]] = {}
    for exported in exporter.points():
        for key, value in exported.attributes:
            seen.setdefault(key, set()).add(value)
    assert seen == allowed


def test_histograms_have_buckets_for_seconds(exporter: Exporter) -> None:
    record_everything(Telemetry("google", exporter.meter))
    histograms = [
        data
        for metric in exporter.metrics()
        for data in metric.data.data_points
        if isinstance(data, HistogramDataPoint)
    ]
    assert {tuple(data.explicit_bounds) for data in histograms} == {SECONDS_BUCKETS}


def test_the_documentation_lists_every_metric_and_event(exporter: Exporter) -> None:
    record_everything(Telemetry("google", exporter.meter))
    exported = {}
    for metric in exporter.metrics():
        assert metric.description
        keys = {key for data in metric.data.data_points for key in data.attributes}
        kind = "histogram" if metric.unit == "s" else "counter"
        exported[metric.name] = (kind, metric.unit, keys - {"provider"})

    text = DOCS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(livekit\.\S+)` \| (\w+), `(\S+)` \| ([^|]*)\|", text, re.MULTILINE)
    documented = {
        name: (kind, unit, set(re.findall(r"`(\w+)`", keys))) for name, kind, unit, keys in rows
    }
    assert documented == exported

    events = {event.__name__: event for event in get_args(ResilienceEvent)}
    rows = re.findall(r"^\| `([A-Z]\w+)` \| [^|]* \| ([^|]*) \|", text, re.MULTILINE)
    documented_fields = {
        name: re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", described))
        for name, described in rows
    }
    assert documented_fields == {
        name: [field.name for field in fields(event) if field.name != "at"]
        for name, event in events.items()
    }


def test_the_global_meter_provider_may_come_late(forks: Forks) -> None:
    # In a process of its own, because a meter provider can be installed only once.
    program = """
        from opentelemetry import metrics
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from livekit.plugins.resilient.runtime.telemetry import Telemetry

        session = Telemetry("google")
        session.generation_closed(1.0, terminated=False)
        reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider([reader]))
        session.generation_closed(1.0, terminated=False)
        Telemetry("google").generation_closed(1.0, terminated=False)
        (resource,) = reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for data in metric.data.data_points:
                    print(scope.scope.name, metric.name, data.value)
    """
    done = forks.run(textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "livekit.plugins.resilient livekit.resilient.generation.unterminated 2"
    ]
