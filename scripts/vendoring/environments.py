"""Where the probes of an upstream release run: an environment that fits it, and an overlay.

Releases differ in what they need (1.8.7 moved to another HTTP client, and to the next major version
of the openai package). An environment is shared by all releases whose needs it meets; the sources
of the release itself go before it on the path, as do packages of which a release needs exactly one
version. Environments are kept in the cache, so that only the first run has to make them.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import IndexUnreachable, ProbesNotRunnable
from .fetch import index_was_unreachable, locked_directory, pristine
from .hashing import sha256
from .layout import Layout
from .locks import DISTRIBUTIONS
from .toml import read_toml
from .versions import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

STAMP = "STAMP.json"
_LIST_INSTALLED = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
)


@dataclass(frozen=True)
class Environment:
    """An interpreter, and what goes before its own packages on the path."""

    python: Path
    path: tuple[Path, ...]


@dataclass(frozen=True)
class Needs:
    """What a release needs besides itself: ranges, and exact versions."""

    ranges: tuple[Requirement, ...]
    exact: tuple[Requirement, ...]

    def unmet(self, installed: Mapping[str, str]) -> list[str]:
        """The ranges that an environment does not meet, as text."""
        return [str(r) for r in self.ranges if not _meets(r, installed)]


def needs_of(layout: Layout, version: Version) -> Needs:
    """What the metadata of a release's wheels asks for, on the running Python."""
    folder = pristine(layout, version)
    asked: list[tuple[str, Requirement]] = []
    for dist in DISTRIBUTIONS:
        stem = f"{dist.replace('-', '_')}-{version}"
        metadata = email.message_from_bytes((folder / f"{stem}.dist-info/METADATA").read_bytes())
        asked += [(dist, r) for r in map(_requirement, metadata.get_all("Requires-Dist", []))]
    extras: dict[str, set[str]] = {dist: {""} for dist in DISTRIBUTIONS}
    for _, requirement in asked:
        extras.get(requirement.name, set()).update(requirement.extras)
    wanted = [
        r
        for dist, r in asked
        if r.name not in DISTRIBUTIONS
        and (r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras[dist]))
    ]
    exact = [r for r in wanted if any(s.operator == "==" for s in r.specifier)]
    return Needs(tuple(r for r in wanted if r not in exact), tuple(exact))


def environment_for(
    layout: Layout, version: Version, log: Callable[[str], None] = lambda _: None
) -> Environment:
    """The running environment where it fits, else one from the cache, made when there is none.

    Raises ProbesNotRunnable when none can be made, or IndexUnreachable.
    """
    needs = needs_of(layout, version)
    tools = _tools(layout)
    wanted = Needs((*needs.ranges, *map(_requirement, tools)), needs.exact)
    here = Path(sys.executable)
    home = layout.cache / "verify" / "environments" / sys.implementation.cache_tag
    with locked_directory(home):
        python, installed = here, _installed(here)
        if wanted.unmet(installed):
            found = _cached(home, wanted)
            if found is None:
                log(f"making an environment that fits upstream {version} (once, about a minute)")
            python, installed = found or _make(home, wanted)
        path = [
            _exact(home, python, requirement)
            for requirement in needs.exact
            if not _meets(requirement, installed)
        ]
        release = [] if _has_release(installed, version) else [_release(layout, home, version)]
    return Environment(python, (*release, *path))


def _has_release(installed: Mapping[str, str], version: Version) -> bool:
    return all(installed.get(dist) == str(version) for dist in DISTRIBUTIONS)


def _release(layout: Layout, home: Path, version: Version) -> Path:
    """The sources of a release to run from: a copy, as Python puts its compiled files beside them.

    They lack what is no text, such as sounds to play, which no probe needs.
    """
    source, folder = pristine(layout, version), home / "releases" / str(version)
    stamp = (source / STAMP).read_bytes()
    if not (folder / STAMP).exists() or (folder / STAMP).read_bytes() != stamp:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns(STAMP))
        (folder / STAMP).write_bytes(stamp)
    return folder


def _tools(layout: Layout) -> list[str]:
    """What the probes need: what our package asks for to be tested with."""
    project = read_toml(layout.project / "pyproject.toml").get("project", {})
    return list(project.get("optional-dependencies", {}).get("testing", []))


def _requirement(text: str) -> Requirement:
    # Imported here: pytest brings it, and nothing but probes needs it.
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError as e:
        raise ProbesNotRunnable(
            f"{sys.executable} cannot import packaging, which the probes need: run "
            "scripts/verify.sh, which sets up .venv, or leave the probes out with --static"
        ) from e
    return Requirement(text)


def _meets(requirement: Requirement, installed: Mapping[str, str]) -> bool:
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True
    names = {_normal(name): version for name, version in installed.items()}
    found = names.get(_normal(requirement.name))
    return found is not None and requirement.specifier.contains(found, prereleases=True)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _installed(python: Path) -> dict[str, str]:
    run = subprocess.run(
        [str(python), "-I", "-c", _LIST_INSTALLED], capture_output=True, text=True, check=False
    )
    return dict(json.loads(run.stdout)) if run.returncode == 0 else {}


def _python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _cached(home: Path, wanted: Needs) -> tuple[Path, dict[str, str]] | None:
    for stamp in sorted(home.glob(f"*/{STAMP}")):
        installed = json.loads(stamp.read_text("utf-8"))
        python = _python_of(stamp.parent)
        # Whether it still runs: the interpreter that it was made from may be gone.
        if not wanted.unmet(installed) and _installed(python) == installed:
            return python, installed
    return None


def _make(home: Path, wanted: Needs) -> tuple[Path, dict[str, str]]:
    lines = sorted({_line(r) for r in (*wanted.ranges, *wanted.exact)})
    folder = home / sha256("\n".join(lines).encode())[:12]
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], "an environment for the probes", folder)
    python = _python_of(folder)
    _pip_install(python, lines, folder)
    installed = _installed(python)
    if unmet := wanted.unmet(installed):
        raise ProbesNotRunnable(f"pip did not install what the probes need: {', '.join(unmet)}")
    (folder / STAMP).write_text(json.dumps(installed, indent=1, sort_keys=True), "utf-8")
    return python, installed


def _exact(home: Path, python: Path, requirement: Requirement) -> Path:
    """A folder with one package in exactly the version that a release asks for."""
    line = _line(requirement)
    folder = home / "exact" / sha256(line.encode())[:12]
    if not (folder / STAMP).exists():
        shutil.rmtree(folder, ignore_errors=True)
        _pip_install(python, [line], folder, "--no-deps", "--target", str(folder))
        (folder / STAMP).write_text(json.dumps(line), "utf-8")
    return folder


def _line(requirement: Requirement) -> str:
    """The requirement without its marker, which was judged already."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def _pip_install(python: Path, lines: Iterable[str], folder: Path, *options: str) -> None:
    # fmt: off
    command = [
        str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-input",
        "--disable-pip-version-check", *options, *lines,
    ]
    # fmt: on
    _run(command, "what upstream needs", folder)


def _run(command: Sequence[str], what: str, folder: Path) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if index_was_unreachable(run.stderr):
        raise IndexUnreachable(f"the package index could not be reached to install {what}")
    said = (run.stderr or run.stdout).strip().splitlines()
    raise ProbesNotRunnable(f"{what} could not be installed; it said: {said[-1] if said else ''}")
