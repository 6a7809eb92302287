"""Import rewriting by one rule.

Every import is resolved to its absolute upstream name. If that module is vendored, it becomes the
vendored name; otherwise it stays upstream's absolute name. Only the module token is replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from .errors import Refused
from .source import Source, Splice, render


def rewrite_imports(data: bytes, module: str, vendored: Mapping[str, str]) -> bytes:
    """Rewrite one file whose upstream name is `module`.

    `vendored` maps upstream module names to ours. Raises Refused for a form the rule cannot
    express: `import a.b` of a vendored module, or one statement that takes both vendored and
    other submodules from a package.
    """
    source = Source(data, module)
    splices = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in vendored:
                    raise Refused(f"`import {alias.name}` cannot be rewritten", anchor=module)
        elif isinstance(node, ast.ImportFrom):
            splice = _rewrite_from(source, node, module, vendored)
            if splice is not None:
                splices.append(splice)
    return render(data, splices)


def _rewrite_from(
    source: Source, node: ast.ImportFrom, module: str, vendored: Mapping[str, str]
) -> Splice | None:
    package = module.split(".")[: -node.level] if node.level else []
    name = ".".join(package + ([node.module] if node.module else []))
    submodules = [a.name for a in node.names if f"{name}.{a.name}" in vendored]
    if name in vendored:
        new = vendored[name]
    elif submodules:
        ours = {vendored[f"{name}.{s}"].rpartition(".") for s in submodules}
        kept = all(vendored[f"{name}.{s}"].endswith(f".{s}") for s in submodules)
        packages = {package for package, _, _ in ours}
        if len(submodules) != len(node.names) or len(packages) != 1 or not kept:
            raise Refused(f"line {node.lineno}: mixed import from {name}", anchor=module)
        new = packages.pop()
    else:
        new = name
    if not node.level and new == node.module:
        return None
    old = b"." * node.level + (node.module or "").encode()
    start, end = source.span(node)
    words = source.data[start:end].split(maxsplit=2)
    if words[0] != b"from" or words[1] != old:
        raise Refused(f"line {node.lineno}: unusual spacing in an import", anchor=module)
    place = source.data.index(old, start + len(b"from"))
    return Splice(place, place + len(old), new.encode())
