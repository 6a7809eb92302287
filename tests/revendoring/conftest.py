"""A made-up repository under git, with two made-up upstream releases on a made-up index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from revendoring import trial
from tests.vendoring.conftest import Checkout as VendoringCheckout
from tests.vendoring.conftest import make_checkout
from vendoring.layout import Layout

README = """\
# Made up

Made up; built from livekit-agents 1.8.1.

<!-- versions: written by scripts/revendor.sh -->

| release | built from livekit-agents | runs with livekit-agents, -google, -openai, -xai | Python |
|---|---|---|---|
| 1.8.1.1 | 1.8.1 | 1.8.1 and later, before 1.9 | 3.10 to 3.13 |

<!-- /versions -->
"""
CHANGELOG = """\
# Changelog

## [Unreleased] - 1.8.1.1, built from livekit-agents 1.8.1

### Added

- All.
"""
PACKAGE = """\
[project]
name = "livekit-plugins-resilient"
version = "1.8.1.1"
requires-python = ">=3.10,<3.14"
dependencies = [
  "livekit-agents>=1.8.1,<1.9",
  "livekit-plugins-google>=1.8.1,<1.9",
  "livekit-plugins-openai>=1.8.1,<1.9",
]

[project.optional-dependencies]
xai = [
  "livekit-plugins-xai>=1.8.1,<1.9",
]
"""
WORKSPACE = """\
[dependency-groups]
dev = []

[tool.mypy]
files = ["ours.py"]
cache_dir = "CACHE"

[tool.pytest.ini_options]
testpaths = ["tests"]
"""
IGNORED = """\
__pycache__/
.mypy_cache/
.cache/
/vendor/upstream/
_vendor/
_vendor.*/
"""


@dataclass
class Repository:
    """A made-up checkout locked to 1.8.1; the index has 1.8.0, 1.8.1 and what a test adds."""

    made: VendoringCheckout

    @property
    def layout(self) -> Layout:
        return self.made.layout

    def git(self, *arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments], cwd=self.layout.root, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    def commit(self, message: str = "Change") -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def text(self, name: str) -> str:
        return (self.layout.root / name).read_text("utf-8")

    def state(self) -> tuple[str, str, str, str]:
        """What must be the same after a run that could not be done."""
        return (
            self.git("rev-parse", "HEAD"),
            self.git("branch", "--list"),
            self.git("status", "--porcelain"),
            self.git("worktree", "list"),
        )


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, because what takes time is to read the standard library's types."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def repository(tmp_path: Path, mypy_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The repository, committed; pip sees the made-up index only."""
    made = make_checkout(tmp_path, stocked=False)
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(made.index),
        "PIP_CONFIG_FILE": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }.items():
        monkeypatch.setenv(name, value)
    made.write("README.md", README)
    made.write("CHANGELOG.md", CHANGELOG)
    made.write("pyproject.toml", WORKSPACE.replace("CACHE", str(mypy_cache)))
    made.write("livekit-plugins-resilient/pyproject.toml", PACKAGE)
    package = "livekit-plugins-resilient/livekit/plugins/resilient"
    made.write(f"{package}/version.py", '__version__ = "1.8.1.1"\n')
    made.write("ours.py", "X: int = 1\n")
    made.write("tests/test_ours.py", "def test_ours() -> None:\n    assert True\n")
    made.write(".gitignore", IGNORED)
    scripts = Layout.here().scripts
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(scripts, made.layout.scripts, ignore=ignore)
    made.write("vendor/allowed-overlaps.toml", "")
    repository = Repository(made)
    repository.git("init", "--quiet", "--initial-branch=main")
    repository.git("config", "user.name", "Somebody")
    repository.git("config", "user.email", "somebody@example.org")
    repository.commit("Begin")
    return repository


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try things in the environment of this test run: to install one takes a minute."""

    def here(worktree: Layout, cache: Path, log: Callable[[str], None]) -> trial.Environment:
        return trial.Environment(Path(sys.executable))

    monkeypatch.setattr(trial, "make_environment", here)


@pytest.fixture
def patches_only(own_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither types nor tests are run, which takes seconds each."""
    monkeypatch.setattr(trial, "type_errors", lambda worktree, environment: [])
    ran = trial.Tests(1, ())
    monkeypatch.setattr(trial, "run_tests", lambda worktree, environment, paths: ran)
