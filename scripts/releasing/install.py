"""Installing what was built into fresh environments, and a call in each of them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from revendoring.errors import NoEnvironment
from revendoring.process import Ended, run
from vendoring.errors import IndexUnreachable
from vendoring.fetch import index_was_unreachable

SMOKE = Path(__file__).with_name("smoke.py")
INSTALL_TIMEOUT_S = 1200.0
SMOKE_TIMEOUT_S = 180.0
# Of ours, so that nothing of the checkout is found by accident.
_DROPPED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def try_install(python: Path, artefact: Path, version: str, scratch: Path) -> list[str]:
    """What is wrong with an artefact installed beside nothing else; none when calls survive in it.

    `scratch` is used and removed. Raises NoEnvironment or IndexUnreachable when it cannot be tried.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        return _try(python, artefact, version, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _try(python: Path, artefact: Path, version: str, scratch: Path) -> list[str]:
    fresh = scratch / "env"
    made = _run([python, "-m", "venv", fresh], scratch, INSTALL_TIMEOUT_S)
    if made.code != 0:
        raise NoEnvironment(
            f"{python} cannot make a virtual environment (is its venv package installed?)"
        )
    own = fresh / "bin" / "python"
    pip: list[str | Path] = [own, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    installed = _run(
        [*pip, "install", "--quiet", f"{artefact}[testing]"], scratch, INSTALL_TIMEOUT_S
    )
    if installed.code != 0:
        if index_was_unreachable(installed.output):
            raise IndexUnreachable(
                f"the package index could not be reached to install {artefact.name}"
            )
        return [f"does not install: {_why(installed)}"]
    checked = _run([*pip, "check"], scratch, INSTALL_TIMEOUT_S)
    if checked.code != 0:
        return [f"pip check: {line}" for line in checked.output.splitlines()]
    called = _run([own, "-I", SMOKE], scratch, SMOKE_TIMEOUT_S)
    return smoke_faults(called, version, fresh)


def smoke_faults(ended: Ended, version: str, prefix: Path) -> list[str]:
    """What the smoke calls say is wrong."""
    if ended.timed_out:
        return [f"the calls did not end within {SMOKE_TIMEOUT_S:.0f} s"]
    try:
        said = json.loads(ended.last_line)
        calls: dict[str, dict[str, object]] = said["calls"]
    except (ValueError, LookupError, TypeError):
        return [f"the calls could not be made: {ended.last_line}"]
    faults = [
        f"the {name} call did not survive: {call}"
        for name, call in calls.items()
        if not call["survived"]
    ]
    if {said["version"], said["installed"]} != {version}:
        faults.append(f"it says version {said['version']}, its metadata {said['installed']}")
    if not Path(said["file"]).is_relative_to(prefix.resolve()):
        faults.append("the package was imported from elsewhere than the fresh environment")
    if ended.code != 0 and not faults:
        faults.append(f"the calls ended with code {ended.code}")
    return faults


def _run(command: list[str | Path], cwd: Path, timeout_s: float) -> Ended:
    environment = {k: v for k, v in os.environ.items() if k not in _DROPPED}
    return run(command, cwd=cwd, timeout_s=timeout_s, env=environment)


def _why(ended: Ended) -> str:
    errors = [line for line in ended.output.splitlines() if line.startswith("ERROR:")]
    return errors[0].removeprefix("ERROR:").strip() if errors else ended.last_line
