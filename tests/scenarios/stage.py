"""What a scenario is given: the server, the call, and ways to say what must hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

from livekit.agents import llm

from livekit.plugins.resilient.testing import (
    GeminiLiveServer,
    HeadlessCall,
    HeardSegment,
    OpenAIRealtimeServer,
    Reply,
    Span,
)
from livekit.plugins.resilient.testing.heard import gaps_between
from livekit.plugins.resilient.testing.server import SimulatedServer

from .call_script import CallScript
from .outcome import About, Outcome

Which: TypeAlias = Literal["upstream", "ours"]
ServerT = TypeVar("ServerT", bound=SimulatedServer)

OUTPUT_RATE = 24_000


class ScenarioFailed(AssertionError):
    """The caller did not experience what the scenario promises.

    Attributes:
        about: whether it shows in what the caller hears, or only in the record, the session, the
            connections or the events; "wait" where something never happened.
        outcome: what the caller met instead, once it was looked at.
    """

    about: About = "state"
    outcome: Outcome | None = None


class Stage(Generic[ServerT]):
    """One run of a scenario, with the call already begun.

    Attributes:
        scenario: what is run.
        server: the simulator; it outlives the call.
        call: the running call.
        which: whose model is under test.
        faulty: whether the faults are armed; False in a control.
        make_model: makes one more model like that of the call.
        began_at: loop time at which the call was made.
        idle: whether nobody owes a word just now, so that quiet is no dead air; a scenario sets it
            where it sits out a drop between turns, and `ask` takes it back.
        dead_air_s: what `dead_air` measured; None where it was not asked.
    """

    def __init__(
        self,
        scenario: CallScript,
        server: ServerT,
        call: HeadlessCall,
        *,
        which: Which,
        faulty: bool,
        make_model: Callable[[], llm.RealtimeModel],
    ) -> None:
        self.scenario = scenario
        self.server = server
        self.call = call
        self.which = which
        self.faulty = faulty
        self.make_model = make_model
        self.began_at = call.now
        self.idle = False
        self.dead_air_s: float | None = None

    # Steps of many scripts -----------------------------------------------------------------

    async def greet(self) -> HeardSegment:
        """Have the app ask for a reply; return it once it was heard and the agent is idle."""
        await self.call.generate_reply(instructions="Greet the caller.")
        reply = await self.call.reply()
        await self.call.agent_done()
        return reply

    async def ask(self, seconds: float = 1.0, *, timeout_s: float = 60.0) -> HeardSegment:
        """Let the caller speak; return the reply once it was heard and the agent is idle.

        What the agent began to say before the caller was through is not taken for the reply.
        """
        self.idle = False
        said = await self.call.say(seconds)
        reply = await self.call.reply(after=said.ended_at, timeout_s=timeout_s)
        await self.call.agent_done()
        return reply

    async def until_fault(self, count: int = 1, *, timeout_s: float = 60.0) -> float:
        """Wait until `count` faults have fired; return the time of the last of them.

        In a control it returns at once.
        """
        if not self.faulty:
            return self.call.now
        await self.server.wait_for("fault", count=count, timeout_s=timeout_s)
        return self.server.recording.faults[count - 1].at

    async def next_segment(self, *, timeout_s: float = 60.0) -> HeardSegment:
        """Wait until what is playing now, and one thing more, was heard; return the latter."""
        heard = self.call.heard
        count = len(heard.segments) + heard.busy + 1
        await self.call.until(
            lambda: len(heard.segments) >= count,
            timeout_s=timeout_s,
            what="something that the agent says next",
        )
        return heard.segments[count - 1]

    async def hang_up(self) -> float:
        """End the call; return how many seconds that took."""
        self.idle = True
        since = self.call.now
        await self.call.aclose()
        return self.call.now - since

    async def rest(self, seconds: float) -> None:
        """Let `seconds` pass, with everybody quiet unless the agent speaks."""
        deadline = self.call.now + seconds
        while (left_s := deadline - self.call.now) > 0:
            await self.call.changes.wait(left_s)

    # What must hold ------------------------------------------------------------------------

    def require(self, condition: object, sentence: str) -> None:
        """Fail unless `condition` is true; `sentence` says what must be, for the table.

        Raises:
            ScenarioFailed: with "not so: ..." before the sentence.
        """
        if not condition:
            raise ScenarioFailed(f"not so: {sentence}")

    def require_heard(self, condition: object, sentence: str) -> None:
        """The same, of something that the caller can hear, or misses.

        Raises:
            ScenarioFailed: as `require` does, told apart by `about`.
        """
        try:
            self.require(condition, sentence)
        except ScenarioFailed as exc:
            exc.about = "heard"
            raise

    def heard_whole(self, reply: Reply, turn: int | None = None) -> bool:
        """Whether the caller heard every sample of `reply`, in order and without a cut.

        `turn` is the number of the server's turn that said it, counted from 1 as the simulator
        performs them over all connections; None takes any.
        """
        return self.times_heard(reply, turn, first_s=reply.duration_s) > 0

    def times_heard(self, reply: Reply, turn: int | None = None, *, first_s: float = 0.2) -> int:
        """How often the caller heard the first `first_s` seconds of `reply`; see `heard_whole`."""
        heard = self.call.heard.heard_pcm()
        size = round(first_s * OUTPUT_RATE) * 2
        turns = range(1, self.server.script.turns + 1) if turn is None else (turn,)
        return sum(heard.count(reply.pcm(OUTPUT_RATE, seed=number)[:size]) for number in turns)

    def unrecoverable(self) -> int:
        """How many errors told the session that the model gave up."""
        return sum(not error.recoverable for error in self.call.errors)

    # Dead air ------------------------------------------------------------------------------

    @property
    def fault_at(self) -> float:
        """Loop time of the first fault that fired; in a control, the present.

        Raises:
            ScenarioFailed: no fault has fired although they are armed.
        """
        if not self.faulty:
            return self.call.now
        self.require(self.server.recording.faults, "the fault has happened")
        return self.server.recording.faults[0].at

    def dead_air(self, since: float | None = None, *, until: float | None = None) -> float:
        """Measure and report the longest time in which neither side was audible.

        Args:
            since: loop time to count from; by default that of the first fault.
            until: loop time to count to; by default the last time the agent was heard.

        Returns:
            Seconds; infinite when the agent was not heard after `since`.
        """
        start = self.fault_at if since is None else since
        agent = [span for span in self.call.heard.spans() if span.end > start]
        if until is None:
            until = agent[-1].end if agent else math.inf
        if math.isinf(until):
            seconds = math.inf
        else:
            voices = sorted([*agent, *self._caller()], key=lambda span: span.start)
            silences = gaps_between(voices, start, until, 0.001)
            seconds = max((gap.duration_s for gap in silences), default=0.0)
        if self.faulty:
            self.dead_air_s = seconds
        return seconds

    def voices(self) -> list[Span]:
        """When either side was audible, by its beginning."""
        return sorted([*self.call.heard.spans(), *self._caller()], key=lambda span: span.start)

    def asked_at(self) -> float | None:
        """Loop time of the last thing that the agent has to answer: the end of what the caller
        said, or a request of the application. None while the caller speaks, or before either."""
        latest = self.call._mark
        for said in self.call.mic.utterances:
            if said.started_at is not None and said.ended_at is None:
                return None
            latest = max(latest, said.ended_at or latest)
        return None if math.isinf(latest) else latest

    def longest_wait(self) -> float | None:
        """Seconds from the end of something that the caller said, after the fault, to the agent's
        next word: the longest that was answered; None where none was."""
        since = self.fault_at if self.server.recording.faults else -math.inf
        asked = [said.ended_at for said in self.call.mic.utterances if said.ended_at is not None]
        heard = [(at, self.call.heard.first_audio_after(at)) for at in asked if at >= since]
        return max((first - at for at, first in heard if first is not None), default=None)

    def _caller(self) -> list[Span]:
        return [
            Span(said.started_at, self.call.now if said.ended_at is None else said.ended_at)
            for said in self.call.mic.utterances
            if said.started_at is not None
        ]


GeminiStage: TypeAlias = Stage[GeminiLiveServer]
OpenAIStage: TypeAlias = Stage[OpenAIRealtimeServer]
