"""The command line. Exit codes: 0 all OK, 1 something needs a person, 2 could not run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from . import tree
from .errors import VendoringError
from .fetch import pristine
from .layout import Layout
from .versions import Version


def _ensure(layout: Layout, args: argparse.Namespace) -> int:
    print(tree.ensure(layout, log=print))
    return 0


def _fetch(layout: Layout, args: argparse.Namespace) -> int:
    for text in args.version:
        print(pristine(layout, Version.parse(text)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vendoring", description=__doc__)
    parser.set_defaults(run=_ensure)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(
        name: str, run: Callable[[Layout, argparse.Namespace], int], help_text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text, description=help_text)
        sub.set_defaults(run=run)
        return sub

    command("ensure", _ensure, "make the _vendor tree current (the default)")
    fetch = command("fetch", _fetch, "lay upstream sources pristine under vendor/upstream/VERSION")
    fetch.add_argument("version", nargs="+", metavar="VERSION")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; print a VendoringError as one sentence."""
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(Layout.here(), args)
    except VendoringError as e:
        print(f"error: {e}", file=sys.stderr)
        return e.exit_code
    return code
