"""Moves along real history, from 1.8.6 to 1.8.9, in a scratch clone of this checkout.

Not collected with the other tests: it installs four environments and takes about twenty minutes.

    scripts/test.sh tests/revendoring/on_demand_history.py -s

The clone is first put where a maintainer stood when 1.8.6 was the newest: locked to it, with only
that state reviewed. Then each release comes out. What has to be looked at is worked out here a
second time, by comparing the text of each scope that is edited, overridden or relied on, and must
be what the command says.

Our own code is written for the newest release, so what it does on an older one is not judged here:
the tests that run in each step are those of the parts that do not depend on upstream.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from revendoring import places
from vendoring import engine
from vendoring.anchors import read_anchors, write_anchors
from vendoring.check import Inventory, Upstream, is_upstreams, relied_source
from vendoring.layout import Layout
from vendoring.locks import locked_version, pins_for
from vendoring.relies import relied_nodes
from vendoring.source import Source
from vendoring.versions import Version

FIRST = Version(1, 8, 6)
STEPS = (Version(1, 8, 7), Version(1, 8, 8), Version(1, 8, 9))
TESTS = ("tests/core", "tests/vendoring/test_overrides_declared.py")
STEP_TIMEOUT_S = 1800.0


class Clone:
    """The scratch clone, worked on as a maintainer would: by the commands."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)

    def git(self, *arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments],
            cwd=self.layout.root,
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout.strip()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the clone's own scripts with the Python of this test run."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.layout.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_TIMEOUT_S,
        )

    def revendor(self, version: Version, *options: str) -> subprocess.CompletedProcess[str]:
        run = self.command("scripts/revendoring", str(version), *options)
        print(f"\n$ scripts/revendor.sh {version} {' '.join(options)}", run.stdout, sep="\n\n")
        assert run.returncode in (0, 1), run.stderr
        return run

    def acknowledge(self, ids: set[str]) -> None:
        if ids:
            run = self.command(
                "scripts/vendoring", "ack", *sorted(ids), "--note", "Read, nothing to do."
            )
            assert run.returncode == 0, run.stderr
            self.git("commit", "--all", "--quiet", "--message", "Record the review")

    def scopes(self, version: Version) -> dict[tuple[str, str], str]:
        """The text, without comments and layout, of every scope that upstream's release has."""
        inventory = Inventory.load(self.layout)
        found = {}
        edited = [
            (p.id, p.target, s) for p in inventory.patches for s in engine.edited_scopes(p)
        ] + [(o.id, o.target, o.scope) for o in inventory.overrides]
        for id_, target, scope in edited:
            origin = inventory.targets.get(target).origin(version)
            if origin is not None:
                path = self.layout.pristine / str(version) / origin.file
                node = Source(path.read_bytes(), origin.file).scope(scope)
                found[id_, scope] = ast.unparse(node)
        upstream = Upstream.of(self.layout, version)
        for relied in filter(is_upstreams, inventory.relied):
            located = relied_source(inventory, upstream, relied)
            if located is not None:
                nodes = relied_nodes(located[0], relied.name)
                found[relied.id, relied.scope] = "\n".join(map(ast.unparse, nodes))
        return found

    @property
    def installed(self) -> set[str]:
        """The private names of what is only installed: each environment has its own release."""
        relied = Inventory.load(self.layout).relied
        return {r.id for r in relied if not is_upstreams(r)}


_DRIFT = re.compile(r"^ *\d+\. (\S+) on \S+: DRIFT: ", re.MULTILINE)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    here = Layout.here().root
    root = tmp_path_factory.mktemp("history") / "clone"
    subprocess.run(["git", "clone", "--quiet", str(here), str(root)], check=True)
    made = Clone(root)
    made.git("config", "user.name", "A maintainer")
    made.git("config", "user.email", "maintainer@example.org")
    return made


def test_history_is_followed_step_by_step(clone: Clone) -> None:
    layout = clone.layout
    begin, original = clone.git("rev-parse", "HEAD"), places.disagreements(layout)
    assert original == []
    first_pins = {v: pins_for(layout, v) for v in (FIRST, *STEPS[:-1])}
    first_pins[STEPS[-1]] = pins_for(layout, locked_version(layout))
    clone.revendor(FIRST, "--no-tests")
    stand_at_the_beginning(clone)
    for old, new in zip((FIRST, *STEPS), STEPS, strict=False):
        run = clone.revendor(new, "--tests", *TESTS)
        assert clone.git("status", "--porcelain") == ""
        assert clone.git("branch", "--show-current") == f"revendor-{new}"
        assert len(clone.git("worktree", "list").splitlines()) == 1
        assert locked_version(layout) == new
        assert pins_for(layout, new) == first_pins[new]
        assert pins_for(layout, old) == first_pins[old]
        assert places.disagreements(layout) == []
        changelog = (layout.root / "CHANGELOG.md").read_text("utf-8")
        assert f"| {old} | {new} |" in changelog
        before, after = clone.scopes(old), clone.scopes(new)
        changed = {id_ for (id_, scope), text in after.items() if before.get((id_, scope)) != text}
        drifted = set(_DRIFT.findall(run.stdout))
        assert drifted - clone.installed == changed
        assert run.returncode == (1 if drifted or ", 0 failed" not in run.stdout else 0)
        clone.acknowledge(changed)
        static = clone.command("scripts/vendoring", "verify", "--locked", "--static")
        assert static.returncode == 0, static.stdout
    changed_files = set(clone.git("diff", "--name-only", begin).split())
    assert changed_files <= {"CHANGELOG.md", "patches/anchors.lock"}


def stand_at_the_beginning(clone: Clone) -> None:
    """As if everything had been written and reviewed on the first release of this history."""
    layout = clone.layout
    write_anchors(layout.anchors, [])
    ids = {id_ for id_, _ in clone.scopes(FIRST)}
    clone.acknowledge(ids | clone.installed)
    reviewed = {a.version for a in read_anchors(layout.anchors) if a.id not in clone.installed}
    assert reviewed == {str(FIRST)}
