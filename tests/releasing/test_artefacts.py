"""Each check passes on what is built here, and fails on the fault that it is for."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from releasing import build
from releasing.artefacts import CHECKS, TREE, Artefacts, Expected

Files = dict[str, bytes]
INFO = "livekit_plugins_resilient-{version}.dist-info"


@pytest.mark.parametrize("name", CHECKS)
def test_what_is_built_here_passes(name: str, read: Artefacts, expected: Expected) -> None:
    assert CHECKS[name](read, expected) == []


def replaced(name: str, old: str, new: str) -> Callable[[Files, str], None]:
    def change(files: Files, info: str) -> None:
        path = name.replace("INFO/", f"{info}/")
        assert old.encode() in files[path]
        files[path] = files[path].replace(old.encode(), new.encode())

    return change


def removed(name: str) -> Callable[[Files, str], None]:
    def change(files: Files, info: str) -> None:
        del files[name.replace("INFO/", f"{info}/")]

    return change


def added(name: str, text: str = "") -> Callable[[Files, str], None]:
    return lambda files, info: files.update({name.replace("INFO/", f"{info}/"): text.encode()})


def other_component(files: Files, info: str) -> None:
    document = json.loads(files[f"{info}/sboms/sbom.cdx.json"])
    document["components"][0]["version"] = "1.0.0"
    files[f"{info}/sboms/sbom.cdx.json"] = json.dumps(document).encode()


METADATA = "INFO/METADATA"


@pytest.mark.parametrize(
    ("check", "change", "words"),
    [
        ("metadata", replaced(METADATA, "Version: 1.", "Version: 2."), "Version is 2."),
        ("metadata", replaced(METADATA, "Summary: Unofficial", "Summary: The"), "Unofficial"),
        ("metadata", replaced(METADATA, "<3.14,>=3.10", ">=3.10"), "Requires-Python is >=3.10,"),
        (
            "metadata",
            replaced(METADATA, "livekit-agents<", "livekit-agent<"),
            "lacks livekit-agents",
        ),
        ("metadata", replaced(METADATA, "; extra == 'xai'", ""), "lacks livekit-plugins-xai>="),
        ("metadata", replaced(METADATA, "License-File: NOTICE", "X: y"), "NOTICE is missing"),
        ("metadata", removed(METADATA), "the wheel has no metadata under the name"),
        ("licence, NOTICE and headers", removed("INFO/licenses/NOTICE"), "wheel has no NOTICE"),
        (
            "licence, NOTICE and headers",
            replaced("INFO/licenses/NOTICE", "2023 LiveKit", "2026 Somebody"),
            "NOTICE does not say",
        ),
        (
            "licence, NOTICE and headers",
            replaced(f"{TREE}/google/realtime_api.py", "# MODIFIED by", "# by"),
            "google/realtime_api.py does not say at its top",
        ),
        ("bill of materials", removed("INFO/sboms/sbom.cdx.json"), "the wheel has no"),
        ("bill of materials", other_component, "names other upstream wheels"),
        ("bill of materials", added("INFO/sboms/sbom.cdx.json", "{}"), "no CycloneDX document"),
        ("namespace", added("livekit/__init__.py"), "hides every upstream package"),
        ("namespace", added("livekit/plugins/__init__.py"), "hides every upstream package"),
        ("namespace", added("tests/test_ours.py"), "would put tests/test_ours.py beside"),
        ("namespace", added("livekit/plugins/other.py"), "livekit/plugins/other.py beside"),
        ("RECORD", added("livekit/plugins/resilient/more.py"), "RECORD lacks"),
        ("RECORD", removed("livekit/plugins/resilient/hooks.py"), "which is not there"),
        ("RECORD", added("livekit/plugins/resilient/hooks.py", "x"), "another hash of"),
        ("vendored tree", added(f"{TREE}/google/log.py", "x"), "google/log.py is not as it was"),
        ("vendored tree", added(f"{TREE}/more.py"), "more.py is not as it was generated"),
        ("vendored tree", removed(f"{TREE}/PROVENANCE.json"), "no readable PROVENANCE.json"),
    ],
)
def test_a_fault_in_the_wheel_is_found(
    read: Artefacts,
    expected: Expected,
    check: str,
    change: Callable[[Files, str], None],
    words: str,
) -> None:
    files = dict(read.wheel)
    change(files, INFO.format(version=expected.version))
    faults = CHECKS[check](Artefacts(files, read.sdist), expected)
    assert any(words in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("check", "change", "words"),
    [
        (
            "metadata",
            replaced("PKG-INFO", "Version: 1.", "Version: 2."),
            "the sdist: Version is 2.",
        ),
        ("licence, NOTICE and headers", removed("LICENSE"), "the sdist has no LICENSE"),
        ("namespace", added("livekit/plugins/__init__.py"), "the sdist has livekit/plugins"),
        ("vendored tree", added(f"{TREE}/more.py"), "the sdist: "),
    ],
)
def test_a_fault_in_the_sdist_is_found(
    read: Artefacts,
    expected: Expected,
    check: str,
    change: Callable[[Files, str], None],
    words: str,
) -> None:
    files = dict(read.sdist)
    change(files, "")
    faults = CHECKS[check](Artefacts(read.wheel, files), expected)
    assert any(words in fault for fault in faults), faults


def test_a_path_of_the_build_machine_is_found(read: Artefacts, expected: Expected) -> None:
    told = dataclasses.replace(expected, folders=("/home/somebody",))
    files = {**read.wheel, "livekit/plugins/resilient/x.py": b'P = "/home/somebody/x"\n'}
    (fault,) = CHECKS["no path of the build machine"](Artefacts(files, read.sdist), told)
    assert "livekit/plugins/resilient/x.py" in fault


# -- building


def test_the_sdist_builds_the_same_wheel(built: build.Built, tmp_path: Path) -> None:
    epoch = 1_767_225_600
    again = build.build_from_sdist(built.sdist, tmp_path, epoch)
    assert build.differences(built.wheel, again) == []
    later = build.build_from_sdist(built.sdist, tmp_path / "later", epoch + 10_000)
    (difference,) = build.differences(built.wheel, later)
    assert "packed otherwise" in difference


def test_wheels_that_differ_are_told_by_the_file(tmp_path: Path) -> None:
    for folder, text in (("a", "1"), ("b", "2")):
        (tmp_path / folder).mkdir()
        with zipfile.ZipFile(tmp_path / folder / "x.whl", "w") as archive:
            archive.writestr(zipfile.ZipInfo("same"), "")
            archive.writestr(zipfile.ZipInfo("module.py"), text)
    found = build.differences(tmp_path / "a" / "x.whl", tmp_path / "b" / "x.whl")
    assert found == ["x.whl: the builds differ in module.py"]


def test_a_build_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    with pytest.raises(build.BuildFailed, match=r"the package cannot be built: .*version"):
        build.build(tmp_path, tmp_path / "dist", 0, build.CIRCUMSTANCES[0])
