"""Running probes against a chosen vendored tree: bare upstream, or patched.

A probe run is one pytest process. What it imports is a copy of our package with the chosen tree
inside, put before everything else on the path; the checkout's own tree is not touched.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from . import tree
from .errors import ProbesNotRunnable
from .layout import Layout
from .patchfile import Patch
from .versions import Version

# "invalid": missing, not importable, or not set up; it says nothing about the source.
Outcome = Literal["passed", "failed", "invalid"]

# A probe has its own time limits; this one only keeps a broken one from blocking everything.
RUN_TIMEOUT_S = 900.0
_NEEDED = ("pytest", "pytest_asyncio", "livekit.agents")
_SHOW_ORIGIN = "import importlib.util as u; print(u.find_spec('livekit.plugins.resilient').origin)"


def build_overlay(layout: Layout, version: Version, patches: Sequence[Patch], into: Path) -> Path:
    """A folder for the front of the path: our package with a tree of these patches (none: bare)."""
    shutil.rmtree(into, ignore_errors=True)
    ignore = shutil.ignore_patterns("_vendor", "_vendor.*", "__pycache__")
    shutil.copytree(layout.project / "livekit", into / "livekit", ignore=ignore)
    inside = layout.tree.relative_to(layout.project)
    tree.generate(layout, version, patches, into / inside)
    return into


def run_probes(layout: Layout, overlay: Path, probes: Sequence[str]) -> dict[str, Outcome]:
    """Run all probes (paths from the root) in one process on one overlay.

    Raises ProbesNotRunnable when pytest or upstream is not installed, when the overlay is not what
    gets imported, or when pytest ends without a report.
    """
    _check_environment()
    present = [p for p in probes if (layout.root / p).is_file()]
    outcomes: dict[str, Outcome] = dict.fromkeys(probes, "invalid")
    if not present:
        return outcomes
    path = os.pathsep.join(filter(None, (str(overlay), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    _check_overlay(layout, overlay, environment)
    report = overlay / "probes.xml"
    # fmt: off
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "--continue-on-collection-errors",
        "-o", "junit_family=xunit1", f"--junitxml={report}", *present,
    ]
    # fmt: on
    report.unlink(missing_ok=True)
    log = overlay / "probes.log"
    try:
        with log.open("wb") as out:
            subprocess.run(
                command,
                cwd=layout.root,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=RUN_TIMEOUT_S,
                check=False,
            )
    except subprocess.TimeoutExpired as e:
        raise ProbesNotRunnable(f"the probes ran longer than {RUN_TIMEOUT_S:.0f} s") from e
    if not report.exists():
        raise ProbesNotRunnable(f"pytest ended without a report; its output is in {log}")
    return {**outcomes, **read_report(report.read_text("utf-8"), present)}


def read_report(xml: str, probes: Sequence[str]) -> dict[str, Outcome]:
    """The outcome of each probe file in a JUnit report.

    Failed when any test failed; invalid when something could not be imported or set up, or when
    no test ran; else passed.
    """
    kinds: dict[str, set[str]] = {p: set() for p in probes}
    by_module = {p.removesuffix(".py").replace("/", "."): p for p in probes}
    for case in ET.fromstring(xml).iter("testcase"):
        module = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        probe = case.get("file") or ""
        if probe not in kinds:
            # A file that cannot be imported is reported by its dotted name alone.
            names = (m for m in by_module if module == m or module.startswith(f"{m}."))
            probe = by_module.get(next(names, ""), "")
        if probe:
            found = {child.tag for child in case} & {"failure", "error", "skipped"}
            kinds[probe] |= found or {"passed"}
    return {probe: _outcome(found) for probe, found in kinds.items()}


def _outcome(kinds: set[str]) -> Outcome:
    if "failure" in kinds:
        return "failed"
    return "invalid" if "error" in kinds or "passed" not in kinds else "passed"


def _check_environment() -> None:
    for name in _NEEDED:
        try:
            found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise ProbesNotRunnable(
                f"{sys.executable} cannot import {name}, which the probes need: run "
                "scripts/verify.sh, which sets up .venv, or leave the probes out with --static"
            )


def _check_overlay(layout: Layout, overlay: Path, environment: dict[str, str]) -> None:
    """The subprocess must import our package from the overlay and from nowhere else."""
    run = subprocess.run(
        [sys.executable, "-c", _SHOW_ORIGIN],
        cwd=layout.cache,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0 or not Path(run.stdout.strip()).is_relative_to(overlay):
        raise ProbesNotRunnable("another copy of the package hides the one that is to be probed")
