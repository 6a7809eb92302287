"""What a reviewer of drift has to see: how a scope differs from the one that was reviewed last.

The difference is one of structure, as the fingerprint sees it: layout, comments and docstrings are
left out. It shows upstream's text, so it goes to the terminal and never into git.
"""

from __future__ import annotations

import ast
import copy
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from . import engine
from .anchors import Anchor, is_reviewed
from .check import Inventory, Upstream, is_upstreams, relied_source
from .errors import UnknownId, UnsupportedVersion, VendoringError
from .layout import Layout
from .overrides import Override, check_override
from .patchfile import Patch
from .relies import Relied, relied_nodes
from .source import DEFINITIONS, Source, docstring_of, fingerprint
from .versions import Version

Item: TypeAlias = "Patch | Override | Relied"


@dataclass(frozen=True)
class ScopeReview:
    """One scope of a patch, override or private name on the version under review.

    `version` is upstream's, or that of what is only installed. `before` is the last review on an
    older (else on any) version; None when there was none. `difference` are the lines of a unified
    diff against it.
    """

    id: str
    scope: str
    version: str
    fingerprint: str
    is_reviewed: bool
    place: str
    before: Anchor | None
    difference: tuple[str, ...]

    def lines(self) -> list[str]:
        """What to print."""
        title = f"{self.id}: {self.scope}, {self.place}"
        if self.is_reviewed:
            return [f"{title}: as reviewed"]
        if self.before is None:
            return [f"{title}: never reviewed before; read it there"]
        then = f'reviewed on {self.before.version} ({self.before.date}): "{self.before.note}"'
        changes = self.difference or ("    (the source of that review cannot be had)",)
        return [title, f"  {then}", *changes]


def review(layout: Layout, inventory: Inventory, id_: str, version: Version) -> list[ScopeReview]:
    """Every scope of a patch, override or private name on one version.

    Raises UnknownId, a leaf of PatchProblem when a scope is not there any more, or another
    VendoringError when upstream cannot be had.
    """
    item = _find(inventory, id_)
    scopes = engine.edited_scopes(item) if isinstance(item, Patch) else [item.scope]
    located = _source(layout, inventory, item, version)
    if located is None:
        return []
    source, reviewed_version = located
    reviews = []
    for scope in scopes:
        nodes = _nodes(source, item, scope)
        found = fingerprint(*nodes)
        known = is_reviewed(inventory.anchors, id_, scope, found)
        before = None if known else _last_review(inventory.anchors, id_, scope, reviewed_version)
        difference: list[str] = []
        if before is not None:
            old = _text_then(layout, inventory, item, before)
            if old is not None:
                difference = _diff(old, _text(nodes), before.version, reviewed_version)
        inner = nodes if isinstance(item, Relied) else [source.scope(scope)]
        lines = (getattr(n, "lineno", 0) for top in inner for n in ast.walk(top))
        line = next(filter(None, lines), 1)
        reviews.append(
            ScopeReview(
                id=id_,
                scope=scope,
                version=reviewed_version,
                fingerprint=found,
                is_reviewed=known,
                place=f"{_place(layout, source, version)}:{line}",
                before=before,
                difference=tuple(difference),
            )
        )
    return reviews


def _find(inventory: Inventory, id_: str) -> Item:
    items: list[Item] = [*inventory.patches, *inventory.overrides, *inventory.relied]
    for item in items:
        if item.id == id_:
            return item
    raise UnknownId(f"{id_!r} is no patch, override or private name that is declared in patches/")


def _source(
    layout: Layout, inventory: Inventory, item: Item, version: Version
) -> tuple[Source, str] | None:
    """The file of an item and the version of it; None where upstream has no such module."""
    upstream = Upstream.of(layout, version)
    if isinstance(item, Relied):
        found = relied_source(inventory, upstream, item)
        return None if found is None else (found[0], found[1] or str(version))
    source = upstream.source(inventory.targets.get(item.target))
    return None if source is None else (source, str(version))


def _place(layout: Layout, source: Source, version: Version) -> str:
    if Path(source.name).is_absolute():
        return source.name  # installed
    return f"{layout.pristine.relative_to(layout.root)}/{version}/{source.name}"


def _nodes(source: Source, item: Item, scope: str) -> list[ast.AST]:
    if isinstance(item, Relied):
        return relied_nodes(source, scope)
    if isinstance(item, Override):
        check_override(source, item)
        return [source.scope(scope)]
    return engine.reviewed_nodes(source, item, scope)


def _last_review(anchors: Sequence[Anchor], id_: str, scope: str, version: str) -> Anchor | None:
    """The review to compare with: of the nearest older version, else of the nearest newer one."""
    here = _order(version)
    mine = [(_order(a.version), a) for a in anchors if (a.id, a.scope) == (id_, scope)]
    older = [pair for pair in mine if pair[0] <= here]
    newer = [pair for pair in mine if pair[0] > here]
    if older:
        return max(older)[1]
    return min(newer)[1] if newer else None


def _order(version: str) -> tuple[int, ...]:
    """What is only installed may have any form of version: its numbers, in order."""
    try:
        parsed = Version.parse(version)
    except UnsupportedVersion:
        return tuple(map(int, re.findall(r"\d+", version)))
    return (parsed.major, parsed.minor, parsed.patch, *parsed.stage)


def _text_then(
    layout: Layout, inventory: Inventory, item: Item, before: Anchor
) -> list[str] | None:
    """The scope as it was reviewed; None where it cannot be found any more."""
    if isinstance(item, Relied) and not is_upstreams(item):
        return None  # only one version is installed
    try:
        located = _source(layout, inventory, item, Version.parse(before.version))
        if located is None:
            return None
        source, _ = located
        # Not `_nodes`: the parameters of an override may be what has changed since.
        nodes: list[ast.AST] = (
            [source.scope(before.scope)]
            if isinstance(item, Override)
            else _nodes(source, item, before.scope)
        )
        return _text(nodes) if fingerprint(*nodes) == before.fingerprint else None
    except VendoringError:
        return None


def _text(nodes: Sequence[ast.AST]) -> list[str]:
    return [line for node in nodes for line in ast.unparse(_bare(node)).splitlines()]


def _bare(node: ast.AST) -> ast.AST:
    """A copy without docstrings."""
    result = copy.deepcopy(node)
    for inner in ast.walk(result):
        if isinstance(inner, DEFINITIONS) and docstring_of(inner) is not None:
            inner.body = inner.body[1:] or [ast.Pass()]
    return result


def _diff(old: list[str], new: list[str], old_name: str, new_name: str) -> list[str]:
    return list(difflib.unified_diff(old, new, old_name, new_name, lineterm="", n=3))
