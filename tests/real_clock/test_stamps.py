"""Facts that are one moment on virtual time, and several on a clock that runs."""

from __future__ import annotations

import asyncio

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.core import facts as f
from livekit.plugins.resilient.core.decisions import FinaliseReason
from livekit.plugins.resilient.events import RedriveOutcome, ResilienceEvent
from livekit.plugins.resilient.options import ResilienceOptions
from livekit.plugins.resilient.provider_bounds import OPENAI
from livekit.plugins.resilient.runtime.driver import Driver
from livekit.plugins.resilient.runtime.telemetry import Telemetry
from livekit.plugins.resilient.testing import (
    After,
    Blackhole,
    Fault,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)
from tests.real_clock.runner import Play, Runner, plays

GREETING = Reply("Hello there.")
ANSWER = Reply("Yes, I can hear you well.")


async def words_into_a_half_open_connection() -> None:
    """They reach the next one, which answers them; so far only on virtual time they did."""
    faults = [Fault(After("response.done", connection=1), Blackhole())]
    async with OpenAIRealtimeServer([GREETING, ANSWER], faults=faults) as server:
        model = resilient.openai.realtime.RealtimeModel(**server.model_kwargs())
        async with HeadlessCall(model) as call:
            await call.generate_reply(instructions="greet")
            await call.agent_done()
            said = await call.say(2.6)
            await call.reply(after=said.ended_at, timeout_s=30)
            heard = [item.pcm for item in server.session.items if item.role == "user"]
            assert len(server.dials()) == 2
            assert len(heard) == 1
            assert said.pcm in heard[0]


@pytest.mark.parametrize("play", plays([("half-open", words_into_a_half_open_connection)]), ids=str)
def test_the_words_are_answered(play: Play, runner: Runner) -> None:
    runner.result(play)


class AskingCarrier:
    """An application that asks for a reply as soon as it learns what became of a re-drive."""

    driver: Driver

    def close_streams(self, generation_id: str) -> None: ...

    def finalise(self, generation_id: str, reason: FinaliseReason) -> None: ...

    def redrive(self, redrive_id: str, instructions: str) -> None: ...

    def take_back(self, redrive_id: str, generation_id: str | None) -> None:
        pass

    def reissue(self, request_id: str) -> None: ...

    def words_of(self, generation_id: str, audio_s: float) -> str:
        return ""

    def replace_connection(self, *, speaks: bool = False) -> None: ...

    def notify(self, event: ResilienceEvent) -> None:
        if isinstance(event, RedriveOutcome):
            self.driver.feed(f.ReplyRequested(self.driver.now, "by the application"))


async def test_a_message_of_two_facts_outlives_what_the_application_does_about_the_first() -> None:
    options = ResilienceOptions(liveness_timeout_s=None)
    carrier = AskingCarrier()
    carrier.driver = driver = Driver(carrier, options, options.bounds(OPENAI), Telemetry("test"))
    driver.feed(f.Connected(driver.now, knows_turn=False, words_lost=False))
    driver.feed(f.UserTurnEnded(driver.now))
    driver.feed(f.Disconnected(driver.now))
    driver.feed(f.Connected(driver.now, knows_turn=False, words_lost=False))  # it is asked for
    driver.feed(f.GenerationOpened(driver.now, "reply", None))
    now = driver.now
    await asyncio.sleep(0.001)
    # As one message of Gemini brings them: what the caller said, and that the turn is over.
    driver.feed(f.UserTurnEnded(now))
    driver.feed(f.GenerationEnded(now, "reply"))
    driver.feed(f.ReplyCancelled(driver.now, None))
    assert driver.rests  # else the reply would be open until a watchdog ends it
    driver.close()
