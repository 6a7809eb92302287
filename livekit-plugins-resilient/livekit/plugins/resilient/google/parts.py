"""Makes the parts of one session, and hands each the others that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.poison import Poison
from ..runtime.speaker import SpeakerWatch
from .activity import Activity
from .connection import Connector
from .connection_events import ConnectionEvents
from .dispatch import Dispatch
from .generations import Generations
from .heard_transcript import HeardTranscript
from .history import SeedForm, seed_forms
from .inbound import InboundEvents
from .late_results import LateResults
from .mirror import Mirror
from .outbound import SendQueue
from .requests import Requests
from .stale_content import StaleContentFilter
from .tool_results import ToolResults
from .tools import ToolCalls
from .turn_signs import can_be_interrupted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..options import ResilienceOptions
    from ..owed_reply import Left
    from ..runtime.driver import Driver
    from ..runtime.runner import Runner
    from .engine import Engine
    from .live_connection import LiveConnection
    from .serving import Serving

__all__ = ["Parts"]


class Parts:
    """What a session is made of, beside the three that it makes itself.

    Args:
        engine: Upstream's session.
        driver: Decides what is owed.
        serving: Which connection serves.
        options: The application's.
        runner: Gives the runner. That is made after these parts, of `connector`.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        options: ResilienceOptions,
        runner: Callable[[], Runner[LiveConnection, LiveConnection]],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._options = options
        self._runner = runner
        self.inbound = InboundEvents(
            driver,
            may_pass_over=bool(engine.options.proactivity),
            speaks=engine.speaks,
            interruptible=can_be_interrupted(engine.options),
        )
        self.transcript = HeardTranscript(
            engine=engine,
            driver=driver,
            inbound=self.inbound,
            rate_cps=options.speech_rate_cps,
        )
        self.speaker = SpeakerWatch(self.transcript.feed, lambda: driver.now)
        self.stale_content = StaleContentFilter()
        self.activity = Activity(
            engine=engine,
            driver=driver,
            serving=serving,
            inbound=self.inbound,
            options=options,
        )
        self.tool_calls = ToolCalls()
        self._results = ToolResults(
            engine=engine,
            driver=driver,
            serving=serving,
            tools=self.tool_calls,
            # The mirror asks for the form of results, and is told of those that go nowhere.
            on_void=lambda item_id: self.mirror.resumption.withdrawn([item_id]),
        )
        self.late_results = LateResults(
            engine=engine,
            activity=self.activity,
            results=self._results,
            tools=self.tool_calls,
            timer=driver.timer,
        )
        self.requests = Requests(
            engine=engine,
            driver=driver,
            serving=serving,
            inbound=self.inbound,
            activity=self.activity,
            late_results=self.late_results,
            stale_content=self.stale_content,
            options=options,
        )
        self.poison = Poison(seed_forms(engine.model_name), SeedForm.ANNOUNCED)
        self.mirror = Mirror(
            engine=engine,
            driver=driver,
            serving=serving,
            tools=self.tool_calls,
            results=self._results,
            late_results=self.late_results,
            activity=self.activity,
            transcript=self.transcript,
            poison=self.poison,
        )
        self.send_queue = SendQueue(
            engine=engine,
            driver=driver,
            serving=serving,
            activity=self.activity,
            late_results=self.late_results,
            gap_audio_s=options.gap_audio_s,
        )
        self.generations = Generations(
            engine=engine,
            driver=driver,
            serving=serving,
            inbound=self.inbound,
            activity=self.activity,
            requests=self.requests,
            mirror=self.mirror,
            tools=self.tool_calls,
            late_results=self.late_results,
            stale_content=self.stale_content,
            on_turn_finished=lambda: runner().turn_finished(),
        )
        self.dispatch = Dispatch(
            engine=engine,
            driver=driver,
            serving=serving,
            inbound=self.inbound,
            generations=self.generations,
            activity=self.activity,
            mirror=self.mirror,
            requests=self.requests,
            queue=self.send_queue,
            tools=self.tool_calls,
            results=self._results,
            late_results=self.late_results,
            stale_content=self.stale_content,
            transcript=self.transcript,
            on_sign=lambda: runner().sign_came(),
        )

    def connector(self, *, left: Callable[[], Left]) -> Connector:
        """The provider's part of the runner; `left` is as `Connector`'s."""
        runner = self._runner
        events = ConnectionEvents(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            inbound=self.inbound,
            generations=self.generations,
            activity=self.activity,
            mirror=self.mirror,
            requests=self.requests,
            queue=self.send_queue,
            stale_content=self.stale_content,
            speaker=self.speaker,
            suspicion=lambda: runner().suspicion,
            playout_on_drop=self._options.playout_on_drop,
        )
        return Connector(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            events=events,
            inbound=self.inbound,
            mirror=self.mirror,
            poison=self.poison,
            requests=self.requests,
            queue=self.send_queue,
            settle=self.requests.gave_up,
            left=left,
        )
