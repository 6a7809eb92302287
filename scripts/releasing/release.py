"""A release, or its rehearsal: what it is called, what is in it, whether it installs and works."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from revendoring import changelog, places
from revendoring.checkout import Checkout
from revendoring.places import Release
from vendoring.errors import NEEDS_A_PERSON
from vendoring.hashing import sha256
from vendoring.layout import Layout
from vendoring.locks import locked_pins
from vendoring.toml import read_toml

from . import build, install, pythons
from .artefacts import CHECKS, Artefacts, Expected, read_sdist, read_wheel

Log = Callable[[str], None]

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    A rehearsal wants neither tag nor date and keeps nothing. `pythons` (none: all that are
    supported and found) are tried unless `install` is False, which only a rehearsal may want.
    """

    rehearsal: bool = False
    pythons: Sequence[str] = ()
    install: bool = True


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; fine without faults."""

    name: str
    faults: tuple[str, ...] = ()


@dataclass
class Outcome:
    """All checks; `folder` is where the files of a release are, None when there is none."""

    release: str
    checks: list[Check] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    folder: Path | None = None

    @property
    def exit_code(self) -> int:
        return NEEDS_A_PERSON if any(check.faults for check in self.checks) else 0

    def text(self) -> str:
        """For the terminal."""
        lines = [f"livekit-plugins-resilient {self.release}", ""]
        for check in self.checks:
            lines.append(f"{'WRONG' if check.faults else 'ok':6}{check.name}")
            lines += [f"      - {fault}" for fault in check.faults]
        lines += [f"{'-':6}{what}" for what in self.not_tried]
        wrong = sum(bool(check.faults) for check in self.checks)
        lines += ["", f"{len(self.checks) - wrong} of {len(self.checks)} checks passed."]
        if self.folder is not None:
            lines.append(f"The files are in {self.folder}.")
        return "\n".join(lines)


def release(layout: Layout, wish: Wish, log: Log = lambda _: None) -> Outcome:
    """Build and check a release of the commit that is checked out.

    Raises a VendoringError when it could not be tried; then nothing is left behind.
    """
    checkout = Checkout(layout)
    checkout.require_clean()
    build.require_backend()
    project = read_toml(layout.project / "pyproject.toml")["project"]
    chosen, missing = pythons.choose(str(project["requires-python"]), wish.pythons)
    outcome = Outcome(str(project["version"]))
    # fmt: off
    expected = Expected(
        str(project["name"]), outcome.release, str(project["requires-python"]),
        locked_pins(layout), (str(layout.root), str(Path.home())),
    )
    # fmt: on
    outcome.checks.append(Check("version, in every place", tuple(places.disagreements(layout))))
    if not wish.rehearsal:
        outcome.checks.append(Check("tag and date", tuple(_untagged(checkout, outcome.release))))
        if outcome.exit_code != 0:
            outcome.not_tried.append("building and installing: not before this is right")
            return outcome
    scratch = layout.cache / "release" / str(os.getpid())
    try:
        built = _build(checkout, scratch, expected, outcome, log)
        if wish.install:
            for version, python in chosen.items():
                for artefact in (built.wheel, built.sdist):
                    name = f"Python {version}: {artefact.name}"
                    log(f"installing and calling, {name}")
                    faults = install.try_install(
                        python, artefact, outcome.release, scratch / "install"
                    )
                    outcome.checks.append(Check(f"{name} installs, calls survive", tuple(faults)))
        else:
            outcome.not_tried.append("installing: left out on request")
        outcome.not_tried += [f"Python {v}: not found on this machine" for v in missing]
        if outcome.exit_code == 0 and not wish.rehearsal:
            outcome.folder = _keep(layout, built, expected)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return outcome


def _untagged(checkout: Checkout, version: str) -> list[str]:
    """What keeps this commit from being the release of this version."""
    own = Release.parse(version)
    faults = []
    top = changelog.newest(checkout.layout.root / "CHANGELOG.md")
    if top.date is None:
        faults.append(
            f"CHANGELOG.md: write `## [{version}] - YYYY-MM-DD, built from livekit-agents "
            f"{own.upstream}` in the place of [Unreleased]"
        )
    if own.tag not in checkout.tags_of_head():
        elsewhere = own.tag in checkout.tags()
        faults.append(
            f"{own.tag} tags another commit: raise the last number of the version"
            if elsewhere
            else f"this commit has no tag: git tag {own.tag}"
        )
    return faults


def _build(
    checkout: Checkout, scratch: Path, expected: Expected, outcome: Outcome, log: Log
) -> build.Built:
    """Build twice and look into the first. Raises BuildFailed."""
    epoch = checkout.commit_time()
    results = []
    for number, circumstances in enumerate(build.CIRCUMSTANCES, 1):
        log(f"building, {number} of {len(build.CIRCUMSTANCES)}")
        with checkout.worktree(f"build{number}") as worktree:
            into = scratch / str(number)
            results.append(build.build(worktree.project, into, epoch, circumstances))
    first, second = results
    differing = [
        *build.differences(first.wheel, second.wheel),
        *build.differences(first.sdist, second.sdist),
    ]
    outcome.checks.append(Check("two builds are the same, byte for byte", tuple(differing)))
    made = Artefacts(read_wheel(first.wheel), read_sdist(first.sdist))
    for name, check in CHECKS.items():
        outcome.checks.append(Check(name, tuple(check(made, expected))))
    log("building from the sdist, without an index")
    again = build.build_from_sdist(first.sdist, scratch / "sdist", epoch)
    faults = tuple(build.differences(first.wheel, again))
    outcome.checks.append(Check("the sdist builds the same wheel, without an index", faults))
    return first


def _keep(layout: Layout, built: build.Built, expected: Expected) -> Path:
    """Put the files of a release into dist/VERSION, all or nothing."""
    folder = layout.root / "dist" / expected.version
    stage = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    sums = []
    for path in (built.wheel, built.sdist):
        shutil.copyfile(path, stage / path.name)
        sums.append(f"{sha256(path.read_bytes())}  {path.name}\n")
    (stage / SUMS).write_text("".join(sums), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    stage.rename(folder)
    return folder.relative_to(layout.root)
