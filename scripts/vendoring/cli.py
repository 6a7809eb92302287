"""The command line of the vendoring scripts."""

from __future__ import annotations

import argparse
import datetime
import difflib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from . import engine, tree
from .anchors import Anchor, orphans, record, write_anchors
from .check import Inventory
from .errors import NEEDS_A_PERSON, UnknownId, VendoringError
from .fetch import pristine
from .layout import Layout
from .leak import check_repository
from .locks import locked_version
from .patchfile import Patch
from .review import review
from .terminal import check_writable, progress
from .verify import verify, versions_to_check
from .versions import Version

_EXIT_CODES = (
    "Exit codes: 0 all OK (on the locked release and newer ones), 1 something needs a person, "
    "2 could not run. patches/README.md tells what each status means."
)

Command: TypeAlias = Callable[[Layout, argparse.Namespace], int]


def _ensure(layout: Layout, args: argparse.Namespace) -> int:
    print(tree.ensure(layout, log=print))
    return 0


def _fetch(layout: Layout, args: argparse.Namespace) -> int:
    for text in args.version:
        print(pristine(layout, Version.parse(text)))
    return 0


def _verify(layout: Layout, args: argparse.Namespace) -> int:
    versions = [Version.parse(text) for text in args.version]
    if args.locked and versions:
        raise VendoringError("verify: give either --locked or versions, not both")
    for path in filter(None, (args.json, args.markdown)):
        check_writable(path, "verify")
    unsupported: list[Version] = []
    if args.locked:
        versions = [locked_version(layout)]
    elif not versions:
        versions, unsupported = versions_to_check(layout, ask_index=not args.static, pre=args.pre)
    began_at = time.monotonic()
    report = verify(layout, versions, probes=not args.static, unsupported=unsupported, log=progress)
    print(f"done in {time.monotonic() - began_at:.0f} s", file=sys.stderr)
    print(report.table())
    for line in report.details():
        print(line)
    if args.json is not None:
        args.json.write_text(report.json(), "utf-8")
    if args.markdown is not None:
        args.markdown.write_text(report.markdown(), "utf-8")
    return report.exit_code


def _show(layout: Layout, args: argparse.Namespace) -> int:
    """Print a patch's effect as a unified diff. It shows upstream's text: keep it out of git."""
    inventory = Inventory.load(layout)
    version = _version(layout, args)
    patch = _find_patch(inventory, args.id)
    origin = inventory.targets.get(patch.target).origin(version)
    if origin is None:
        print(f"{patch.id}: upstream {version} has no {patch.target}")
        return 0
    before = (pristine(layout, version) / origin.file).read_bytes()
    for other in inventory.patches:
        if other.id == patch.id:
            break
        if other.target == patch.target and version in other.applies_to:
            before = engine.apply(before, other, origin.file)
    after = engine.apply(before, patch, origin.file)
    lines = difflib.unified_diff(
        before.decode().splitlines(),
        after.decode().splitlines(),
        f"{version}/{origin.file}",
        patch.id,
        lineterm="",
    )
    print("\n".join(lines))
    return 0


def _ack(layout: Layout, args: argparse.Namespace) -> int:
    """Show what changed since the last review; record a new one when there is a note."""
    inventory = Inventory.load(layout)
    version = _version(layout, args)
    reviews = [r for id_ in args.id for r in review(layout, inventory, id_, version)]
    for found in reviews:
        print("\n".join(found.lines()))
    drifted = [r for r in reviews if not r.is_reviewed]
    note: str = args.note or (_ask_for_note() if drifted else "")
    if drifted and not note.strip():
        print("Nothing is recorded: no note says what the review found.")
        return NEEDS_A_PERSON
    today = datetime.date.today().isoformat()
    new = [Anchor(r.id, r.scope, r.version, r.fingerprint, today, note) for r in drifted]
    anchors = record(inventory.anchors, new)
    for anchor in new:
        print(f"{anchor.id}: {anchor.scope} as in {anchor.version} is recorded as reviewed")
    gone = orphans(anchors, inventory.scopes())
    for anchor in gone:
        print(f"{anchor.id}: the review of {anchor.scope}, which is declared no more, is forgotten")
    if new or gone:
        write_anchors(layout.anchors, [a for a in anchors if a not in gone])
    return 0


def _ask_for_note() -> str:
    if not sys.stdin.isatty():
        return ""
    return input("What did the review find? (empty: record nothing) ")


def _guard(layout: Layout, args: argparse.Namespace) -> int:
    problems = check_repository(layout)
    for problem in problems:
        print(problem)
    return NEEDS_A_PERSON if problems else 0


def _version(layout: Layout, args: argparse.Namespace) -> Version:
    return Version.parse(args.version) if args.version else locked_version(layout)


def _find_patch(inventory: Inventory, id_: str) -> Patch:
    for patch in inventory.patches:
        if patch.id == id_:
            return patch
    known = ", ".join(p.id for p in inventory.patches)
    raise UnknownId(f"there is no patch {id_!r} (known: {known})")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vendoring", description=__doc__, epilog=_EXIT_CODES)
    parser.set_defaults(run=_ensure)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Command, help_text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help_text, description=help_text, epilog=_EXIT_CODES)
        sub.set_defaults(run=run)
        return sub

    command("ensure", _ensure, "make the _vendor tree current (the default)")

    fetch = command("fetch", _fetch, "lay upstream sources pristine under vendor/upstream/VERSION")
    fetch.add_argument("version", nargs="+", metavar="VERSION")

    check = command(
        "verify", _verify, "check all patches, overrides and private names; prints the table"
    )
    check.add_argument(
        "version",
        nargs="*",
        metavar="VERSION",
        help="check these and the locked one; default: every release from the oldest supported "
        "to the newest on the index",
    )
    check.add_argument("--locked", action="store_true", help="only the locked version")
    check.add_argument(
        "--static",
        action="store_true",
        help="run no probes and ask no index: only the releases in the lock files",
    )
    check.add_argument("--pre", action="store_true", help="pre-releases too")
    check.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    check.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as a table")

    show = command("show", _show, "print on the terminal the diff that a patch makes")
    show.add_argument("id", metavar="ID")
    show.add_argument("--version", help="default: the locked version")

    ack = command(
        "ack",
        _ack,
        "show how the scopes of a patch, override or private name changed; record the review",
    )
    ack.add_argument("id", nargs="+", metavar="ID")
    ack.add_argument("--version", help="default: the locked version")
    ack.add_argument("--note", help="what the review found; asked for on a terminal")

    command("guard", _guard, "check that git holds no upstream text")
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
