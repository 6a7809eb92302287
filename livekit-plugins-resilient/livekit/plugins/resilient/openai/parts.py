"""Makes the parts of one session, and hands each the others that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.agent_record import AgentRecord
from ..runtime.speaker import SpeakerWatch
from .connection import Connector
from .connection_events import ConnectionEvents
from .dispatch import Dispatch
from .inbound import InboundEvents
from .microphone import InputBuffer, Microphone
from .mirror import Mirror
from .outbound import SendQueue
from .replay_limit import ReplayLimit
from .tools import ToolCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..options import ResilienceOptions
    from ..owed_reply import Left
    from ..runtime.driver import Driver
    from ..runtime.runner import Runner
    from .engine import Engine
    from .requests import Requests
    from .serving import Serving
    from .standby import StandbyConnection
    from .websocket import SwappableSocket

__all__ = ["Parts"]


class Parts:
    """What a session is made of, beside the four that it makes itself.

    Args:
        engine: Upstream's session.
        driver: Decides what is owed.
        serving: Which connection serves.
        requests: Replies that were asked for.
        options: The application's.
        speaks: Whether the model gives audio.
        runner: Gives the runner. That is made after these parts, of `connector`.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        requests: Requests,
        options: ResilienceOptions,
        speaks: bool,
        runner: Callable[[], Runner[SwappableSocket, StandbyConnection]],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._requests = requests
        self._options = options
        self._runner = runner
        self.speaker = SpeakerWatch(driver.feed, lambda: driver.now)
        self.inbound = InboundEvents(driver, speaks=speaks)
        self.tool_calls = ToolCalls(driver=driver)
        self.mirror = Mirror(
            engine=engine,
            serving=serving,
            inbound=self.inbound,
            tools=self.tool_calls,
            speaker=self.speaker,
            # The two correct each other: one by what was cut, the other by what was played.
            on_cut=lambda message_id, heard: self.transcript.cut(message_id, heard),
            rate_cps=options.speech_rate_cps,
        )
        self.transcript = AgentRecord(self.mirror.played_to_its_end, self.mirror.response_is_over)
        self.send_queue = SendQueue(engine=engine, mirror=self.mirror)
        self.microphone = Microphone(options.gap_audio_s, resends=options.resend_utterance)
        self.input_buffer = InputBuffer(resends=options.resend_utterance)
        self._limit = ReplayLimit()
        self.dispatch = Dispatch(
            engine=engine,
            driver=driver,
            serving=serving,
            inbound=self.inbound,
            mirror=self.mirror,
            requests=requests,
            queue=self.send_queue,
            tools=self.tool_calls,
            microphone=self.microphone,
            input_buffer=self.input_buffer,
            limit=self._limit,
            on_turn_finished=lambda: runner().turn_finished(),
            on_failing=lambda: runner().suspect("failing"),
        )

    def connector(
        self,
        *,
        connect_timeout_s: float,
        liveness_timeout_s: float | None,
        settle: Callable[[], None],
        left: Callable[[], Left],
    ) -> Connector:
        """The provider's part of the runner; the arguments are as `Connector`'s."""
        runner = self._runner
        events = ConnectionEvents(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            inbound=self.inbound,
            mirror=self.mirror,
            requests=self._requests,
            queue=self.send_queue,
            microphone=self.microphone,
            input_buffer=self.input_buffer,
            limit=self._limit,
            playout_on_drop=self._options.playout_on_drop,
        )
        return Connector(
            engine=self._engine,
            driver=self._driver,
            serving=self._serving,
            events=events,
            mirror=self.mirror,
            requests=self._requests,
            microphone=self.microphone,
            limit=self._limit,
            liveness_timeout_s=liveness_timeout_s,
            connect_timeout_s=connect_timeout_s,
            healthy_after_s=self._options.healthy_after_s,
            on_sign=lambda pong: runner().sign_came(pong),
            is_suspected=lambda: runner().suspicion is not None,
            settle=settle,
            left=left,
        )
