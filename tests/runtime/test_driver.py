"""The driver: facts in, decisions carried out, one timer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import FinaliseReason
from livekit.plugins.resilient.core.limits import SILENT_AFTER_S
from livekit.plugins.resilient.events import (
    GenerationFinalised,
    LoopStalled,
    RedriveDecided,
    RedriveOutcome,
    ResilienceEvent,
)
from livekit.plugins.resilient.options import ResilienceOptions
from livekit.plugins.resilient.provider_bounds import OPENAI
from livekit.plugins.resilient.runtime.driver import Driver
from livekit.plugins.resilient.runtime.telemetry import Telemetry
from livekit.plugins.resilient.testing import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


@dataclass
class RecordingCarrier:
    """Notes what it is told to do; `on_finalise` lets a decision bring facts of its own."""

    done: list[tuple[str, ...]] = field(default_factory=list)
    events: list[ResilienceEvent] = field(default_factory=list)
    driver: Driver | None = None
    fails: bool = False

    def close_streams(self, generation_id: str) -> None:
        self.done.append(("close", generation_id))

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None:
        self.done.append(("finalise", generation_id))
        if self.fails:
            raise RuntimeError("the provider's session is in a bad state")
        if self.driver is not None:
            self.driver.feed(f.GenerationEnded(self.driver.now, generation_id))

    def redrive(self, redrive_id: str, instructions: str) -> None:
        self.done.append(("redrive", instructions))

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        self.done.append(("take back", redrive_id))

    def reissue(self, request_id: str) -> None:
        self.done.append(("reissue", request_id))

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return "the parcel is on"

    def replace_connection(self, *, speaks: bool = False) -> None:
        self.done.append(("replace",))

    def notify(self, event: ResilienceEvent) -> None:
        self.events.append(event)


def make(options: ResilienceOptions | None = None) -> tuple[Driver, RecordingCarrier]:
    options = options or ResilienceOptions(liveness_timeout_s=None)
    carrier = RecordingCarrier()
    driver = Driver(carrier, options, options.bounds(OPENAI), Telemetry("test"))
    carrier.driver = driver
    return driver, carrier


def timers() -> int:
    loop = asyncio.get_running_loop()
    scheduled = getattr(loop, "_scheduled")  # noqa: B009
    return sum(not t.cancelled() and "Timer._fire" in repr(t) for t in scheduled)


async def cut_reply(driver: Driver) -> None:
    driver.feed(f.Connected(driver.now))
    driver.feed(f.UserTurnEnded(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    driver.feed(f.AudioReceived(driver.now, "g1", 2.0))
    driver.feed(f.PlaybackStarted(driver.now, "g1"))
    await asyncio.sleep(1.0)
    driver.feed(f.Disconnected(driver.now))


async def test_a_caller_who_cuts_in_on_the_rest_of_a_reply_has_the_redrive_taken_back() -> None:
    driver, carrier = make()
    await cut_reply(driver)
    driver.feed(f.Connected(driver.now))
    driver.feed(f.PlaybackFinished(driver.now, "g1", 1.0, cut_in=True))
    assert carrier.done[-1] == ("take back", "redrive-1")
    assert [type(e) for e in carrier.events] == [RedriveDecided, RedriveOutcome]


async def test_a_cut_reply_is_asked_for_with_the_words_that_will_have_been_heard() -> None:
    driver, carrier = make()
    await cut_reply(driver)
    assert carrier.done == [("close", "g1")]
    driver.feed(f.Connected(driver.now))
    kind, text = carrier.done[1]
    assert kind == "redrive"
    assert "the parcel is on" in text
    assert [type(e) for e in carrier.events] == [RedriveDecided]


async def test_nothing_is_asked_for_with_the_watchdog_off() -> None:
    driver, carrier = make(ResilienceOptions(redrive=False, liveness_timeout_s=None))
    await cut_reply(driver)
    driver.feed(f.Connected(driver.now))
    await asyncio.sleep(60)
    assert [kind for kind, *_ in carrier.done] == ["close"]


async def test_a_stalled_reply_is_finalised_by_the_timer_and_its_own_facts_wait() -> None:
    driver, carrier = make(ResilienceOptions(redrive=False, liveness_timeout_s=None))
    driver.feed(f.Connected(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    await asyncio.sleep(SILENT_AFTER_S - 0.1)
    assert carrier.done == []
    await asyncio.sleep(0.2)
    assert carrier.done == [("finalise", "g1")]
    assert [type(e) for e in carrier.events] == [GenerationFinalised]


async def test_there_is_never_more_than_one_timer() -> None:
    driver, _ = make(ResilienceOptions())
    driver.feed(f.Connected(driver.now))
    for i in range(50):
        driver.feed(f.MessageArrived(driver.now))
        if i % 10 == 0:
            driver.feed(f.GenerationOpened(driver.now, f"g{i}"))
        assert timers() == 1
        await asyncio.sleep(0.1)
    driver.close()
    assert timers() == 0


@pytest.mark.logs_errors("the session is in a bad state")
async def test_a_session_that_fails_to_carry_out_a_decision_does_not_stop_the_driver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver, carrier = make()
    carrier.fails = True
    driver.feed(f.Connected(driver.now))
    driver.feed(f.UserTurnEnded(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    await asyncio.sleep(SILENT_AFTER_S + 0.1)
    assert [kind for kind, *_ in carrier.done] == ["finalise", "replace"]


@pytest.mark.logs_errors("the driver is fed a contradiction")
async def test_a_contradictory_fact_is_left_out_and_the_next_one_taken() -> None:
    driver, carrier = make()
    driver.feed(f.Connected(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    driver.feed(f.Disconnected(driver.now))
    assert carrier.done == [("close", "g1")]


async def test_outcomes_are_told() -> None:
    driver, carrier = make()
    await cut_reply(driver)
    driver.feed(f.PlaybackFinished(driver.now, "g1", 2.0))
    driver.feed(f.Connected(driver.now))
    await asyncio.sleep(SILENT_AFTER_S + 1)
    assert [type(e) for e in carrier.events] == [RedriveDecided, RedriveOutcome]


async def test_nothing_is_decided_after_the_close() -> None:
    driver, carrier = make()
    await cut_reply(driver)
    driver.close()
    driver.feed(f.Connected(driver.now))
    await asyncio.sleep(60)
    assert carrier.done == [("close", "g1")]


async def test_a_call_rests_once_the_caller_has_heard_the_reply() -> None:
    driver, _ = make()
    driver.feed(f.Connected(driver.now))
    assert driver.rests
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    driver.feed(f.AudioReceived(driver.now, "g1", 2.0))
    driver.feed(f.PlaybackStarted(driver.now, "g1"))
    began_at = driver.now
    resting = asyncio.create_task(driver.rest(by=began_at + 60))
    await asyncio.sleep(1.0)
    driver.feed(f.GenerationEnded(driver.now, "g1"))
    assert not driver.rests
    assert await resting
    assert driver.now == pytest.approx(began_at + 2.0, abs=0.01)


async def test_a_call_that_does_not_rest_is_waited_for_no_longer_than_said() -> None:
    driver, _ = make()
    driver.feed(f.Connected(driver.now))
    driver.feed(f.UserSpeechStarted(driver.now))
    began_at = driver.now
    assert not await driver.rest(by=began_at + 5)
    assert driver.now == pytest.approx(began_at + 5, abs=0.01)


async def test_who_waits_for_rest_can_be_cancelled_by_the_fact_that_ends_it() -> None:
    driver, _ = make()
    driver.feed(f.Connected(driver.now))
    driver.feed(f.UserSpeechStarted(driver.now))
    resting = asyncio.create_task(driver.rest(by=driver.now + 60))
    await asyncio.sleep(1.0)
    driver.feed(f.Disconnected(driver.now))
    resting.cancel()
    await asyncio.wait({resting}, timeout=1.0)
    assert resting.cancelled()


# -- the loop is blocked (R23)


def block(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.stall(seconds)


@pytest.mark.parametrize("blocked_s", [2.5, 40.0, 400.0])
async def test_a_blocked_loop_is_told_of_and_decides_nothing(blocked_s: float) -> None:
    driver, carrier = make()
    driver.feed(f.Connected(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    await asyncio.sleep(SILENT_AFTER_S / 2)
    block(blocked_s)
    await asyncio.sleep(1.0)
    assert carrier.done == []
    (stalled,) = carrier.events
    assert isinstance(stalled, LoopStalled)
    assert blocked_s - 1.0 <= stalled.seconds <= blocked_s


async def test_what_had_arrived_meanwhile_counts_before_the_deadline() -> None:
    driver, carrier = make()
    driver.feed(f.Connected(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    await asyncio.sleep(SILENT_AFTER_S - 0.1)
    # As a socket does that is read in the round after the timers.
    asyncio.get_running_loop().call_soon(
        lambda: driver.feed(f.GenerationEnded(driver.now, "g1", "cancelled"))
    )
    block(0.2)
    await asyncio.sleep(1.0)
    assert carrier.done == []


async def test_after_a_block_a_silence_is_still_judged() -> None:
    driver, carrier = make(ResilienceOptions(redrive=False, liveness_timeout_s=None))
    driver.feed(f.Connected(driver.now))
    driver.feed(f.GenerationOpened(driver.now, "g1"))
    block(100.0)
    await asyncio.sleep(SILENT_AFTER_S - 1.0)
    assert carrier.done == []
    await asyncio.sleep(2.5)
    assert carrier.done == [("finalise", "g1")]


async def test_a_short_block_is_not_told_of() -> None:
    driver, carrier = make()
    driver.feed(f.Connected(driver.now))
    await asyncio.sleep(0.5)
    block(1.2)
    await asyncio.sleep(1.0)
    assert carrier.events == []


async def test_several_tasks_can_wait_for_the_next_fact() -> None:
    driver, _ = make()
    driver.feed(f.Connected(driver.now))
    waiting = [asyncio.create_task(driver.next_fact(float("inf"))) for _ in range(2)]
    await asyncio.sleep(1.0)
    driver.feed(f.MessageArrived(driver.now))
    done, _ = await asyncio.wait(waiting, timeout=1.0)
    assert done == set(waiting)
