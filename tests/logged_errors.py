"""What the package logs as an error: each one means that our own bookkeeping is off."""

from __future__ import annotations

import logging
import threading
from typing import Any

LOGGER = "livekit.plugins.resilient"

# What a record has by itself; the rest was passed as `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class LoggedErrors(logging.Handler):
    """Collects, in `lines`, what is logged at level ERROR or above by the thread it is made in.

    Calls that run beside it, in threads of their own, answer for themselves.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread:
            return
        extra = {name: value for name, value in vars(record).items() if name not in _OWN}
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        self.lines.append(f"{record.getMessage()} {extra or ''}{error}")

    def __enter__(self) -> LoggedErrors:
        logging.getLogger(LOGGER).addHandler(self)
        return self

    def __exit__(self, *_: Any) -> None:
        logging.getLogger(LOGGER).removeHandler(self)
