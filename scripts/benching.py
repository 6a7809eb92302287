"""What the benchmarks share: worker processes, a progress bar, and a table in the README."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import logging
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

WORKERS = 2
START_LIMIT_S = 120.0
"""Real seconds that a worker may take to start: it imports all of livekit-agents."""

_Order = TypeVar("_Order")


def serve_orders(handle: Callable[[dict[str, Any]], tuple[dict[str, Any], bool]]) -> None:
    """Be a worker: one JSON line in, one JSON line out, until the input ends.

    `handle` answers an order, and says whether this process can be trusted with another one.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that is printed may get between the answers
    # Not switched off: a run may compare what is logged. It goes where the parent throws it.
    logging.lastResort = None
    warnings.simplefilter("ignore")
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        answer, usable = handle(json.loads(line))
        print(json.dumps(answer), file=out, flush=True)
        if not usable:
            return


class WorkerProcess:
    """A process of `script --worker`, started when first needed and again after each end of it."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, order: Mapping[str, Any], limit_s: float) -> dict[str, Any] | None:
        """The answer to an order; None where the process died of it.

        Raises:
            asyncio.TimeoutError: there was none within `limit_s`; the process is stopped.
        """
        try:
            process = await self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            answer = await _answer(process, limit_s)
        except asyncio.TimeoutError:
            await self.stop()
            raise
        if answer is None:
            await self.stop()
        return answer

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
                str(self._script),
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


_Worker = TypeVar("_Worker", bound=WorkerProcess)


async def share_out(
    orders: Sequence[_Order],
    make_worker: Callable[[], _Worker],
    perform: Callable[[_Worker, _Order], Awaitable[None]],
) -> None:
    """Have every order performed, `WORKERS` at a time."""
    left = iter(orders)

    async def serve(orders: Iterator[_Order]) -> None:
        worker = make_worker()
        try:
            for order in orders:
                await perform(worker, order)
        finally:
            await worker.stop()

    await asyncio.gather(*(serve(left) for _ in range(WORKERS)))


class Progress:
    """A bar on a terminal, else a line for each run."""

    WIDTH = 30

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._bar = sys.stderr.isatty()

    def finished(self, name: str, outcome: str) -> None:
        """One more run is over; `outcome` is for the line."""
        self.done += 1
        if not self._bar:
            print(f"[{self.done}/{self.total}] {name} {outcome}", file=sys.stderr, flush=True)
            return
        filled = self.WIDTH * self.done // self.total
        bar = "#" * filled + "." * (self.WIDTH - filled)
        text = f"[{bar}] {self.done}/{self.total} {name}"
        print(f"\r{text[:99]:<99}", end="", file=sys.stderr, flush=True)
        if self.done == self.total:
            print(f"\r{'':<99}\r", end="", file=sys.stderr, flush=True)


def print_columns(lines: Sequence[Sequence[str]]) -> None:
    """A table on the terminal; the first line holds the headings."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def markdown_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """The same in Markdown."""
    head, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    return [head, "|" + " --- |" * len(lines[0]), *rows]


def with_table(text: str, marks: tuple[str, str], table: str) -> str:
    """A README with this table between its marks.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"README.md must hold the marks {marks[0]} and {marks[1]}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def named(names: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """The names, each of which must be known; without any, all that are known.

    Raises:
        SystemExit: with 2, after naming those that are near to an unknown name.
    """
    known = list(known)
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=5, cutoff=0.4)
            near = near or [other for other in known if name in other] or known
            print(f"no {what} {name!r}; near: {', '.join(near)}", file=sys.stderr)
            raise SystemExit(2)
    return list(names) or known
