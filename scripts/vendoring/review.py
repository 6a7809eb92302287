"""What a reviewer of drift has to see: how a scope differs from the one that was reviewed last.

The difference is one of structure, as the fingerprint sees it: layout, comments and docstrings are
left out. It shows upstream's text, so it goes to the terminal and never into git.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from . import engine
from .anchors import Anchor, is_reviewed
from .check import Inventory, Upstream
from .errors import UnknownId, VendoringError
from .layout import Layout
from .overrides import Override, check_override
from .patchfile import Patch
from .source import DEFINITIONS, Source, docstring_of, fingerprint
from .versions import Version


@dataclass(frozen=True)
class ScopeReview:
    """One scope of a patch or override on the version under review.

    `before` is the last review on an older (else on any) version; None when there was none.
    `difference` are the lines of a unified diff against it.
    """

    id: str
    scope: str
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
    """Every scope of a patch or override on one version.

    Raises UnknownId, a leaf of PatchProblem when a scope is not there any more, or another
    VendoringError when upstream cannot be had.
    """
    item = _find(inventory, id_)
    scopes = [item.scope] if isinstance(item, Override) else engine.edited_scopes(item)
    target = inventory.targets.get(item.target)
    upstream = Upstream.of(layout, version)
    source = upstream.source(target)
    if source is None:
        return []
    reviews = []
    for scope in scopes:
        nodes = _nodes(source, item, scope)
        found = fingerprint(*nodes)
        known = is_reviewed(inventory.anchors, id_, scope, found)
        before = None if known else _last_review(inventory.anchors, id_, scope, version)
        difference: list[str] = []
        if before is not None:
            old = _text_then(layout, inventory, item, before)
            if old is not None:
                difference = _diff(old, _text(nodes), before.version, str(version))
        line = getattr(source.scope(scope), "lineno", 1)
        reviews.append(
            ScopeReview(
                id=id_,
                scope=scope,
                fingerprint=found,
                is_reviewed=known,
                place=f"{layout.pristine.relative_to(layout.root)}/{version}/{source.name}:{line}",
                before=before,
                difference=tuple(difference),
            )
        )
    return reviews


def _find(inventory: Inventory, id_: str) -> Patch | Override:
    items: list[Patch | Override] = [*inventory.patches, *inventory.overrides]
    for item in items:
        if item.id == id_:
            return item
    raise UnknownId(f"{id_!r} is neither a patch nor an override (patches/ has them all)")


def _nodes(source: Source, item: Patch | Override, scope: str) -> list[ast.AST]:
    if isinstance(item, Override):
        check_override(source, item)
        return [source.scope(scope)]
    return engine.reviewed_nodes(source, item, scope)


def _last_review(
    anchors: Sequence[Anchor], id_: str, scope: str, version: Version
) -> Anchor | None:
    """The review to compare with: of the nearest older version, else of the nearest newer one."""
    mine = [(Version.parse(a.version), a) for a in anchors if (a.id, a.scope) == (id_, scope)]
    older = [pair for pair in mine if pair[0] <= version]
    newer = [pair for pair in mine if pair[0] > version]
    if older:
        return max(older)[1]
    return min(newer)[1] if newer else None


def _text_then(
    layout: Layout, inventory: Inventory, item: Patch | Override, before: Anchor
) -> list[str] | None:
    """The scope as it was reviewed; None where it cannot be found any more."""
    try:
        upstream = Upstream.of(layout, Version.parse(before.version))
        source = upstream.source(inventory.targets.get(item.target))
        if source is None:
            return None
        # Not `_nodes`: the parameters of an override may be what has changed since.
        nodes: list[ast.AST] = (
            [source.scope(before.scope)]
            if isinstance(item, Override)
            else engine.reviewed_nodes(source, item, before.scope)
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
