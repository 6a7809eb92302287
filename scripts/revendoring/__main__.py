"""`python -m revendoring` (with scripts/ on the path) or `python scripts/revendoring`."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from revendoring.cli import main

if __name__ == "__main__":
    sys.exit(main())
