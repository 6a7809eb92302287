"""Building: twice from two checkouts under different circumstances, and once from the sdist."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from revendoring.errors import NoEnvironment
from revendoring.process import run
from vendoring.errors import NEEDS_A_PERSON, VendoringError

from .artefacts import read_sdist, read_wheel

BUILD_TIMEOUT_S = 600.0
# What must not show in the result. The umask is set by the shell that starts the build.
CIRCUMSTANCES = (
    {"TZ": "UTC", "PYTHONHASHSEED": "1", "LC_ALL": "C", "UMASK": "022"},
    {"TZ": "Pacific/Auckland", "PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "UMASK": "077"},
)
_NO_INDEX = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


class BuildFailed(VendoringError):
    """The build backend refused; its last words say why."""

    exit_code = NEEDS_A_PERSON


@dataclass(frozen=True)
class Built:
    """A wheel and an sdist."""

    wheel: Path
    sdist: Path


def require_backend() -> None:
    """Raises NoEnvironment when this interpreter cannot build."""
    if importlib.util.find_spec("hatchling") is None:
        raise NoEnvironment(
            f"{sys.executable} has no hatchling, which builds the package: "
            "run scripts/release.sh, which sets up .venv"
        )


def build(project: Path, into: Path, epoch: int, circumstances: Mapping[str, str]) -> Built:
    """Build the project in a folder, dated `epoch` (seconds since 1970). Raises BuildFailed."""
    _hatch(project, into, epoch, circumstances, "wheel", "sdist")
    return Built(_only(into, "*.whl"), _only(into, "*.tar.gz"))


def build_from_sdist(sdist: Path, scratch: Path, epoch: int) -> Path:
    """Build the wheel of an unpacked sdist with no index to reach. Raises BuildFailed."""
    unpacked = scratch / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (project,) = unpacked.iterdir()
    into = scratch / "dist"
    _hatch(project, into, epoch, {**CIRCUMSTANCES[0], **_NO_INDEX}, "wheel")
    return _only(into, "*.whl")


def _hatch(
    project: Path, into: Path, epoch: int, circumstances: Mapping[str, str], *targets: str
) -> None:
    shutil.rmtree(into, ignore_errors=True)
    chosen = [word for target in targets for word in ("-t", target)]
    umask = circumstances.get("UMASK", "022")
    # fmt: off
    command: list[str | Path] = [
        "/bin/sh", "-c", f'umask {umask}; exec "$@"', "sh",
        sys.executable, "-m", "hatchling", "build", *chosen, "-d", into,
    ]
    # fmt: on
    environment = {**os.environ, **circumstances, "SOURCE_DATE_EPOCH": str(epoch)}
    ended = run(command, cwd=project, timeout_s=BUILD_TIMEOUT_S, env=environment)
    if ended.code != 0:
        raise BuildFailed(f"the package cannot be built: {ended.last_line}")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise BuildFailed(f"the build left {len(found)} files {pattern}, there must be one")
    return found[0]


def differences(first: Path, second: Path) -> list[str]:
    """Why two files of a build are not the same bytes; none when they are."""
    if first.name != second.name:
        return [f"one build made {first.name}, the other {second.name}"]
    if first.read_bytes() == second.read_bytes():
        return []
    read = read_wheel if zipfile.is_zipfile(first) else read_sdist
    one, other = read(first), read(second)
    names = [n for n in sorted(one.keys() | other.keys()) if one.get(n) != other.get(n)]
    what = ", ".join(names[:3]) or "the same files, packed otherwise (times, modes or order)"
    return [f"{first.name}: the builds differ in {what}"]
