"""Run one script with both models, and say what differs."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import virtual_time
from livekit.plugins.resilient.testing.errors import CallEndedError, ServerTimeoutError
from tests.scenarios.play import RUN_LIMIT_S, staged
from tests.scenarios.stage import ScenarioFailed, Which

from .beside import as_slow_beside
from .compare import MISSING, Difference, compare
from .observe import Observation, Observer
from .script import HealthyScript

HANG_LIMIT_S = 60.0
"""Real seconds that one run may take."""

ALWAYS_PERMITTED = frozenset({"HandleIssued"})
"""Resilience events that tell of the provider and not of anything that we did."""


@dataclass(frozen=True)
class Verdict:
    """How our model did beside upstream's in one script.

    Attributes:
        script: what was run.
        decisions: what our model decided, where nothing was to be decided.
        differences: everything that is not as with upstream's model and not meant to be.
        meant: names of the meant differences that were met.
        beside: how many connections were asked beside the one that served, and not heard.
        broken: why upstream's own run proves nothing; empty where it does.
    """

    script: HealthyScript
    decisions: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    meant: frozenset[str] = frozenset()
    beside: int = 0
    broken: str = ""

    @property
    def equal(self) -> bool:
        """Whether nobody could tell the two models apart."""
        return not (self.decisions or self.differences or self.broken)

    def __str__(self) -> str:
        lines = [f"{self.script.name}: {self.script.promise}"]
        if self.broken:
            lines.append(f"  upstream's own run is no standard: {self.broken}")
        lines += [f"  decided: {decision}" for decision in self.decisions]
        lines += [f"  {difference}" for difference in self.differences[:8]]
        if len(self.differences) > 8:
            lines.append(f"  and {len(self.differences) - 8} more")
        return "\n".join(lines)


def observed(script: HealthyScript, which: Which, *, faults: bool = True) -> Observation:
    """Run a script with one model on a virtual-time loop of its own.

    Raises:
        Exception: the script or the simulator is at fault.
    """
    return virtual_time.run(_observe(script, which, faults), run_limit_s=HANG_LIMIT_S)


def judge(script: HealthyScript, which: Which = "ours") -> Verdict:
    """Run a script with upstream's model and with `which`, and compare.

    Raises:
        Exception: the script or the simulator is at fault.
    """
    from .meant import sort_out

    upstream = observed(script, "upstream", faults=not script.spare_upstream)
    try:
        other = observed(script, which)
    except virtual_time.VirtualTimeHang as exc:
        return Verdict(script, differences=(Difference("end", "hang", "", MISSING, str(exc)),))
    differences = compare(upstream, other)
    if sort_out(differences, script)[0]:
        # Where upstream's model is not always equal to itself, a difference proves nothing.
        again = compare(observed(script, "upstream", faults=not script.spare_upstream), other)
        places = {(found.channel, found.label, found.path) for found in again}
        differences = [
            found for found in differences if (found.channel, found.label, found.path) in places
        ]
    ended = [seen.data for seen in upstream.channels["end"] if seen.label == "script"]
    permitted = ALWAYS_PERMITTED | script.permits
    left, meant = sort_out(differences, script)
    return Verdict(
        script,
        tuple(
            f"{seen.label} at {seen.at:.2f} s: {seen.data}"
            for seen in other.decisions
            if seen.label not in permitted
        ),
        tuple(left),
        meant,
        other.beside,
        broken=ended[0] if ended else "",
    )


async def _observe(script: HealthyScript, which: Which, faults: bool) -> Observation:
    observer = Observer()
    options = script.resilience or ResilienceOptions()
    assert options.on_event is None, "the harness listens itself"
    with observer.watching():
        resilience = dataclasses.replace(options, on_event=observer.decided)
        async with staged(script, which, faults=faults, resilience=resilience) as stage:
            observer.beside = as_slow_beside(stage.server)
            try:
                async with stage.call:
                    await asyncio.wait_for(script.run(stage), RUN_LIMIT_S)
                    await stage.rest(script.settle_s)
                    observer.hanging_up(stage.call)
            except (CallEndedError, ServerTimeoutError, ScenarioFailed) as exc:
                observer.ended(f"{type(exc).__name__}: {str(exc).partition('; seen')[0]}")
            except asyncio.TimeoutError:
                observer.ended(f"no end within {RUN_LIMIT_S:g} s")
            await stage.call.aclose()
            # What the simulator still has to notice of the end.
            await asyncio.sleep(1.0)
            observer.finish(stage.call, stage.server)
    return observer.seen
