"""All that one call shows: on the wire, to the caller, to the application, to its operator."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from livekit import rtc
from livekit.agents import AgentSession, llm, telemetry
from livekit.agents.voice import events as agent_events
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from livekit.plugins.resilient.events import ResilienceEvent
from livekit.plugins.resilient.testing import HeadlessCall
from livekit.plugins.resilient.testing.server import SimulatedServer
from livekit.plugins.resilient.testing.virtual_time import START_S

from .beside import Beside
from .plain import Names, plain

CHANNELS = (
    "wire",
    "pings",
    "heard",
    "captions",
    "events",
    "model events",
    "history",
    "agent's history",
    "model's history",
    "metrics",
    "spans",
    "logs",
    "end",
)

_EPOCH_S = 1_800_000_000.0
_HEADERS_OF_TRANSPORT = frozenset({"host", "sec-websocket-key"})
_UNSTABLE_ATTRIBUTES = (
    # Readings of a clock.
    "timestamp",
    "created_at",
    "_time",
    "duration",
    "latency",
    # Of metrics, which get to a span only where they come before its end; see the metrics.
    "realtime_model_metrics",
    "gen_ai.usage",
    "gen_ai.response",
)
_UNSTABLE_SPANS = frozenset({"realtime_metrics"})


@dataclass(frozen=True)
class Seen:
    """One thing that was seen.

    Attributes:
        label: what it was; equal for the same thing in two runs.
        data: its content, plain.
        at: seconds since the run began; None where it has no time of its own.
    """

    label: str
    data: Any = None
    at: float | None = None


@dataclass
class Observation:
    """What one run of a script showed.

    Attributes:
        channels: what was seen in each of `CHANNELS`, in order.
        decisions: the resilience events of our model, but for those of connections beside.
        beside: how many connections were asked beside the one that served, and not heard.
    """

    channels: dict[str, list[Seen]] = field(default_factory=lambda: {name: [] for name in CHANNELS})
    decisions: list[Seen] = field(default_factory=list)
    beside: int = 0


class Observer:
    """Watches one call from before it is made. Everything that has a clock is on virtual time."""

    def __init__(self) -> None:
        self.seen = Observation()
        self._loop = asyncio.get_running_loop()
        # The ids of a record are compared where they are used, on the wire.
        self._names = {name: Names(count="history" not in name) for name in CHANNELS}
        self._spans = _SpanOrder()
        self._passed_on: Counter[str] = Counter()
        self.errors: list[Exception] = []
        self.beside: Beside | None = None
        """What tells connections beside apart; set it before the call begins."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Take in events, spans and log records, and let `time.time` follow the loop's clock."""
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self._spans)
        handler = _LogHandler(self)
        logger, tracer = logging.getLogger("livekit"), telemetry.tracer
        before = tracer._tracer_provider
        tracer.set_provider(provider)
        logger.addHandler(handler)
        try:
            with (
                mock.patch.object(time, "time", self._wall_clock),
                mock.patch.object(time, "perf_counter", self._loop.time),
                mock.patch.object(rtc.EventEmitter, "emit", _watched_emit(self)),
            ):
                yield
        finally:
            logger.removeHandler(handler)
            tracer.set_provider(before)

    def decided(self, event: ResilienceEvent) -> None:
        """Our model told the application what it did about its connection."""
        if self.beside is not None and self.beside.takes(event):
            return
        self.seen.decisions.append(Seen(type(event).__name__, plain(event, Names()), self._now))

    def ended(self, why: str) -> None:
        """The script could not be played to its end."""
        self._see("end", "script", why)

    def hanging_up(self, call: HeadlessCall) -> None:
        """Look at what only a running call can show."""
        with contextlib.suppress(RuntimeError):
            for item in call.realtime_session.chat_ctx.items:
                self._see("model's history", item.type, item)

    def finish(self, call: HeadlessCall, server: SimulatedServer) -> None:
        """Look at what the call left behind, once it is over.

        Raises:
            Exception: what went wrong while observing.
        """
        if self.errors:
            raise self.errors[0]
        self._see_wire(server)
        self._see_heard(call)
        self._see_history(call)
        self._see_spans()
        self._see("end", "close problem", call.close_problem)
        self._see("end", "tasks left", call.leftover_tasks())
        self._see("end", "messages passed on", self._passed_on)
        for run in call.tools:
            self._see("end", f"tool {run.name}", [run.args, run.status, run.result], run.started_at)

    # While it runs -------------------------------------------------------------------------

    def emitted(self, source: object, event: str, args: tuple[Any, ...]) -> None:
        """`source` emitted an event."""
        if isinstance(source, AgentSession):
            if event == "metrics_collected":
                self._see("metrics", args[0].metrics.type, args[0].metrics, self._loop.time())
            else:
                self._see("events", event, [self._told(arg) for arg in args], self._loop.time())
        elif (
            isinstance(source, llm.RealtimeSession)
            and event != "resilience"
            and source._events.get("input_speech_started")
        ):
            # An activity listens: what a session emits while it is closed reaches nobody.
            if event.startswith("openai_"):
                # What the plugin passes on of the wire is compared there.
                self._passed_on[event] += 1
            else:
                self._see("model events", event, list(args), self._loop.time())

    def logged(self, record: logging.LogRecord) -> None:
        """A logger of livekit had something to say."""
        # The message without its arguments: they may hold addresses of objects.
        self._see("logs", record.levelname, str(record.msg).partition("\n")[0], self._loop.time())

    @property
    def _now(self) -> float:
        return self._loop.time() - START_S

    def _wall_clock(self) -> float:
        return _EPOCH_S + self._loop.time()

    def _told(self, event: object) -> Any:
        if isinstance(event, agent_events.ToolExecutionUpdatedEvent):
            return [type(event.update).__name__, event.update]
        if isinstance(event, agent_events.ErrorEvent):
            return [event.error]
        return event

    def _see(self, channel: str, label: str, data: Any, at: float | None = None) -> None:
        told = plain(data, self._names[channel])
        self.seen.channels[channel].append(Seen(label, told, None if at is None else at - START_S))

    # Afterwards ----------------------------------------------------------------------------

    def _see_wire(self, server: SimulatedServer) -> None:
        entries: list[tuple[float, str, Any]] = []
        recording = server.recording
        beside = set() if self.beside is None else self.beside.connections
        self.seen.beside = len(beside)
        dialled = [dial.connection for dial in recording.handshakes]
        served = [number for number in dialled if number not in beside]
        # As they would be numbered without the others.
        numbers = {number: place for place, number in enumerate(served, 1)}
        for dial in recording.handshakes:
            if (number := numbers.get(dial.connection)) is not None:
                headers = {k: v for k, v in dial.headers.items() if k not in _HEADERS_OF_TRANSPORT}
                entries.append((dial.at, f"{number} dial", [dial.path, dial.status, headers]))
        for frame in recording.received:
            if (number := numbers.get(frame.connection)) is not None:
                sound = [round(frame.audio_s, 6), _digest(frame.audio)] if frame.audio_s else []
                label = f"{number} {'+'.join(frame.kinds)}"
                entries.append((frame.at, label, [frame.message, *sound]))
        for close in recording.closes:
            if (number := numbers.get(close.connection)) is not None:
                data = [close.by, close.code, close.reason]
                entries.append((close.at, f"{number} close", data))
        for connection, ended in server.connections.items():
            if (number := numbers.get(connection)) is not None:
                for at in ended.wire.pings:
                    self._see("pings", f"{number} ping", None, at)
        for at, label, data in sorted(entries, key=lambda entry: entry[0]):
            self._see("wire", label, data, at)

    def _see_heard(self, call: HeadlessCall) -> None:
        for segment in call.heard.segments:
            spans = [[span.start - START_S, span.end - START_S] for span in segment.spans]
            data = {
                "heard_s": segment.position_s,
                "handed_over_s": segment.pushed_s,
                "interrupted": segment.interrupted,
                "spans": spans,
                "samples": _digest(segment.pcm),
            }
            self._see("heard", "segment", data, segment.ended_at)
        for at, text in call.captions.pieces:
            self._see("captions", "piece", text, at)

    def _see_history(self, call: HeadlessCall) -> None:
        for channel, context in (
            ("history", call.session.history),
            ("agent's history", call.session.current_agent.chat_ctx),
        ):
            for item in context.items:
                self._see(channel, item.type, item)

    def _see_spans(self) -> None:
        for path, span in self._spans.finished():
            if span.name in _UNSTABLE_SPANS:
                continue
            attributes = {
                name: value
                for name, value in (span.attributes or {}).items()
                if not any(part in name for part in _UNSTABLE_ATTRIBUTES)
            }
            self._see("spans", path, attributes)


class _SpanOrder(SpanProcessor):
    """Spans by their place in the tree."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._spans: list[tuple[str, ReadableSpan]] = []

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        parent = "" if span.parent is None else self._paths.get(span.parent.span_id, "?")
        path = f"{parent}/{span.name}"
        context = span.get_span_context()
        assert context is not None
        self._paths[context.span_id] = path
        self._spans.append((path, span))

    def finished(self) -> list[tuple[str, ReadableSpan]]:
        """By place, in the order of their starts: siblings may start in any order."""
        return sorted(self._spans, key=lambda entry: entry[0])


class _LogHandler(logging.Handler):
    def __init__(self, observer: Observer) -> None:
        super().__init__(logging.WARNING)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        self._observer.logged(record)


def _watched_emit(observer: Observer) -> Any:
    original = rtc.EventEmitter.emit

    def emit(self: rtc.EventEmitter[Any], event: Any, *args: Any) -> None:
        try:
            observer.emitted(self, event, args)
        except Exception as exc:  # must not become part of what is observed
            observer.errors.append(exc)
        original(self, event, *args)

    return emit


def _digest(pcm: bytes) -> str:
    return hashlib.sha1(pcm, usedforsecurity=False).hexdigest()[:10]
