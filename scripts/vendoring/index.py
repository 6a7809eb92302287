"""What the package index offers: upstream's releases, and the pins of one that no lock has yet.

Asked through pip, so that its configuration counts.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import DownloadFailed, UnsupportedVersion
from .fetch import check_pip, download_unlocked, pip_failure
from .hashing import sha256
from .layout import Layout
from .locks import DISTRIBUTIONS, Pin, known_versions, pins_for, read_lock
from .versions import Version

_LISTED = re.compile(r"^Available versions:(.*)$", re.MULTILINE)
_HEADER = "# Releases that no lock file has yet, as first seen on the index. Safe to delete.\n"


def offered(*, pre: bool = False) -> list[Version]:
    """The releases that the index has of all distributions, ascending; `pre`: pre-releases too.

    Raises PipMissing, IndexUnreachable, or DownloadFailed when pip cannot tell.
    """
    check_pip()
    common = set.intersection(*(_offered_of(dist) for dist in DISTRIBUTIONS))
    return sorted(v for v in common if pre or not v.is_pre)


def _offered_of(dist: str) -> set[Version]:
    # fmt: off
    command = [
        sys.executable, "-m", "pip", "index", "versions", dist, "--pre",
        "--no-input", "--disable-pip-version-check",
    ]
    # fmt: on
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = _LISTED.search(run.stdout)
    if run.returncode != 0 or listed is None:
        raise pip_failure(f"the list of releases of {dist}", run.stderr)
    found = set()
    for text in listed[1].split(","):
        try:
            found.add(Version.parse(text))
        except UnsupportedVersion:
            continue  # numbered in another way, as some releases long before the range are
    return found


def newest_pins(version: Version) -> tuple[Pin, ...]:
    """The wheels of one release, with the hashes of what the index serves now.

    Raises UnsupportedVersion when the index has no such release, else IndexUnreachable or
    DownloadFailed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        lines = [f"{dist}=={version}" for dist in DISTRIBUTIONS]
        try:
            wheels = download_unlocked(lines, f"upstream {version}", Path(scratch))
        except DownloadFailed as e:
            raise UnsupportedVersion(f"upstream {version} is not on the index") from e
        return tuple(
            sorted(Pin(d, version, sha256(wheel.read_bytes())) for d, wheel in wheels.items())
        )


def ensure_pins(layout: Layout, version: Version) -> None:
    """Make sure that `pins_for` knows a release, asking the index when no lock file has it.

    What was seen is kept in the cache, so that it cannot change unnoticed later on. Raises
    UnsupportedVersion when the index has it neither, IndexUnreachable or DownloadFailed.
    """
    try:
        pins_for(layout, version)
    except UnsupportedVersion:
        pass
    else:
        return
    try:
        pins = newest_pins(version)
    except UnsupportedVersion as e:
        known = known_versions(layout)
        raise UnsupportedVersion(
            f"upstream {version} is in no lock file (known: {known[0]} to {known[-1]}) "
            "and not on the index"
        ) from e
    seen = read_lock(layout.seen_lock) if layout.seen_lock.exists() else []
    layout.seen_lock.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{pin.requirement()}\n" for pin in sorted([*seen, *pins]))
    layout.seen_lock.write_text(_HEADER + text, encoding="utf-8")
