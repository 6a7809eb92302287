"""What is in a built wheel and sdist, and what is wrong with it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from revendoring.places import requirement
from vendoring.locks import EXTRAS, Pin
from vendoring.provenance import RECORD

Files = Mapping[str, bytes]

TREE = "livekit/plugins/resilient/_vendor"
ATTRIBUTION = "Copyright 2023 LiveKit, Inc."
LICENCE_FILES = ("LICENSE", "NOTICE")
# Of a namespace that many distributions share: with a file here, the others are hidden.
NAMESPACES = ("livekit/__init__.py", "livekit/plugins/__init__.py")
# Everything of ours; beside it only the wheel's own record is allowed.
OURS = ("livekit/plugins/resilient/", "livekit/plugins/resilient_pytest.py")


@dataclass(frozen=True)
class Expected:
    """What the checkout says that a release is."""

    name: str
    version: str
    python: str
    pins: Sequence[Pin]
    # Where it was built; none of these may stand in it.
    folders: Sequence[str] = ()

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}"


@dataclass(frozen=True)
class Artefacts:
    """The files of a wheel, and those of an sdist without their common folder."""

    wheel: Files
    sdist: Files


def read_wheel(path: Path) -> dict[str, bytes]:
    """The files of a wheel by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def read_sdist(path: Path) -> dict[str, bytes]:
    """The files of an sdist by name, without the folder that holds them all."""
    files = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            if content is not None:
                files[member.name.partition("/")[2]] = content.read()
    return files


# -- the checks: each gives what is wrong, one sentence a fault


def _metadata(made: Artefacts, expected: Expected) -> list[str]:
    found = []
    for place, data in (
        ("the wheel", made.wheel.get(f"{expected.stem}.dist-info/METADATA")),
        ("the sdist", made.sdist.get("PKG-INFO")),
    ):
        if data is None:
            found.append(f"{place} has no metadata under the name {expected.stem}")
            continue
        found += [f"{place}: {fault}" for fault in _headers(data, expected)]
    return found


def _headers(data: bytes, expected: Expected) -> list[str]:
    message: Message = HeaderParser().parsestr(data.decode())
    found = []
    for header, wanted in (
        ("Name", expected.name),
        ("Version", expected.version),
        ("License-Expression", "Apache-2.0"),
    ):
        if message[header] != wanted:
            found.append(f"{header} is {message[header]}, must be {wanted}")
    if set(str(message["Requires-Python"]).split(",")) != set(expected.python.split(",")):
        found.append(f"Requires-Python is {message['Requires-Python']}, must be {expected.python}")
    if not str(message["Summary"]).startswith("Unofficial"):
        found.append("Summary must begin with Unofficial")
    if not str(message.get_payload()).strip():
        found.append("there is no description")
    listed = message.get_all("License-File", [])
    found += [f"License-File {name} is missing" for name in LICENCE_FILES if name not in listed]
    required = [_plain(text) for text in message.get_all("Requires-Dist", [])]
    for pin in expected.pins:
        wanted = requirement(pin.dist, pin.version)
        if (extra := EXTRAS.get(pin.dist)) is not None:
            wanted += f"; extra == {extra!r}"
        if _plain(wanted) not in required:
            found.append(f"Requires-Dist lacks {wanted}")
    return found


def _plain(text: str) -> tuple[str, frozenset[str], str]:
    """Name, clauses and marker of a requirement, whatever the clauses' order."""
    text, _, marker = text.partition(";")
    at = min((text.index(c) for c in "<>=!~ [" if c in text), default=len(text))
    return text[:at], frozenset(text[at:].split(",")), marker.strip()


def _licences(made: Artefacts, expected: Expected) -> list[str]:
    found = []
    for place, files, folder in (
        ("the wheel", made.wheel, f"{expected.stem}.dist-info/licenses/"),
        ("the sdist", made.sdist, ""),
    ):
        found += [f"{place} has no {n}" for n in LICENCE_FILES if f"{folder}{n}" not in files]
        if ATTRIBUTION.encode() not in files.get(f"{folder}NOTICE", b""):
            found.append(f"{place}: NOTICE does not say {ATTRIBUTION!r}")
    for name, data in made.wheel.items():
        vendored = name.startswith(TREE) and name.endswith(".py")
        if vendored and not name.endswith("/__init__.py"):
            head = data.decode().splitlines()[:2]
            if len(head) < 2 or "MODIFIED by" not in head[0] or ATTRIBUTION not in head[1]:
                found.append(f"{name} does not say at its top that it is modified, and whose it is")
    return found


def _sbom(made: Artefacts, expected: Expected) -> list[str]:
    name = f"{expected.stem}.dist-info/sboms/sbom.cdx.json"
    if name not in made.wheel:
        return [f"the wheel has no {name}"]
    try:
        document = json.loads(made.wheel[name])
        root = document["metadata"]["component"]
        named = {
            (c["name"], c["version"], c["hashes"][0]["content"]) for c in document["components"]
        }
    except (ValueError, LookupError, TypeError) as e:
        return [f"{name} is no CycloneDX document of ours: {e!r}"]
    found = []
    if document.get("bomFormat") != "CycloneDX":
        found.append(f"{name}: bomFormat must be CycloneDX")
    if (root["name"], root["version"]) != (expected.name, expected.version):
        found.append(f"{name} is about {root['name']} {root['version']}")
    if named != {(p.dist, str(p.version), p.sha256) for p in expected.pins}:
        found.append(f"{name} names other upstream wheels than vendor/upstream.lock")
    return found


def _namespace(made: Artefacts, expected: Expected) -> list[str]:
    found = [
        f"{place} has {name}, which hides every upstream package"
        for place, files in (("the wheel", made.wheel), ("the sdist", made.sdist))
        for name in NAMESPACES
        if name in files
    ]
    info = f"{expected.stem}.dist-info/"
    strangers = [n for n in made.wheel if not n.startswith((*OURS, info)) and n not in NAMESPACES]
    return found + [f"the wheel would put {name} beside other packages" for name in strangers]


def _record(made: Artefacts, expected: Expected) -> list[str]:
    name = f"{expected.stem}.dist-info/RECORD"
    rows = list(csv.reader(io.StringIO(made.wheel.get(name, b"").decode())))
    listed = {row[0]: row[1] for row in rows if len(row) == 3}
    found = [f"{name} lacks {n}" for n in made.wheel if n not in listed]
    found += [f"{name} lists {n}, which is not there" for n in listed if n not in made.wheel]
    for entry, digest in listed.items():
        if entry != name and entry in made.wheel and digest != _record_hash(made.wheel[entry]):
            found.append(f"{name} has another hash of {entry}")
    return found


def _record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def _tree(made: Artefacts, expected: Expected) -> list[str]:
    found = []
    for place, files in (("the wheel", made.wheel), ("the sdist", made.sdist)):
        inside = {n.removeprefix(f"{TREE}/"): d for n, d in files.items() if n.startswith(TREE)}
        try:
            record = json.loads(inside.pop(RECORD))
            recorded: dict[str, str] = record["files"]
            upstream = record["upstream"]
        except (KeyError, ValueError, TypeError):
            found.append(f"{place} has no readable {RECORD}")
            continue
        if upstream != {p.dist: p.sha256 for p in expected.pins}:
            found.append(f"{place}: the vendored tree is not of the locked upstream release")
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in inside.items()}
        for name in sorted(hashes.keys() | recorded.keys()):
            if hashes.get(name) != recorded.get(name):
                found.append(f"{place}: {TREE}/{name} is not as it was generated")
    return found


def _paths(made: Artefacts, expected: Expected) -> list[str]:
    return [
        f"{place}: {name} names a folder of the machine that built it"
        for place, files in (("the wheel", made.wheel), ("the sdist", made.sdist))
        for name, data in files.items()
        if any(folder.encode() in data for folder in expected.folders)
    ]


CHECKS: Mapping[str, Callable[[Artefacts, Expected], list[str]]] = {
    "metadata": _metadata,
    "licence, NOTICE and headers": _licences,
    "bill of materials": _sbom,
    "namespace": _namespace,
    "RECORD": _record,
    "vendored tree": _tree,
    "no path of the build machine": _paths,
}
