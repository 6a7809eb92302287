"""Build and check a release of the commit that is checked out.

Exit codes: 0 all fine, 1 something needs a person, 2 could not run or was interrupted; then
nothing is left behind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vendoring.errors import COULD_NOT_RUN, VendoringError
from vendoring.layout import Layout
from vendoring.terminal import interruptible, progress

from .release import Wish, release


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/release.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--rehearsal", action="store_true", help="want neither tag nor date, and keep nothing"
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="X.Y",
        help="try only this version; may be given several times (default: every one found)",
    )
    parser.add_argument(
        "--no-install", action="store_true", help="leave the installs out; only with --rehearsal"
    )
    return parser


def main(argv: Sequence[str] | None = None, layout: Layout | None = None) -> int:
    """Run the command; a VendoringError becomes one sentence."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.no_install and not args.rehearsal:
        parser.error("--no-install goes only with --rehearsal: a release has to be installed once")
    interruptible()
    wish = Wish(rehearsal=args.rehearsal, pythons=args.python, install=not args.no_install)
    try:
        outcome = release(layout or Layout.here(), wish, progress)
    except VendoringError as e:
        print(f"error: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print("interrupted; nothing is left behind", file=sys.stderr)
        return COULD_NOT_RUN
    print(outcome.text())
    return outcome.exit_code
