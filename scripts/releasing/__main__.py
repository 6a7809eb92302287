"""`python -m releasing` (with scripts/ on the path) or `python scripts/releasing`."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from releasing.cli import main

if __name__ == "__main__":
    sys.exit(main())
