"""The fault catalogue with upstream's model and with ours: who survives what, and how silently.

    scripts/bench.sh survival [--only NAME] [--provider gemini|openai] [--json FILE]
                              [--markdown FILE]

Each scenario of `tests/scenarios` runs with its faults on virtual time, in one of two worker
processes; a worker that hangs or crashes is replaced. Ends with 1 where a scenario or a simulator
is at fault, or where our model did not do what the catalogue expects of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

SCRIPT = Path(__file__).resolve()
ROOT = SCRIPT.parents[1]
sys.path[:0] = [str(ROOT)]

from benching import (  # noqa: E402
    Progress,
    WorkerProcess,
    markdown_table,
    named,
    print_columns,
    serve_orders,
    share_out,
    with_table,
)

if TYPE_CHECKING:
    from tests.scenarios.registry import Scenario
    from tests.scenarios.stage import Which

LIMIT_S = 60.0
"""Real seconds that one run may take before its worker is replaced; most take less than one."""
HANG_LIMIT_S = 45.0
"""Real seconds after which a worker itself declares a run hung."""
MARKDOWN = ROOT / "docs" / "survival.md"
README = ROOT / "README.md"
MARKS = ("<!-- survival: written by scripts/bench.sh survival -->", "<!-- /survival -->")
KINDS = {
    "K1": "a drop that is not noticed, or never recovered from",
    "K2": "session caps and GoAway",
    "K3": "retries and error reporting",
    "K4": "resumption handles",
    "K5": "context told twice, lost or malformed",
    "K6": "tool results that never reach the model",
    "K7": "tool calls repeated, cancelled or in parallel",
    "K8": "replies that never end, or never begin",
    "K9": "reply requests that time out, come late or collide",
    "K10": "a record of words that nobody heard",
    "K11": "microphone audio that is stale or lost",
    "K12": "rules of the model families",
    "K13": "hanging up, leaks, growth",
}

Status: TypeAlias = Literal["survived", "failed", "error"]


@dataclass(frozen=True)
class Result:
    """One run. `error` means that the scenario or the simulator is at fault, not the model."""

    status: Status
    why: str = ""
    dead_air_s: float | None = None
    open_ended: bool = False
    seconds: float = 0.0

    @property
    def word(self) -> str:
        return {"survived": "yes", "failed": "no", "error": "ERROR"}[self.status]

    @property
    def dead_air(self) -> str:
        if self.dead_air_s is None:
            return "-"
        if math.isinf(self.dead_air_s):
            return "for good"
        return f"{'> ' if self.open_ended else ''}{self.dead_air_s:.1f}"


@dataclass(frozen=True)
class Row:
    scenario: Scenario
    upstream: Result
    ours: Result

    @property
    def surprising(self) -> bool:
        """Whether our model did other than the catalogue says."""
        expected = "failed" if self.scenario.waits_for else "survived"
        return self.ours.status != expected or self.upstream.status == "error"

    def cells(self) -> tuple[str, ...]:
        entry = self.scenario
        own = self.ours.word
        if entry.waits_for:
            own += f" (waits for {', '.join(entry.waits_for)})"
        return (
            entry.name,
            entry.kind,
            entry.rule,
            self.upstream.word,
            own,
            self.upstream.dead_air,
            self.ours.dead_air,
        )


HEADINGS = (
    "scenario",
    "kind",
    "rule",
    "upstream",
    "ours",
    "dead air s, upstream",
    "dead air s, ours",
)


# Workers -----------------------------------------------------------------------------------


def work() -> None:
    """Serve runs; see `serve_orders`."""
    from tests.scenarios.registry import catalogue

    logging.disable(logging.CRITICAL)
    entries = catalogue()
    serve_orders(lambda order: _run_one(entries[order["name"]], order["which"]))


def _run_one(entry: Scenario, which: Which) -> tuple[dict[str, Any], bool]:
    """The result as plain data, and whether this process can be trusted with another run."""
    from livekit.plugins.resilient.testing import virtual_time
    from tests.scenarios.play import outcome_of

    try:
        outcome = virtual_time.run(outcome_of(entry, which), run_limit_s=HANG_LIMIT_S)
    except virtual_time.VirtualTimeHang:
        return {"status": "failed", "why": "the call hung"}, False
    except Exception as exc:
        return {"status": "error", "why": f"{type(exc).__name__}: {exc}"}, False
    return {
        "status": "survived" if outcome.survived else "failed",
        "why": outcome.why,
        "dead_air_s": outcome.dead_air_s,
        "open_ended": outcome.open_ended,
    }, True


class Worker(WorkerProcess):
    """Runs scenarios one at a time; replaced after each hang, crash or error."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)

    async def run(self, name: str, which: Which) -> Result:
        began = time.monotonic()
        try:
            answer = await self.ask({"name": name, "which": which}, LIMIT_S)
        except asyncio.TimeoutError:
            return Result("failed", f"no end within {LIMIT_S:g} real seconds", seconds=LIMIT_S)
        if answer is None:
            return Result("error", "the worker process died")
        if answer["status"] == "error":
            await self.stop()
        return Result(**answer, seconds=round(time.monotonic() - began, 2))


async def run_all(entries: Sequence[Scenario]) -> list[Row]:
    """Run each scenario with both models."""
    sides: tuple[Which, ...] = ("upstream", "ours")
    results: dict[tuple[str, str], Result] = {}
    progress = Progress(2 * len(entries))

    async def perform(worker: Worker, order: tuple[Scenario, Which]) -> None:
        entry, which = order
        result = results[entry.name, which] = await worker.run(entry.name, which)
        note = f": {result.why}" if result.why else ""
        outcome = f"{which} {result.status} ({result.seconds:.1f} s){note}"
        progress.finished(entry.name, outcome)

    await share_out([(entry, which) for entry in entries for which in sides], Worker, perform)
    return [Row(e, results[e.name, "upstream"], results[e.name, "ours"]) for e in entries]


# Output ------------------------------------------------------------------------------------


def summary(rows: Sequence[Row]) -> list[str]:
    """One line per provider."""
    lines = []
    for provider in dict.fromkeys(row.scenario.provider for row in rows):
        own = [row for row in rows if row.scenario.provider == provider]
        upstream = sum(row.upstream.status == "survived" for row in own)
        ours = sum(row.ours.status == "survived" for row in own)
        lines.append(f"{provider}: upstream survives {upstream} of {len(own)}, ours {ours}.")
    return lines


def print_table(rows: Sequence[Row]) -> None:
    print_columns([HEADINGS, *(row.cells() for row in rows)])
    print()
    for row in rows:
        for which, result in (("upstream", row.upstream), ("ours", row.ours)):
            if result.status == "error" or (which == "ours" and row.surprising):
                print(f"{row.scenario.name}, {which}: {result.status} {result.why}")
    print(*summary(rows), sep="\n")


def markdown(rows: Sequence[Row]) -> str:
    lines = [
        "# Survival",
        "",
        "What a caller experiences when the connection to the model fails, with upstream's model",
        "and with ours. Each scenario is a whole call against a simulated server; its control, the",
        "same call without the fault, passes with both. Written by `scripts/bench.sh survival`.",
        "",
        f"Upstream: livekit-agents {version('livekit-agents')}, "
        f"livekit-plugins-google {version('livekit-plugins-google')}, "
        f"livekit-plugins-openai {version('livekit-plugins-openai')}.",
        "",
        "Dead air is the longest time in which neither the agent nor the caller was audible: from",
        "the fault on, or from the end of the caller's question. With `>` the wait was given up.",
        "",
        *(f"- {line}" for line in summary(rows)),
        "",
        *markdown_table([HEADINGS, *(row.cells() for row in rows)]),
        "",
        "## What is promised",
        "",
        *(f"- `{row.scenario.name}`: {row.scenario.promise}" for row in rows),
        "",
    ]
    return "\n".join(lines)


def kinds_table(rows: Sequence[Row]) -> str:
    """Who survives how many of each kind of fault, for the README."""
    lines = ["| kind of fault | calls | upstream survives | ours |", "|---|---|---|---|"]
    for kind, title in KINDS.items():
        own = [row for row in rows if row.scenario.kind == kind]
        upstream = sum(row.upstream.status == "survived" for row in own)
        ours = sum(row.ours.status == "survived" for row in own)
        lines.append(f"| {title} | {len(own)} | {upstream} | {ours} |")
    total = [sum(row.upstream.status == "survived" for row in rows)]
    total.append(sum(row.ours.status == "survived" for row in rows))
    lines.append(f"| all | {len(rows)} | {total[0]} | {total[1]} |")
    return "\n".join(lines)


def as_json(rows: Sequence[Row]) -> str:
    def plain(result: Result) -> dict[str, Any]:
        endless = result.dead_air_s is not None and math.isinf(result.dead_air_s)
        return {
            "status": result.status,
            "why": result.why,
            "dead_air_s": None if endless else result.dead_air_s,
            "open_ended": result.open_ended or endless,
            "seconds": result.seconds,
        }

    return json.dumps(
        [
            {
                "name": row.scenario.name,
                "provider": row.scenario.provider,
                "kind": row.scenario.kind,
                "rule": row.scenario.rule,
                "promise": row.scenario.promise,
                "waits_for": list(row.scenario.waits_for),
                "upstream": plain(row.upstream),
                "ours": plain(row.ours),
            }
            for row in rows
        ],
        indent=1,
    )


# Command line ------------------------------------------------------------------------------


def chosen(names: Iterable[str], provider: str | None) -> list[Scenario]:
    """The scenarios to run.

    Raises:
        SystemExit: with 2, after naming those that are near to an unknown name.
    """
    from tests.scenarios.registry import catalogue

    entries = catalogue()
    wanted = [entries[name] for name in named(names, entries, "scenario")]
    wanted = [entry for entry in wanted if provider in (None, entry.provider)]
    if not wanted:
        print(f"none of these scenarios is one of {provider}", file=sys.stderr)
        raise SystemExit(2)
    return wanted


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh survival", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    parser.add_argument("--provider", choices=("gemini", "openai"))
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument(
        "--markdown", metavar="FILE", type=Path, help="default for the whole catalogue: docs/"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return 0
    entries = chosen(given.only, given.provider)
    rows = asyncio.run(run_all(entries))
    print_table(rows)
    whole = not given.only and given.provider is None
    target = given.markdown or (MARKDOWN if whole else None)
    if target is not None:
        target.write_text(markdown(rows))
    if target == MARKDOWN:
        README.write_text(with_table(README.read_text(), MARKS, kinds_table(rows)))
    if given.json is not None:
        given.json.write_text(as_json(rows) + "\n")
    return 1 if any(row.surprising for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
