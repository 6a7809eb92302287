"""What differs between two fetched upstream releases, as far as the vendored set is concerned."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from vendoring.locks import DISTRIBUTIONS
from vendoring.targets import Target, TargetMap
from vendoring.versions import Version


def lost_modules(old: Path, new: Path, targets: TargetMap, was: Version, now: Version) -> list[str]:
    """Targets whose module is not where targets.toml says, each with where it may have gone."""
    lost = []
    for target, origin in targets.present(now):
        if (new / origin.file).is_file():
            continue
        where = _candidates(old, new, target, was)
        hint = f"; look at {', '.join(where)}" if where else ""
        lost.append(
            f"vendor/targets.toml: upstream {now} has no {origin.module} for {target.name}{hint}"
        )
    return lost


def requirement_changes(old: Path, new: Path) -> list[str]:
    """What upstream's distributions require otherwise than before, one sentence each."""
    changes = []
    for dist in DISTRIBUTIONS:
        before, after = _requirements(old, dist), _requirements(new, dist)
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name), after.get(name)
            if was == now or name in DISTRIBUTIONS:
                continue
            if now is None:
                changes.append(f"{dist} no longer requires {was}")
            elif was is None:
                changes.append(f"{dist} now requires {now}")
            else:
                changes.append(f"{dist} now requires {now} (was {was})")
    return changes


def _requirements(folder: Path, dist: str) -> dict[str, str]:
    """Name to requirement, without those of extras."""
    found = {}
    for path in folder.glob(f"{dist.replace('-', '_')}-*.dist-info/METADATA"):
        for text in HeaderParser().parsestr(path.read_text("utf-8")).get_all("Requires-Dist", []):
            if "extra ==" not in text:
                name = text
                for stop in " <>=!~;[(":
                    name = name.split(stop)[0]
                found[name] = text
    return found


def _candidates(old: Path, new: Path, target: Target, was: Version) -> list[str]:
    """Modules of the new release that define every class which the old module defined."""
    origin = target.origin(was)
    wanted = _classes(old / origin.file) if origin else set()
    if not wanted:
        return []
    return [name for name, classes in _modules(new) if wanted <= classes]


def _modules(folder: Path) -> Iterator[tuple[str, set[str]]]:
    for path in sorted(folder.glob("livekit/**/*.py")):
        yield path.relative_to(folder).with_suffix("").as_posix().replace("/", "."), _classes(path)


def _classes(path: Path) -> set[str]:
    try:
        module = ast.parse(path.read_bytes())
    except (OSError, SyntaxError):
        return set()
    return {node.name for node in module.body if isinstance(node, ast.ClassDef)}
