"""Running probes against a chosen vendored tree: bare upstream, or patched.

A probe run is one pytest process, forked from one that has imported upstream and its libraries.
What it imports of ours is a copy of our package with the chosen tree inside, put before everything
else on the path; the checkout's own tree is not touched.
"""

from __future__ import annotations

import compileall
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import tree
from .engine import Apply, apply
from .environments import Environment
from .errors import ProbesNotRunnable
from .forks import Forks
from .layout import PACKAGE, Layout
from .locks import DISTRIBUTIONS
from .patchfile import Patch
from .targets import load_targets
from .versions import Version

# "invalid": missing, not importable, or not set up; it says nothing about the source.
Outcome = Literal["passed", "failed", "invalid"]

# A probe has its own time limits; this one only keeps a broken one from blocking everything.
RUN_TIMEOUT_S = 300.0
_REASON_CHARACTERS = 160

# What all probe runs import, whatever the tree. Nothing of ours, and no plugin of pytest.
_SHARED = (
    "pytest",
    "numpy",
    "livekit.agents",
    "google.genai",
    "openai.types.beta.realtime",
    "openai.types.realtime",
    "livekit.plugins.google",
    "livekit.plugins.openai",
    "livekit.plugins.xai",
)
_RUN_PYTEST = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"

# Run before the probes, in the same process: the tree is the one that is to be probed, the release
# is the one whose sources are first on the path, and all modules can be imported.
_LOOK = "look_at_the_tree.py"
_LOOK_TEXT = """
import importlib, importlib.metadata, importlib.util
import pytest

def test_origin():
    spec = importlib.util.find_spec({package!r})
    assert spec is not None and spec.origin.startswith({overlay!r})

def test_release():
    assert importlib.metadata.version({dist!r}) == {version!r}

@pytest.mark.parametrize("name", {modules!r})
def test_import(name):
    importlib.import_module(name)
"""

# A module that upstream does not have yet: our package can be imported, and no more.
_STAND_IN = '''"""Generated: upstream has no such module in this version."""


def __getattr__(name: str) -> type:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
'''


@dataclass(frozen=True)
class Probed:
    """What became of one probe, and the first thing it complained of."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True)
class TreeRun:
    """What one tree showed: an error for each module that cannot be imported, and the probes."""

    import_errors: dict[str, str]
    probes: dict[str, Probed]


class _NoReportError(Exception):
    """pytest did not come to its end: on this tree, nothing is known about the probes."""


def copy_package(layout: Layout, into: Path) -> Path:
    """Our package without a vendored tree, so that one verification judges one state of it."""
    ignore = shutil.ignore_patterns("_vendor", "_vendor.*", "__pycache__")
    shutil.copytree(layout.project / "livekit", into / "livekit", ignore=ignore)
    # Once here instead of in each process: copies keep the times that compiled files go by.
    compileall.compile_dir(into, quiet=2)
    return into


def build_overlay(
    layout: Layout,
    version: Version,
    patches: Sequence[Patch],
    into: Path,
    *,
    package: Path | None = None,
    apply: Apply = apply,
) -> Path:
    """A folder for the front of the path: our package with a tree of these patches (none: bare).

    `package` is what `copy_package` made, where it was. Targets that upstream does not have in this
    version are stand-ins.
    """
    shutil.rmtree(into, ignore_errors=True)
    if package is None:
        copy_package(layout, into)
    else:
        shutil.copytree(package, into)
    vendored = into / layout.tree.relative_to(layout.project)
    tree.generate(layout, version, patches, vendored, apply=apply)
    for target in load_targets(layout.targets).targets:
        if target.origin(version) is None:
            path = vendored / target.path
            path.parent.mkdir(exist_ok=True)
            path.write_text(_STAND_IN, "utf-8")
            (path.parent / "__init__.py").touch()
    return into


def forks_in(environment: Environment) -> Forks:
    """What `run_probes` makes its processes of."""
    return Forks(_SHARED, python=environment.python, path=environment.path)


def run_probes(
    layout: Layout,
    forks: Forks,
    version: Version,
    overlay: Path,
    probes: Sequence[str],
    *,
    strict: bool = True,
) -> TreeRun:
    """Run all probes (paths from the root) in one process on one overlay.

    Not `strict`, warnings are no errors: other releases have other deprecations. Raises
    ProbesNotRunnable when the overlay or the release is not what gets imported.
    """
    look = overlay / _LOOK
    look.write_text(_look_text(layout, version, overlay), "utf-8")
    probed = {p: Probed("invalid", "there is no such file") for p in probes}
    present = [p for p in probes if (layout.root / p).is_file()]
    command = [str(look), *present]
    try:
        report = _run_pytest(layout, forks, overlay, command, strict=strict)
    except _NoReportError as e:
        probed.update((p, Probed("invalid", str(e))) for p in present)
        return TreeRun({}, probed)
    errors = read_look(report, overlay, version)
    return TreeRun(errors, {**probed, **read_report(report, present)})


def _look_text(layout: Layout, version: Version, overlay: Path) -> str:
    modules = [PACKAGE, *(t.module for t in load_targets(layout.targets).targets)]
    return _LOOK_TEXT.format(
        package=PACKAGE,
        overlay=str(overlay),
        dist=DISTRIBUTIONS[0],
        version=str(version),
        modules=modules,
    )


def read_look(xml: str, overlay: Path, version: Version) -> dict[str, str]:
    """The import errors of a report, by module. Raises ProbesNotRunnable for another tree."""
    errors: dict[str, str] = {}
    for case in ET.fromstring(xml).iter("testcase"):
        failure = case.find("failure")
        name, _, module = case.get("name", "").rstrip("]").partition("[")
        if failure is None or _LOOK.removesuffix(".py") not in case.get("classname", ""):
            continue
        if name == "test_origin":
            raise ProbesNotRunnable(
                "another copy of the package hides the one that is to be probed"
            )
        if name == "test_release":
            raise ProbesNotRunnable(f"another upstream release hides {version}")
        errors[module] = _reason(failure)
    return errors


def _run_pytest(
    layout: Layout,
    forks: Forks,
    overlay: Path,
    files: Sequence[str],
    *,
    strict: bool,
) -> str:
    """The JUnit report of one pytest process."""
    report = overlay / "probes.xml"
    report.unlink(missing_ok=True)
    # fmt: off
    arguments = [
        "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
        "--continue-on-collection-errors",
        *([] if strict else ["-W", "default"]),
        # pytest would rather have imported its plugins' libraries itself.
        "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning",
        "-o", "junit_family=xunit1", f"--junitxml={report}", *files,
    ]
    # fmt: on
    try:
        done = forks.run(
            _RUN_PYTEST, arguments, cwd=layout.root, path=[overlay], timeout_s=RUN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as e:
        raise _NoReportError(f"the probes ran longer than {RUN_TIMEOUT_S:.0f} s") from e
    said = done.stdout + done.stderr
    (overlay / "probes.log").write_text(said, "utf-8")
    if not report.exists():
        lines = said.strip().splitlines()
        last = lines[-1][:_REASON_CHARACTERS] if lines else "nothing"
        raise _NoReportError(f"pytest ended without a report; it said last: {last}")
    return report.read_text("utf-8")


def read_report(xml: str, probes: Sequence[str]) -> dict[str, Probed]:
    """What became of each probe file, by a JUnit report.

    Failed when any test failed; invalid when something could not be imported or set up, or when
    no test ran; else passed.
    """
    kinds: dict[str, set[str]] = {p: set() for p in probes}
    reasons: dict[str, str] = {}
    by_module = {p.removesuffix(".py").replace("/", "."): p for p in probes}
    for case in ET.fromstring(xml).iter("testcase"):
        module = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        probe = case.get("file") or ""
        if probe not in kinds:
            # A file that cannot be imported is reported by its dotted name alone.
            names = (m for m in by_module if module == m or module.startswith(f"{m}."))
            probe = by_module.get(next(names, ""), "")
        if probe:
            found = [child for child in case if child.tag in ("failure", "error", "skipped")]
            kinds[probe] |= {child.tag for child in found} or {"passed"}
            for child in found:
                reasons.setdefault(probe, _reason(child))
    return {p: Probed(_outcome(found), reasons.get(p, "")) for p, found in kinds.items()}


def _reason(element: ET.Element) -> str:
    """The error in one line: of an import that failed, the last line has it."""
    message = (element.get("message") or "").strip()
    text = (element.text or "").strip()
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    said = message.splitlines()[0] if message else ""
    if lines and said.startswith(("collection failure", "failed on setup")):
        said = lines[-1]
    return said[:_REASON_CHARACTERS]


def _outcome(kinds: set[str]) -> Outcome:
    if "failure" in kinds:
        return "failed"
    return "invalid" if "error" in kinds or "passed" not in kinds else "passed"
