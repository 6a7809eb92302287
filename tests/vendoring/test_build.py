"""What is built from this checkout: reproducible, complete, and installable without upstream."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path

import pytest

from vendoring.hashing import sha256
from vendoring.layout import Layout
from vendoring.locks import EXTRAS, locked_pins
from vendoring.tree import project_name_and_version

PROJECT = Layout.here().project
TREE = "livekit/plugins/resilient/_vendor"


def hatch(project: Path, into: Path, *targets: str, **environment: str) -> str:
    """Build with hatchling as a build front end would; returns what it printed."""
    arguments = [word for target in targets for word in ("-t", target)]
    run = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *arguments, "-d", str(into)],
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    return run.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one wheel and one sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    hatch(PROJECT, folder, "wheel", "sdist")
    return folder


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def sdist_in(folder: Path) -> Path:
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def unpack(sdist: Path, into: Path) -> Path:
    with tarfile.open(sdist) as archive:
        archive.extractall(into, filter="data")
    (project,) = into.iterdir()
    return project


@pytest.fixture
def no_upstream() -> Mapping[str, str]:
    """An environment in which pip can reach nothing."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}


def test_the_wheel_holds_the_tree_the_licence_and_the_bill_of_materials(built: Path) -> None:
    layout = Layout.here()
    name, version = project_name_and_version(layout)
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        names = set(wheel.namelist())
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        tree = {n.removeprefix(f"{TREE}/") for n in names if n.startswith(TREE)}
        on_disk = {
            p.relative_to(layout.tree).as_posix()
            for p in layout.tree.rglob("*")
            if p.is_file() and "__pycache__" not in p.parts
        }
        assert tree == on_disk
        assert f"{info}/licenses/LICENSE" in names
        notice = wheel.read(f"{info}/licenses/NOTICE").decode()
        assert "Copyright 2023 LiveKit, Inc." in notice
        assert "livekit/plugins/resilient/py.typed" in names
        sbom = json.loads(wheel.read(f"{info}/sboms/sbom.cdx.json"))
        pins = {(c["name"], c["version"]) for c in sbom["components"]}
        assert pins == {(p.dist, str(p.version)) for p in locked_pins(layout)}


def test_every_vendored_file_says_that_it_was_modified(built: Path) -> None:
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        files = [n for n in wheel.namelist() if n.startswith(TREE) and n.endswith(".py")]
        for name in files:
            if not name.endswith("/__init__.py"):
                head = wheel.read(name).decode().splitlines()[:2]
                assert head[0].startswith("# MODIFIED by livekit-plugins-resilient from livekit-")
                assert "Copyright 2023 LiveKit, Inc., Apache-2.0" in head[1]


def test_the_wheel_leaves_the_namespace_alone(built: Path) -> None:
    """An __init__.py there would hide every upstream module."""
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        names = wheel.namelist()
    assert "livekit/__init__.py" not in names
    assert "livekit/plugins/__init__.py" not in names
    tops = {n.split("/")[0] for n in names}
    assert len(tops) == 2, tops
    beside = {n for n in names if not n.startswith("livekit/plugins/resilient/")}
    assert {n for n in beside if "dist-info" not in n} == {"livekit/plugins/resilient_pytest.py"}


def test_the_metadata_says_what_it_is(built: Path) -> None:
    with zipfile.ZipFile(wheel_in(built)) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
        metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert metadata["Summary"].startswith("Unofficial: ")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.14,>=3.10"
    asked = metadata.get_all("Requires-Dist", [])
    locked = [(p.dist, f"{p.dist}<1.9,>={p.version}") for p in locked_pins(Layout.here())]
    required = [r for r in asked if "extra ==" not in r]
    assert sorted(required) == [line for dist, line in locked if dist not in EXTRAS]
    for dist, line in locked:
        assert dist not in EXTRAS or f"{line}; extra == '{EXTRAS[dist]}'" in asked


def test_the_same_checkout_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    for path in PROJECT.rglob("options.py"):
        path.touch()
    hatch(PROJECT, tmp_path, "wheel", "sdist")
    for first, second in (
        (wheel_in(built), wheel_in(tmp_path)),
        (sdist_in(built), sdist_in(tmp_path)),
    ):
        assert first.name == second.name
        assert sha256(first.read_bytes()) == sha256(second.read_bytes())


def test_the_build_date_is_taken_from_the_environment(built: Path, tmp_path: Path) -> None:
    hatch(PROJECT, tmp_path, "wheel", SOURCE_DATE_EPOCH="1767225600")
    with zipfile.ZipFile(wheel_in(tmp_path)) as wheel:
        assert {i.date_time[:3] for i in wheel.infolist()} == {(2026, 1, 1)}


def test_an_sdist_builds_the_same_wheel_without_upstream(
    built: Path, tmp_path: Path, no_upstream: Mapping[str, str]
) -> None:
    project = unpack(sdist_in(built), tmp_path / "unpacked")
    hatch(project, tmp_path / "dist", "wheel", "sdist", **no_upstream)
    assert wheel_in(tmp_path / "dist").read_bytes() == wheel_in(built).read_bytes()
    assert sdist_in(tmp_path / "dist").read_bytes() == sdist_in(built).read_bytes()


@pytest.mark.parametrize("damage", ["change", "remove"])
def test_a_damaged_sdist_is_refused(built: Path, tmp_path: Path, damage: str) -> None:
    project = unpack(sdist_in(built), tmp_path / "unpacked")
    path = project / TREE / "google" / "log.py"
    if damage == "change":
        path.write_text("x = 1\n")
    else:
        path.unlink()
    with pytest.raises(RuntimeError, match=r"shipped tree is damaged: _vendor/google/log\.py is"):
        hatch(project, tmp_path / "dist", "wheel")
    assert not list((tmp_path / "dist").glob("*.whl"))


def test_a_wrong_lock_stops_the_build_with_one_sentence(tmp_path: Path) -> None:
    layout = Layout.here()
    root = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("_vendor", "upstream", "__pycache__", ".lock")
    for name in ("scripts", "patches", "vendor", "livekit-plugins-resilient"):
        shutil.copytree(layout.root / name, root / name, ignore=ignore)
    lock = root / "vendor" / "upstream.lock"
    first = locked_pins(layout)[0].sha256
    lock.write_text(lock.read_text().replace(first, "0" * 64))
    with pytest.raises(RuntimeError) as caught:
        hatch(root / "livekit-plugins-resilient", tmp_path / "dist", "wheel")
    last = str(caught.value).strip().splitlines()[-1]
    assert last.startswith("livekit-plugins-resilient: the index offers another file than the lock")
    assert not list((tmp_path / "dist").glob("*.whl"))


def test_an_editable_wheel_points_at_the_project(tmp_path: Path) -> None:
    code = "import sys, hatchling.build as b; b.build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=PROJECT, check=True)
    with zipfile.ZipFile(wheel_in(tmp_path)) as wheel:
        (pth,) = (n for n in wheel.namelist() if n.endswith(".pth"))
        assert Path(wheel.read(pth).decode().strip()) == PROJECT
