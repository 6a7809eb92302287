"""The Python interpreters on this machine that the package supports."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from revendoring.errors import NoEnvironment
from revendoring.places import supported_pythons

_ASK = "import sys; print('%d.%d' % sys.version_info[:2])"
ASK_TIMEOUT_S = 20.0


def find(versions: Sequence[str]) -> dict[str, Path]:
    """The first interpreter that works for each version: from the path, then of pyenv."""
    found = {}
    for version in versions:
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def choose(requires: str, wanted: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Interpreters to try, and the supported versions that this machine lacks.

    `wanted` (none: all supported) must each be supported and there. Raises NoEnvironment.
    """
    known = supported_pythons(requires)
    for version in wanted:
        if version not in known:
            raise NoEnvironment(
                f"Python {version} is not supported (supported: {', '.join(known)})"
            )
    found = find(wanted or known)
    missing = [v for v in (wanted or known) if v not in found]
    if missing and wanted:
        raise NoEnvironment(f"no Python {', '.join(missing)} was found on this machine")
    if not found:
        raise NoEnvironment(f"none of Python {', '.join(known)} was found on this machine")
    return found, missing


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        path = shutil.which(f"python{version}", path=folder)
        if path:
            yield Path(path)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for installed in sorted(pyenv.glob(f"versions/{version}.*"), reverse=True):
        yield installed / "bin" / "python"


def _version_of(python: Path) -> str | None:
    """What it says that it is; None when it does not run, as a shim without its version."""
    try:
        run = subprocess.run(
            [str(python), "-c", _ASK],
            capture_output=True,
            text=True,
            check=False,
            timeout=ASK_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None
