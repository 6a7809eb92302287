"""When connections came and went."""

from __future__ import annotations

import pytest
from livekit import rtc

from livekit.plugins.resilient.events import Disconnected, Reconnected, ResilienceEvent
from livekit.plugins.resilient.options import ResilienceOptions
from livekit.plugins.resilient.runtime.connection_log import ConnectionLog
from livekit.plugins.resilient.runtime.notify import notify


def test_the_first_connection_is_not_a_reconnect() -> None:
    log = ConnectionLog()
    log.dialling()
    assert not log.was_connected
    assert log.connected(1.0, "fresh") is None
    assert log.was_connected


def test_a_drop_and_its_reconnect_tell_gap_and_attempts() -> None:
    log = ConnectionLog()
    log.dialling()
    log.connected(1.0, "fresh")
    assert log.ended(5.0, cause=ConnectionError("secret"), code=1006) == Disconnected(
        at=5.0, cause="ConnectionError", code=1006
    )
    log.dialling()
    log.dialling()
    assert log.connected(7.5, "resumed") == Reconnected(
        at=7.5, mode="resumed", gap_s=2.5, attempts=2
    )


def test_an_end_we_asked_for_is_no_drop_but_its_gap_counts() -> None:
    log = ConnectionLog()
    log.dialling()
    log.connected(1.0, "fresh")
    assert log.ended(5.0, cause=None) is None
    log.dialling()
    assert log.connected(5.5, "replayed") == Reconnected(
        at=5.5, mode="replayed", gap_s=0.5, attempts=1
    )


def test_a_connection_ends_once() -> None:
    log = ConnectionLog()
    log.dialling()
    log.connected(1.0, "fresh")
    log.ended(5.0, cause=None)
    assert log.ended(6.0, cause=ConnectionError()) is None


@pytest.mark.logs_errors("the application's callback raises")
def test_an_event_reaches_the_option_and_the_session_even_if_the_option_raises() -> None:
    received: list[ResilienceEvent] = []

    def on_event(event: ResilienceEvent) -> None:
        received.append(event)
        raise RuntimeError("the application's fault")

    event = Disconnected(at=1.0, cause="eof")
    emitter = rtc.EventEmitter[str]()
    emitted: list[object] = []
    emitter.on("resilience", emitted.append)
    notify(emitter, ResilienceOptions(on_event=on_event), event)
    assert received == [event]
    assert emitted == [event]
