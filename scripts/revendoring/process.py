"""Running long commands so that none of them outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KILL_AFTER_S = 5.0


@dataclass(frozen=True)
class Ended:
    """How a command ended. `timed_out` means that it was stopped."""

    code: int
    output: str
    timed_out: bool = False

    @property
    def last_line(self) -> str:
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else "nothing"


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command in a process group of its own, and end the whole group when we are ended.

    What it prints, both streams together, is returned.
    """
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=None if env is None else dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Ended(-1, _end(process), timed_out=True)
    except BaseException:
        _end(process)
        raise
    return Ended(process.returncode, output)


def _end(process: subprocess.Popen[str]) -> str:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            return process.communicate(timeout=KILL_AFTER_S)[0]
        except subprocess.TimeoutExpired:
            continue
    return process.communicate()[0]
