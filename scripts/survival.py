"""The fault catalogue with upstream's model and with ours: who survives what, and how silently.

    scripts/bench.sh survival [--only NAME] [--provider gemini|openai] [--json FILE]
                              [--markdown FILE]

Each scenario of `tests/scenarios` runs with its faults on virtual time, in one of two worker
processes; a worker that hangs or crashes is replaced. NAME is a promise, of which all variants are
played, or one of these. Ends with 1 where a scenario or a simulator is at fault, or where our model
did not do what the catalogue expects of it.
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
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

SCRIPT = Path(__file__).resolve()
ROOT = SCRIPT.parents[1]
sys.path[:0] = [str(ROOT)]

from benching import (  # noqa: E402
    Progress,
    WorkerProcess,
    named,
    print_columns,
    serve_orders,
    share_out,
    with_table,
)
from survival_page import (  # noqa: E402
    PromiseRow,
    Result,
    Row,
    by_promise,
    in_words,
    page,
    readme_part,
    summary,
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
        return {"met": "hung", "why": "the loop came to no end"}, False
    except Exception as exc:
        return {"met": "error", "why": f"{type(exc).__name__}: {exc}"}, False
    return asdict(outcome), True


class Worker(WorkerProcess):
    """Runs scenarios one at a time; replaced after each hang, crash or error."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)

    async def run(self, name: str, which: Which) -> Result:
        began = time.monotonic()
        try:
            answer = await self.ask({"name": name, "which": which}, LIMIT_S)
        except asyncio.TimeoutError:
            return Result("hung", f"no end within {LIMIT_S:g} real seconds", took_s=LIMIT_S)
        if answer is None:
            return Result("error", "the worker process died")
        if answer["met"] == "error":
            await self.stop()
        return Result(**answer, took_s=round(time.monotonic() - began, 2))


async def run_all(entries: Sequence[Scenario]) -> list[Row]:
    """Run each scenario with both models."""
    sides: tuple[Which, ...] = ("upstream", "ours")
    results: dict[tuple[str, str], Result] = {}
    progress = Progress(2 * len(entries))

    async def perform(worker: Worker, order: tuple[Scenario, Which]) -> None:
        entry, which = order
        result = results[entry.name, which] = await worker.run(entry.name, which)
        note = f": {result.why}" if result.why else ""
        outcome = f"{which} {result.met} ({result.took_s:.1f} s){note}"
        progress.finished(entry.name, outcome)

    await share_out([(entry, which) for entry in entries for which in sides], Worker, perform)
    return [Row(e, results[e.name, "upstream"], results[e.name, "ours"]) for e in entries]


# Output ------------------------------------------------------------------------------------


def print_table(table: Sequence[PromiseRow]) -> None:
    """On the terminal: a line per promise, what was surprising, and the counts."""
    headings = ("promise", "kind", "rule", "ours", "upstream")
    lines = [
        (row.promise.name, row.promise.kind, row.rules, row.ours_in_words(), in_words(row.upstream))
        for row in table
    ]
    print_columns([headings, *lines])
    print()
    for row in (row for promised in table for row in promised.rows):
        for which, result in (("upstream", row.upstream), ("ours", row.ours)):
            if result.met == "error" or (which == "ours" and row.surprising):
                print(f"{row.scenario.name}, {which}: {result.met} {result.why}")
    print(*summary(table), sep="\n")


def as_json(table: Sequence[PromiseRow]) -> str:
    """Every call, with the promise that it tests."""

    def plain(result: Result) -> dict[str, Any]:
        endless = result.seconds is not None and math.isinf(result.seconds)
        return {**asdict(result), "seconds": None if endless else result.seconds}

    return json.dumps(
        [
            {
                "name": row.scenario.name,
                "provider": row.scenario.provider,
                "kind": row.scenario.kind,
                "rule": row.scenario.rule,
                "promise": promised.promise.name,
                "sentence": promised.promise.sentence,
                "waits_for": list(row.scenario.waits_for),
                "upstream": plain(row.upstream),
                "ours": plain(row.ours),
            }
            for promised in table
            for row in promised.rows
        ],
        indent=1,
    )


# Command line ------------------------------------------------------------------------------


def chosen(names: Iterable[str], provider: str | None) -> list[Scenario]:
    """The scenarios to run: the named, the variants of the named promises, or all.

    Raises:
        SystemExit: with 2, after naming those that are near to an unknown name.
    """
    from tests.scenarios.registry import catalogue, promises

    entries, promised = catalogue(), promises()
    known = [*promised, *entries]
    wanted: dict[str, Scenario] = {}
    for name in named(names, known, "promise or scenario"):
        own = promised[name].variants if name in promised else (entries[name],)
        wanted |= {entry.name: entry for entry in own if provider in (None, entry.provider)}
    if not wanted:
        print(f"none of these scenarios is one of {provider}", file=sys.stderr)
        raise SystemExit(2)
    return list(wanted.values())


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
    from tests.scenarios.registry import promises

    entries = chosen(given.only, given.provider)
    rows = asyncio.run(run_all(entries))
    table = by_promise(rows, promises().values())
    print_table(table)
    whole = not given.only and given.provider is None
    target = given.markdown or (MARKDOWN if whole else None)
    if target is not None:
        target.write_text(page(table))
    if target == MARKDOWN:
        README.write_text(with_table(README.read_text(), MARKS, readme_part(table)))
    if given.json is not None:
        given.json.write_text(as_json(table) + "\n")
    return 1 if any(row.surprising for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
