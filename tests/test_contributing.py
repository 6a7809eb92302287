"""CONTRIBUTING.md: every command in it is known here, and either run or at least understood."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vendoring.layout import Layout
from vendoring.locks import locked_version

ROOT = Layout.here().root
DOCUMENT = ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")

# Run in a scratch clone, in the order in which they stand there; a command not named here must be
# one of NOT_RUN.
RUN = (
    "git",
    "sed",
    ".venv/bin/python scripts/vendoring",
    ".venv/bin/python scripts/vendoring fetch",
    ".venv/bin/python scripts/vendoring guard",
    "scripts/verify.sh --show",
    "scripts/verify.sh --ack",
)
# Too slow to run here: the checks of everything, moves and releases. Their arguments are parsed.
NOT_RUN = {
    "scripts/test.sh": None,
    "scripts/docs.sh": None,
    "scripts/bench.sh healthy": None,
    "scripts/bench.sh mutants": None,
    "scripts/bench.sh survival": None,
    "scripts/verify.sh": "vendoring.cli",
    "scripts/verify.sh --locked": "vendoring.cli",
    "scripts/verify.sh --static": "vendoring.cli",
    "scripts/revendor.sh --newest": "revendoring.cli",
    "scripts/revendor.sh --newest --check": "revendoring.cli",
    "scripts/release.sh": "releasing.cli",
    "scripts/release.sh --rehearsal": "releasing.cli",
}


def commands() -> list[str]:
    """Every command line of the document, without its comment."""
    lines = [line for block in _BLOCK.findall(DOCUMENT.read_text()) for line in block.splitlines()]
    return [
        shlex.join(shlex.split(line, comments=True)) if "&&" not in line else line for line in lines
    ]


def is_run(command: str) -> bool:
    """Whether it is one of RUN: the longest name that the command begins with decides."""
    names = [n for n in (*RUN, *NOT_RUN) if command == n or command.startswith(f"{n} ")]
    assert names, f"CONTRIBUTING.md has a command that no test knows: {command}"
    return max(names, key=len) in RUN


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with a .venv that is up to date: it stands for the one of this test run."""
    root = tmp_path_factory.mktemp("contributing") / "clone"
    git("clone", "--quiet", str(ROOT), str(root), at=ROOT)
    pristine = Layout.here().pristine
    shutil.copytree(pristine, root / "vendor" / "upstream", ignore=shutil.ignore_patterns(".lock"))
    python = root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    names = (
        "pyproject.toml",
        *(f"livekit-plugins-resilient/{n}" for n in ("pyproject.toml", "hatch_build.py")),
    )
    text = b"".join((root / name).read_bytes() for name in names)
    stamp = subprocess.run(["cksum"], input=text, capture_output=True, check=True).stdout
    (root / ".venv" / ".stamp").write_bytes(stamp.rstrip(b"\n"))
    return root


def git(*arguments: str, at: Path) -> None:
    subprocess.run(["git", *arguments], cwd=at, check=True)


def test_the_cheap_commands_work_in_their_order(clone: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = []
    for command in filter(is_run, commands()):
        run = subprocess.run(
            ["bash", "-c", command],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        # What it finds wrong with this checkout is for the test of that to tell.
        fine = (0, 1) if command.endswith(" guard") else (0,)
        assert run.returncode in fine, f"{command}\n{run.stdout}{run.stderr}"
        done.append(command)
    # The last ones drop a patch: its reviews must be gone too.
    assert "google/model-options" not in (clone / "patches" / "anchors.lock").read_text()
    assert {name for name in RUN if any(c.startswith(name) for c in done)} == set(RUN)


@pytest.mark.parametrize("command", [c for c in commands() if not is_run(c)])
def test_the_dear_commands_are_understood(command: str) -> None:
    script, *arguments = shlex.split(command)
    assert os.access(ROOT / script, os.X_OK)
    name = NOT_RUN[max((n for n in NOT_RUN if command.startswith(n)), key=len)]
    if name is not None:
        parser: Callable[[], argparse.ArgumentParser] = importlib.import_module(name)._parser
        parser().parse_args([*(["verify"] if name == "vendoring.cli" else []), *arguments])
    for argument in arguments:
        assert "/" not in argument or (ROOT / argument).exists(), argument


def test_it_speaks_of_the_locked_release() -> None:
    assert f"fetch {locked_version(Layout.here())} " in DOCUMENT.read_text()


@pytest.mark.parametrize("document", [DOCUMENT, ROOT / ".ci" / "README.md"])
def test_links_lead_somewhere(document: Path) -> None:
    links = _LINK.findall(document.read_text())
    assert links
    for path, anchor in links:
        target = document.parent / path if path else document
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, anchor


def test_the_workflow_runs_the_script_that_is_there() -> None:
    workflow = (ROOT / ".ci" / "upstream.github.yml").read_text()
    assert "          .ci/upstream " in workflow
    script = ROOT / ".ci" / "upstream"
    assert os.access(script, os.X_OK)
    assert "scripts/revendor.sh --newest --check" in script.read_text()
