"""Download upstream wheels by hash and lay their text pristine under vendor/upstream/VERSION/."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from .errors import DownloadFailed, HashMismatch, IndexUnreachable, PipMissing, VendoringError
from .hashing import sha256
from .layout import Layout
from .locks import Pin, pins_for
from .versions import Version

STAMP = "STAMP.json"
_TEXT_SUFFIXES = frozenset({".py", ".pyi", ".md", ".rst", ".txt"})
_TEXT_NAMES = frozenset({"METADATA"})

# What pip prints when the index did not answer, whatever else it prints after that.
_NETWORK_SIGNS = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "SSLError",
    "Connection refused",
    "Temporary failure in name resolution",
    "Max retries exceeded",
    "Retrying (",
)
_HASH_SIGNS = ("DO NOT MATCH THE HASHES", "HashMismatch")


def pristine(layout: Layout, version: Version) -> Path:
    """The folder with upstream's sources of one version, fetched when it is not there.

    No network is used when the stamp names the locked hashes and every file is as it was laid.
    Raises UnsupportedVersion, PipMissing, IndexUnreachable, DownloadFailed or HashMismatch.
    """
    pins = pins_for(layout, version)
    folder = layout.pristine / str(version)
    with locked_directory(layout.pristine):
        if not _is_current(folder, pins):
            with tempfile.TemporaryDirectory() as scratch:
                wheels = download(pins, Path(scratch))
                lay_out(wheels, pins, folder)
    return folder


@contextlib.contextmanager
def locked_directory(folder: Path) -> Iterator[None]:
    """Let one process at a time write below a folder. Does nothing where the OS has no flock."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def download(pins: Sequence[Pin], into: Path) -> dict[str, Path]:
    """Fetch the pinned wheels with the running interpreter's pip and check each hash again."""
    lines = [pin.requirement() for pin in pins]
    run = _run_pip(["--require-hashes"], lines, into)
    if run.returncode != 0:
        raise _download_failure(pins, run.stderr)
    wheels = _wheels_in(into)
    for pin in pins:
        if pin.dist not in wheels:
            raise DownloadFailed(f"pip did not deliver a wheel of {pin.dist} {pin.version}")
        if sha256(wheels[pin.dist].read_bytes()) != pin.sha256:
            raise HashMismatch(f"the wheel of {pin.dist} {pin.version} is not the locked one")
    return wheels


def download_unlocked(requirements: Sequence[str], what: str, into: Path) -> dict[str, Path]:
    """Fetch wheels that no lock names yet. `what` is what an error calls them."""
    run = _run_pip([], requirements, into)
    if run.returncode != 0:
        raise pip_failure(what, run.stderr)
    return _wheels_in(into)


def check_pip() -> None:
    """Raise PipMissing where the running interpreter has none."""
    if importlib.util.find_spec("pip") is None:
        raise PipMissing(
            f"{sys.executable} has no pip, which is needed to fetch upstream: "
            "run `python -m ensurepip` or use an environment with pip"
        )


def _run_pip(
    options: Sequence[str], requirements: Sequence[str], into: Path
) -> subprocess.CompletedProcess[str]:
    check_pip()
    listed = into / "requirements.txt"
    listed.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    # fmt: off
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        *options, "--no-input", "--disable-pip-version-check",
        "--requirement", str(listed), "--dest", str(into),
    ]
    # fmt: on
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _wheels_in(folder: Path) -> dict[str, Path]:
    return {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in folder.glob("*.whl")}


def _names(pins: Sequence[Pin]) -> str:
    return ", ".join(f"{p.dist} {p.version}" for p in pins)


def index_was_unreachable(stderr: str) -> bool:
    """Whether pip failed because the index did not answer, by what it printed."""
    return any(sign in stderr for sign in _NETWORK_SIGNS)


def _download_failure(pins: Sequence[Pin], stderr: str) -> VendoringError:
    if any(sign in stderr for sign in _HASH_SIGNS):
        # pip quotes the hashes that it expected.
        wrong = _names([p for p in pins if p.sha256 in stderr] or pins)
        return HashMismatch(f"the index offers another file than the lock names for {wrong}")
    return pip_failure(_names(pins), stderr)


def pip_failure(what: str, stderr: str) -> VendoringError:
    """Why pip could not get something, by what it printed."""
    if index_was_unreachable(stderr):
        return IndexUnreachable(f"the package index could not be reached to fetch {what}")
    errors = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    said = errors[-1].removeprefix("ERROR:").strip() if errors else "nothing"
    return DownloadFailed(f"pip could not download {what}; it said: {said}")


def _is_text(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in _TEXT_SUFFIXES or path.name in _TEXT_NAMES


def lay_out(wheels: Mapping[str, Path], pins: Sequence[Pin], folder: Path) -> None:
    """Put the text files of the wheels into a folder, all or nothing, and stamp it."""
    stage = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(stage, ignore_errors=True)
    files: dict[str, str] = {}
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            for name in sorted(filter(_is_text, archive.namelist())):
                data = archive.read(name)
                place = stage / name
                if not place.resolve().is_relative_to(stage.resolve()):
                    raise HashMismatch(f"{wheel.name} holds a path that leaves the wheel")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
                files[name] = sha256(data)
    stamp = {"wheels": {p.dist: p.sha256 for p in pins}, "files": files}
    (stage / STAMP).write_text(json.dumps(stamp, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    stage.rename(folder)


def _is_current(folder: Path, pins: Sequence[Pin]) -> bool:
    try:
        stamp = json.loads((folder / STAMP).read_text())
        if stamp["wheels"] != {p.dist: p.sha256 for p in pins}:
            return False
        return all(sha256((folder / n).read_bytes()) == h for n, h in stamp["files"].items())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False
