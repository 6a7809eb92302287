"""What the command lines of these scripts share."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

from .errors import VendoringError

__all__ = ["check_writable", "interruptible", "progress"]


def progress(text: str) -> None:
    """Say on the terminal what is being done."""
    print(f"{text} ...", file=sys.stderr, flush=True)


def check_writable(path: Path, asked_by: str) -> None:
    """A report that cannot be written is better told before the work than after it.

    Raises:
        VendoringError: There is no folder for it, or it is one.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise VendoringError(f"{asked_by}: {path} cannot be written: its folder must exist")


def interruptible() -> None:
    """Have whatever ends the run raise KeyboardInterrupt, so that it can clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
