"""The healthy corpus with upstream's model and with ours: nobody may be able to tell them apart.

    scripts/bench.sh healthy [--only NAME] [--provider gemini|openai] [--markdown FILE]

Each script of `tests/healthy` runs with both on virtual time, in one of two worker processes. What
differs is printed, below a table. Without a choice of scripts the table also goes into README.md
(or into FILE). Ends with 1 where anything differs that is not meant to, where a meant difference
is met nowhere, or where a script or a simulator is at fault.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from tests.healthy.script import HealthyScript

LIMIT_S = 180.0
"""Real seconds that both runs of a script may take before its worker is replaced."""
README = ROOT / "README.md"
MARKS = ("<!-- healthy: written by scripts/bench.sh healthy -->", "<!-- /healthy -->")
HEADINGS = ("kind of call", "calls", "same as upstream", "decisions")


@dataclass(frozen=True)
class Result:
    """How one script went.

    Attributes:
        equal: nothing differs that is not meant to.
        decisions: how many things our model decided where nothing was to be decided.
        text: what is wrong, in lines; empty where nothing is.
        meant: names of the meant differences that were met.
        seconds: real seconds that both runs took.
    """

    equal: bool
    decisions: int = 0
    text: str = ""
    meant: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Row:
    script: HealthyScript
    result: Result


def work() -> None:
    """Serve runs; see `serve_orders`."""
    from tests.healthy.script import corpus

    scripts = corpus()
    serve_orders(lambda order: _run_one(scripts[order["name"]]))


def _run_one(script: HealthyScript) -> tuple[dict[str, Any], bool]:
    from tests.healthy.run import judge

    try:
        verdict = judge(script)
    except Exception as exc:
        text = f"{script.name}: the script or the simulator is at fault: {exc!r}"
        return {"equal": False, "text": text}, False
    return {
        "equal": verdict.equal,
        "decisions": len(verdict.decisions),
        "text": "" if verdict.equal else str(verdict),
        "meant": sorted(verdict.meant),
    }, True


class Worker(WorkerProcess):
    """Runs scripts one at a time; replaced after each hang, crash or error."""

    def __init__(self) -> None:
        super().__init__(SCRIPT)

    async def run(self, name: str) -> Result:
        began = time.monotonic()
        try:
            answer = await self.ask({"name": name}, LIMIT_S)
        except asyncio.TimeoutError:
            return Result(False, text=f"{name}: no end within {LIMIT_S:g} real seconds")
        if answer is None:
            return Result(False, text=f"{name}: the worker process died")
        return Result(**answer, seconds=time.monotonic() - began)


async def run_all(scripts: Sequence[HealthyScript]) -> list[Row]:
    """Run each script with both models."""
    results: dict[str, Result] = {}
    progress = Progress(len(scripts))

    async def perform(worker: Worker, script: HealthyScript) -> None:
        result = results[script.name] = await worker.run(script.name)
        outcome = "equal" if result.equal else "DIFFERS"
        progress.finished(script.name, f"{outcome} ({result.seconds:.1f} s)")

    await share_out(scripts, Worker, perform)
    return [Row(script, results[script.name]) for script in scripts]


def table(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line for each kind of call, and the sum."""
    lines: list[tuple[str, ...]] = [HEADINGS]
    groups = dict.fromkeys(row.script.group for row in rows)
    for group in [*groups, "all"]:
        own = [row for row in rows if group in ("all", row.script.group)]
        equal = sum(row.result.equal for row in own)
        decisions = sum(row.result.decisions for row in own)
        lines.append((group, str(len(own)), str(equal), str(decisions)))
    return lines


def unmet(rows: Sequence[Row]) -> list[str]:
    """The meant differences that no script met."""
    from tests.healthy.meant import MEANT

    met = {name for row in rows for name in row.result.meant}
    return [entry.name for entry in MEANT if entry.name not in met]


def chosen(names: Iterable[str], provider: str | None) -> list[HealthyScript]:
    """The scripts to run: by name or part of a name.

    Raises:
        SystemExit: with 2, where nothing is left to run.
    """
    from tests.healthy.script import corpus

    scripts = corpus()
    wanted: list[str] = []
    for name in names:
        parts = [known for known in scripts if name in known]
        wanted += [name] if name in scripts else parts or named([name], scripts, "script")
    picked = [scripts[name] for name in dict.fromkeys(wanted or scripts)]
    picked = [script for script in picked if provider in (None, script.provider)]
    if not picked:
        print(f"none of these scripts is one of {provider}", file=sys.stderr)
        raise SystemExit(2)
    return picked


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh healthy", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", metavar="NAME", action="append", default=[])
    parser.add_argument("--provider", choices=("gemini", "openai"))
    parser.add_argument(
        "--markdown", metavar="FILE", type=Path, help="default for the whole corpus: README.md"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return 0
    scripts = chosen(given.only, given.provider)
    whole = not given.only and given.provider is None
    if whole and given.markdown is None:
        with_table(README.read_text(), MARKS, "")  # better now than after minutes
    rows = asyncio.run(run_all(scripts))
    print(*(row.result.text for row in rows if row.result.text), sep="\n\n")
    print()
    print_columns(table(rows))
    missing = unmet(rows) if whole else []
    for name in missing:
        print(f"the meant difference {name!r} is met nowhere any more: take it out")
    written = "\n".join(markdown_table(table(rows)))
    if given.markdown is not None:
        given.markdown.write_text(written + "\n")
    elif whole:
        README.write_text(with_table(README.read_text(), MARKS, written))
    return 0 if all(row.result.equal for row in rows) and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
