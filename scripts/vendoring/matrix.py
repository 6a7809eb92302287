"""Which trees are probed on which release, and running them, a few at a time.

- bare: no patches;
- patched: every patch that applies;
- without: on the locked release, the series minus one patch, to find those that do nothing. Only
  for patches that are as they should be otherwise.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from . import engine
from .check import DRIFT, OK, Finding, Inventory
from .environments import Environment, environment_for
from .forks import Forks
from .layout import Layout
from .patchfile import Patch
from .probes import TreeRun, build_overlay, copy_package, forks_in, run_probes
from .versions import Version

Log: TypeAlias = Callable[[str], None]
Kind: TypeAlias = Literal["bare", "patched", "without"]

# The probes mostly wait for one process each; more at a time only slow each other down.
WORKERS = max(1, min(2, os.cpu_count() or 1))


@dataclass(frozen=True)
class Tree:
    """One tree to probe: a release, a choice of patches, and the probes to run on it.

    `about` is the id of the patch that a "without" tree is made for. `then` are the probes that
    run as well if all of `probes` pass.
    """

    version: Version
    kind: Kind
    patches: tuple[Patch, ...]
    probes: tuple[str, ...]
    about: str = ""
    then: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"upstream {self.version}, {self.kind} {self.about}".rstrip()

    @property
    def key(self) -> tuple[Version, Kind, str]:
        return (self.version, self.kind, self.about)


Runs: TypeAlias = dict[tuple[Version, Kind, str], TreeRun]


def trees_for(inventory: Inventory, version: Version, findings: Sequence[Finding]) -> list[Tree]:
    """The trees of one release. `findings` are the static ones: what did not fit is left out."""
    fits = {f.id for f in findings if f.applied and f.status in (OK, DRIFT)}
    there = [
        p
        for p in inventory.patches
        if inventory.targets.get(p.target).origin(version) is not None
        and (p.id in fits or version not in p.applies_to)
    ]
    series = tuple(p for p in there if p.id in fits)
    probes = tuple(p.probe for p in there)
    if not there:
        return []
    return [Tree(version, "bare", (), probes), Tree(version, "patched", series, probes)]


def trees_without(
    inventory: Inventory, version: Version, findings: Sequence[Finding]
) -> list[Tree]:
    """The series minus one, for each patch that the other probes found nothing wrong with."""
    fits = {
        f.id for f in findings if f.applied and f.version == version and f.status in (OK, DRIFT)
    }
    series = tuple(p for p in inventory.patches if p.id in fits)
    trees = []
    for patch in series:
        if any(patch.id in p.requires for p in series):
            continue  # another one says that it needs this one
        rest = tuple(p for p in series if p.id != patch.id)
        others = tuple(p.probe for p in rest)
        trees.append(Tree(version, "without", rest, (patch.probe,), patch.id, others))
    return trees


def run_all(layout: Layout, trees: Sequence[Tree], locked: Version, log: Log) -> Runs:
    """Probe all trees. What pytest printed is kept below `.cache/verify/logs`.

    Raises ProbesNotRunnable or IndexUnreachable when a release has no environment to run in.
    """
    environments: dict[Version, Environment] = {}
    for version in dict.fromkeys(tree.version for tree in trees):
        environments[version] = environment_for(layout, version, log)
    home = layout.cache / "verify"
    runs_folder = home / "runs"
    runs_folder.mkdir(parents=True, exist_ok=True)
    (home / "logs").mkdir(exist_ok=True)
    runs: Runs = {}
    folder = Path(tempfile.mkdtemp(dir=runs_folder))
    bench = _Bench(layout, copy_package(layout, folder / "package"), folder, home / "logs", locked)
    log(f"probing {len(trees)} trees, {WORKERS} at a time")
    pool = ThreadPoolExecutor(WORKERS)
    try:
        waiting = {
            pool.submit(bench.run, number, tree, environments[tree.version]): tree
            for number, tree in enumerate(trees)
        }
        for done, future in enumerate(as_completed(waiting), 1):
            tree = waiting[future]
            run, took_s = future.result()
            runs[tree.key] = run
            log(f"[{done}/{len(trees)}] {tree}: {took_s:.0f} s")
    finally:
        pool.shutdown(cancel_futures=True)
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)
    return runs


@dataclass
class _Bench:
    layout: Layout
    package: Path
    folder: Path
    logs: Path
    locked: Version
    _applied: dict[tuple[bytes, str, str], bytes] = field(default_factory=dict)
    _idle: list[tuple[Environment, Forks]] = field(default_factory=list)
    # Python 3.11 fails at times where two threads parse.
    _building: threading.Lock = field(default_factory=threading.Lock)

    def run(self, number: int, tree: Tree, environment: Environment) -> tuple[TreeRun, float]:
        began_at = time.monotonic()
        overlay = self.folder / str(number)
        with self._building:
            build_overlay(
                self.layout,
                tree.version,
                tree.patches,
                overlay,
                package=self.package,
                apply=self._apply,
            )

        def probe(names: Sequence[str]) -> TreeRun:
            return run_probes(
                self.layout,
                forks,
                tree.version,
                overlay,
                names,
                strict=tree.version == self.locked,
            )

        forks = self._forks_in(environment)
        try:
            run = probe(tree.probes)
            if tree.then and all(p.outcome == "passed" for p in run.probes.values()):
                run = replace(run, probes={**run.probes, **probe(tree.then).probes})
        finally:
            self._idle.append((environment, forks))
        log = overlay / "probes.log"
        if log.exists():
            name = "-".join(filter(None, (str(tree.version), tree.kind, tree.about)))
            shutil.copyfile(log, self.logs / f"{name.replace('/', '-')}.log")
        shutil.rmtree(overlay, ignore_errors=True)
        return run, time.monotonic() - began_at

    def _forks_in(self, environment: Environment) -> Forks:
        """Those that no other run uses; of another release's environment they are closed."""
        while self._idle:
            of, forks = self._idle.pop()
            if of == environment:
                return forks
            forks.close()
        return forks_in(environment)

    def close(self) -> None:
        """Once nothing runs any more."""
        while self._idle:
            self._idle.pop()[1].close()

    def _apply(self, data: bytes, patch: Patch, name: str) -> bytes:
        """`engine.apply`, each application made once: the trees differ in few patches."""
        key = (data, patch.id, name)
        if key not in self._applied:
            self._applied[key] = engine.apply(data, patch, name)
        return self._applied[key]
