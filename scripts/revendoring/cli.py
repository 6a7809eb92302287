"""Move the package to another upstream release, on a branch of its own.

Exit codes: 0 done and nothing needs a person, 1 done (or tried) and something does, 2 could not
run or was interrupted; then nothing was changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vendoring.errors import COULD_NOT_RUN, VendoringError
from vendoring.layout import Layout
from vendoring.terminal import check_writable, interruptible, progress
from vendoring.versions import Version

from .revendor import Wish, revendor


def _parser() -> argparse.ArgumentParser:
    # No abbreviations, so that a misspelt option does not do something else.
    parser = argparse.ArgumentParser(
        prog="scripts/revendor.sh",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("version", nargs="?", metavar="VERSION", help="the upstream release")
    which.add_argument(
        "--newest", action="store_true", help="the newest release in the supported range"
    )
    parser.add_argument(
        "--check", action="store_true", help="try everything and report, but keep nothing"
    )
    tests = parser.add_mutually_exclusive_group()
    tests.add_argument(
        "--tests", nargs="+", metavar="PATH", default=[], help="run only these tests"
    )
    tests.add_argument("--no-tests", action="store_true", help="leave the tests out")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the report as Markdown too"
    )
    return parser


def main(argv: Sequence[str] | None = None, layout: Layout | None = None) -> int:
    """Run the command; a VendoringError becomes one sentence."""
    args = _parser().parse_args(argv)
    interruptible()
    try:
        if args.markdown is not None:
            check_writable(args.markdown, "--markdown")
        version = None if args.newest else Version.parse(args.version)
        wish = Wish(version, keep=not args.check, tests=None if args.no_tests else args.tests)
        outcome = revendor(layout or Layout.here(), wish, progress)
    except VendoringError as e:
        print(f"error: {e}; nothing was changed", file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        print("interrupted; nothing was changed", file=sys.stderr)
        return COULD_NOT_RUN
    print(outcome.text())
    if args.markdown is not None:
        args.markdown.write_text(outcome.markdown(), "utf-8")
    return outcome.exit_code
