"""Trying a worktree against exactly one upstream release: environment, patches, types, tests."""

from __future__ import annotations

import json
import os
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vendoring.errors import IndexUnreachable, VendoringError
from vendoring.fetch import index_was_unreachable
from vendoring.hashing import digest_of
from vendoring.layout import Layout
from vendoring.locks import locked_pins
from vendoring.toml import read_toml
from vendoring.versions import Version

from .errors import NoEnvironment
from .process import Ended, run

Log = Callable[[str], None]

INSTALL_TIMEOUT_S = 1200.0
VERIFY_TIMEOUT_S = 1800.0
TYPES_TIMEOUT_S = 900.0
TESTS_TIMEOUT_S = 3600.0
# Of what a failed test says, in characters: to know it again, not to understand it.
WORDS_AT_MOST = 120
_STAMP = "complete"


class DoesNotInstall(VendoringError):
    """What the package requires cannot be installed beside this upstream release."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with exactly the locked upstream release and the development tools."""

    python: Path

    def run(self, worktree: Layout, *arguments: str | Path, timeout_s: float) -> Ended:
        """Run this environment's Python in a worktree, on the worktree's own package."""
        path = os.pathsep.join(str(p) for p in (worktree.project, worktree.root / "scripts"))
        own = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONHOME")}
        return run(
            [self.python, *arguments],
            cwd=worktree.root,
            timeout_s=timeout_s,
            env={**own, "PYTHONPATH": path},
        )


def make_environment(worktree: Layout, cache: Path, log: Log) -> Environment:
    """The environment for a worktree's lock; taken from the cache when it is there.

    Raises DoesNotInstall when the requirements contradict each other, IndexUnreachable or
    NoEnvironment when it cannot be tried.
    """
    wanted = requirements(worktree)
    pins = [f"{p.dist}=={p.version}" for p in locked_pins(worktree)]
    cache.mkdir(parents=True, exist_ok=True)
    listed, constraints = cache / "requirements.txt", cache / "constraints.txt"
    listed.write_text("".join(f"{line}\n" for line in wanted), "utf-8")
    constraints.write_text("".join(f"{line}\n" for line in pins), "utf-8")
    digest = digest_of([("requirements", listed), ("constraints", constraints)])
    major, minor = sys.version_info[:2]
    folder = cache / f"env-{major}.{minor}-{digest[:12]}"
    python = folder / "bin" / "python"
    if (folder / _STAMP).exists():
        return Environment(python)
    # One is enough to keep: each is half a gigabyte.
    for other in cache.glob("env-*"):
        shutil.rmtree(other, ignore_errors=True)
    log(f"installing upstream {locked_pins(worktree)[0].version} and the tools")
    made = run([sys.executable, "-m", "venv", folder], cwd=cache, timeout_s=INSTALL_TIMEOUT_S)
    if made.code != 0:
        raise NoEnvironment(
            f"{sys.executable} cannot make a virtual environment (is python3-venv installed?)"
        )
    # fmt: off
    command: list[str | Path] = [
        python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
        "--requirement", listed, "--constraint", constraints,
    ]
    # fmt: on
    installed = run(command, cwd=cache, timeout_s=INSTALL_TIMEOUT_S)
    if installed.code != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise _install_failure(installed)
    (folder / _STAMP).touch()
    return Environment(python)


def requirements(worktree: Layout) -> list[str]:
    """What the package, its extras and the development tools require, without the package."""
    package = read_toml(worktree.project / "pyproject.toml")["project"]
    tools = read_toml(worktree.root / "pyproject.toml")["dependency-groups"]["dev"]
    optional = package.get("optional-dependencies", {})
    extras = [line for name in sorted(optional) for line in optional[name]]
    return sorted({"pip>=25.1", *package["dependencies"], *extras, *tools})


def _install_failure(ended: Ended) -> VendoringError:
    if ended.timed_out:
        return NoEnvironment(f"pip took longer than {INSTALL_TIMEOUT_S:.0f} s to install")
    if index_was_unreachable(ended.output):
        return IndexUnreachable("the package index could not be reached to install upstream")
    errors = [li for li in ended.output.splitlines() if li.startswith("ERROR:")]
    said = errors[0].removeprefix("ERROR:").strip() if errors else ended.last_line
    return DoesNotInstall(f"the package's requirements do not install: {said}")


# -- what is tried


def verify(worktree: Layout, environment: Environment, *, probes: bool) -> dict[str, Any]:
    """The report of scripts/verify.sh on the locked release as data.

    Raises VendoringError when it could not run.
    """
    return _verify(worktree, environment, ["--locked", *([] if probes else ["--static"])])


def verify_old(worktree: Layout, version: Version) -> dict[str, Any]:
    """The same on another release besides, without probes: it was verified when it was locked."""
    return _verify(worktree, Environment(Path(sys.executable)), [str(version), "--static"])


def _verify(worktree: Layout, environment: Environment, options: Sequence[str]) -> dict[str, Any]:
    out = worktree.cache / "report.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    ended = environment.run(
        worktree,
        *("-m", "vendoring", "verify", *options, f"--json={out}"),
        timeout_s=VERIFY_TIMEOUT_S,
    )
    if ended.code not in (0, 1) or not out.exists():
        raise VendoringError(f"the patches could not be verified: {ended.last_line}")
    report: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return report


def type_errors(worktree: Layout, environment: Environment) -> list[str]:
    """What mypy finds, one line each."""
    ended = environment.run(worktree, "-m", "mypy", timeout_s=TYPES_TIMEOUT_S)
    if ended.timed_out:
        return [f"mypy did not end within {TYPES_TIMEOUT_S:.0f} s"]
    errors = [line for line in ended.output.splitlines() if ": error: " in line]
    return errors or ([] if ended.code == 0 else [f"mypy could not run: {ended.last_line}"])


@dataclass(frozen=True)
class Tests:
    """What a run of the tests gave."""

    passed: int
    failed: tuple[str, ...]


def run_tests(worktree: Layout, environment: Environment, paths: Sequence[str]) -> Tests:
    """Run pytest on these paths (none: all)."""
    xml = worktree.cache / "tests.xml"
    xml.parent.mkdir(parents=True, exist_ok=True)
    ended = environment.run(
        worktree,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={xml}", *paths),
        timeout_s=TESTS_TIMEOUT_S,
    )
    if ended.timed_out:
        return Tests(0, (f"pytest did not end within {TESTS_TIMEOUT_S:.0f} s",))
    if not xml.exists():
        return Tests(0, (f"pytest ended without a report: {ended.last_line}",))
    return read_tests(xml.read_text("utf-8"))


def read_tests(xml: str) -> Tests:
    """The tests of a JUnit report; those that failed or were not set up with their first words."""
    passed, failed = 0, []
    for case in ET.fromstring(xml).iter("testcase"):
        wrong = [child for child in case if child.tag in ("failure", "error")]
        if wrong:
            name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
            words = (wrong[0].get("message") or "").strip().splitlines()
            failed.append(f"{name}: {words[0][:WORDS_AT_MOST]}" if words else name)
        elif case.find("skipped") is None:
            passed += 1
    return Tests(passed, tuple(sorted(set(failed))))
