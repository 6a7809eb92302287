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
import contextlib
import difflib
import json
import logging
import math
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

SCRIPT = Path(__file__).resolve()
ROOT = SCRIPT.parents[1]
sys.path[:0] = [str(ROOT)]

if TYPE_CHECKING:
    from tests.scenarios.registry import Scenario
    from tests.scenarios.stage import Which

WORKERS = 2
LIMIT_S = 60.0
"""Real seconds that one run may take before its worker is replaced; most take less than one."""
HANG_LIMIT_S = 45.0
"""Real seconds after which a worker itself declares a run hung."""
START_LIMIT_S = 120.0
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
    """Serve runs: one JSON line in, one JSON line out, until the input ends."""
    from tests.scenarios.registry import catalogue

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that is printed may get between the answers
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    entries = catalogue()
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer, usable = _run_one(entries[order["name"]], order["which"])
        print(json.dumps(answer), file=out, flush=True)
        if not usable:
            return


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


class Worker:
    """A worker process, started when it is first needed and again after each hang or crash."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, name: str, which: Which) -> Result:
        began = time.monotonic()
        try:
            process = await self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps({"name": name, "which": which}).encode() + b"\n")
            answer = await _answer(process, LIMIT_S)
        except asyncio.TimeoutError:
            await self.stop()
            return Result("failed", f"no end within {LIMIT_S:g} real seconds", seconds=LIMIT_S)
        if answer is None:
            await self.stop()
            return Result("error", "the worker process died")
        if answer["status"] == "error":
            await self.stop()
        return Result(**answer, seconds=round(time.monotonic() - began, 2))

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(SCRIPT),
                "--worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await _answer(self._process, START_LIMIT_S)
        return self._process


async def _answer(process: asyncio.subprocess.Process, limit_s: float) -> dict[str, Any] | None:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), limit_s)
    return json.loads(line) if line else None


# Progress ----------------------------------------------------------------------------------


class Progress:
    """A bar on a terminal, else a line for each run."""

    WIDTH = 30

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._bar = sys.stderr.isatty()

    def finished(self, entry: Scenario, which: Which, result: Result) -> None:
        self.done += 1
        if not self._bar:
            note = f": {result.why}" if result.why else ""
            print(
                f"[{self.done}/{self.total}] {entry.name} {which} {result.status} "
                f"({result.seconds:.1f} s){note}",
                file=sys.stderr,
                flush=True,
            )
            return
        filled = self.WIDTH * self.done // self.total
        bar = "#" * filled + "." * (self.WIDTH - filled)
        text = f"[{bar}] {self.done}/{self.total} {entry.name}"
        print(f"\r{text[:99]:<99}", end="", file=sys.stderr, flush=True)
        if self.done == self.total:
            print(f"\r{'':<99}\r", end="", file=sys.stderr, flush=True)


async def run_all(entries: Sequence[Scenario]) -> list[Row]:
    """Run each scenario with both models, `WORKERS` at a time."""
    sides: tuple[Which, ...] = ("upstream", "ours")
    orders = iter([(entry, which) for entry in entries for which in sides])
    results: dict[tuple[str, str], Result] = {}
    progress = Progress(2 * len(entries))

    async def serve(orders: Iterator[tuple[Scenario, Which]]) -> None:
        worker = Worker()
        try:
            for entry, which in orders:
                result = await worker.run(entry.name, which)
                results[entry.name, which] = result
                progress.finished(entry, which, result)
        finally:
            await worker.stop()

    await asyncio.gather(*(serve(orders) for _ in range(WORKERS)))
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
    table = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
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
        "| " + " | ".join(HEADINGS) + " |",
        "|" + " --- |" * len(HEADINGS),
        *("| " + " | ".join(row.cells()) + " |" for row in rows),
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


def with_table(text: str, table: str) -> str:
    """A README with this table between its marks. Raises ValueError when it has no marks."""
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (begin and end):
        raise ValueError(f"README.md must hold the marks {MARKS[0]} and {MARKS[1]}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


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
    for name in names:
        if name not in entries:
            near = difflib.get_close_matches(name, entries, n=5, cutoff=0.4)
            near = near or [known for known in entries if name in known] or list(entries)
            print(f"no scenario {name!r}; near: {', '.join(near)}", file=sys.stderr)
            raise SystemExit(2)
    wanted = [entries[name] for name in names] or list(entries.values())
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
        README.write_text(with_table(README.read_text(), kinds_table(rows)))
    if given.json is not None:
        given.json.write_text(as_json(rows) + "\n")
    return 1 if any(row.surprising for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
