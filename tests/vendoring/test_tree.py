"""The generated tree of a made-up checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vendoring import fetch, provenance
from vendoring.errors import InvalidConfig, NotFound, UnsupportedVersion
from vendoring.locks import locked_pins
from vendoring.patchfile import load_all
from vendoring.tree import ensure, generate
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

AFTER = """
[[edit]]
op = "insert-after"
in = "Session._run"
at = { kind = "Await", has = { call = "asyncio.sleep" } }
code = "ours(e)"
"""
GONE = """
[[edit]]
op = "insert-first"
in = "Session.gone"
code = "pass"
"""


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}


@pytest.fixture(autouse=True)
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources are there already, so every download is one too many."""

    def refuse(pins: object, into: object) -> None:
        raise AssertionError("downloaded without need")

    monkeypatch.setattr(fetch, "download", refuse)


def test_the_tree_is_complete(checkout: Checkout) -> None:
    checkout.add_patch("google/sample", AFTER)
    tree = ensure(checkout.layout)
    assert tree == checkout.layout.tree
    assert set(snapshot(tree)) == {
        "__init__.py",
        "google/__init__.py",
        "google/realtime_api.py",
        "google/helpers.py",
        "google/log.py",
        "openai/__init__.py",
        "openai/realtime_model.py",
        "PROVENANCE.json",
        "sbom.cdx.json",
    }
    engine = (tree / "google/realtime_api.py").read_text()
    vendored = "from livekit.plugins.resilient._vendor.google"
    assert engine.startswith(
        "# MODIFIED by livekit-plugins-resilient from livekit-plugins-google 1.8.1, "
        "livekit/plugins/google/realtime/engine.py.\n"
    )
    assert "patches: google/sample." in engine
    assert f"{vendored}.log import logger\n" in engine
    assert f"{vendored}.helpers import join\n" in engine
    assert "from livekit.plugins.google.tools import Tool\n" in engine
    assert engine.index("asyncio.sleep(0)") < engine.index("ours(e)")
    assert "patches: none." in (tree / "google/log.py").read_text()


def test_provenance_names_upstream_patches_and_every_file(checkout: Checkout) -> None:
    checkout.add_patch("google/sample", AFTER)
    tree = ensure(checkout.layout)
    record = json.loads((tree / "PROVENANCE.json").read_text())
    assert record["version"] == "1.8.1"
    assert record["upstream"] == {p.dist: p.sha256 for p in locked_pins(checkout.layout)}
    assert list(record["patches"]) == ["google/sample"]
    assert set(record["files"]) == set(snapshot(tree)) - {"PROVENANCE.json"}
    assert provenance.problem(tree) is None


def test_the_bill_of_materials_names_the_pins(checkout: Checkout) -> None:
    tree = ensure(checkout.layout)
    document = json.loads((tree / "sbom.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    found = {(c["name"], c["version"], c["hashes"][0]["content"]) for c in document["components"]}
    assert found == {(p.dist, "1.8.1", p.sha256) for p in locked_pins(checkout.layout)}


def test_an_unchanged_tree_is_left_alone_without_a_network(checkout: Checkout) -> None:
    tree = ensure(checkout.layout)
    inode = tree.stat().st_ino
    checkout.layout.pristine.rename(checkout.layout.root / "elsewhere")
    ensure(checkout.layout)
    assert tree.stat().st_ino == inode


@pytest.mark.parametrize("damage", ["change", "remove", "add"])
def test_a_damaged_tree_is_made_again_without_a_network(checkout: Checkout, damage: str) -> None:
    tree = ensure(checkout.layout)
    before = snapshot(tree)
    if damage == "change":
        (tree / "google/log.py").write_text("x = 1\n")
    elif damage == "remove":
        (tree / "google/log.py").unlink()
    else:
        (tree / "google/extra.py").write_text("x = 1\n")
    ensure(checkout.layout)
    assert snapshot(tree) == before


def test_a_new_patch_makes_a_new_tree_without_a_network(checkout: Checkout) -> None:
    tree = ensure(checkout.layout)
    checkout.add_patch("google/sample", AFTER)
    ensure(checkout.layout)
    assert "resilient-patch: google/sample" in (tree / "google/realtime_api.py").read_text()


def test_the_same_input_gives_the_same_bytes(checkout: Checkout) -> None:
    checkout.add_patch("google/sample", AFTER)
    patches = load_all(checkout.layout.patches)
    one, two = (checkout.layout.root / name / "_vendor" for name in ("one", "two"))
    for folder in (one, two):
        generate(checkout.layout, Version(1, 8, 1), patches, folder)
    assert snapshot(one) == snapshot(two)


def test_a_patch_that_does_not_apply_leaves_the_old_tree(checkout: Checkout) -> None:
    tree = ensure(checkout.layout)
    before = snapshot(tree)
    checkout.add_patch("google/gone", GONE)
    with pytest.raises(NotFound, match=r"google/gone: insert-first in Session.gone"):
        ensure(checkout.layout)
    assert snapshot(tree) == before
    assert [p.name for p in tree.parent.glob("_vendor*")] == ["_vendor"]


def test_bare_means_rewritten_imports_and_nothing_else(checkout: Checkout, source: bytes) -> None:
    into = checkout.layout.root / "bare"
    generate(checkout.layout, Version(1, 8, 1), [], into)
    text = (into / "google/realtime_api.py").read_bytes()
    body = text.partition(b"Generated, do not edit.\n")[2]
    changed = [
        (old, new)
        for old, new in zip(source.splitlines(), body.splitlines(), strict=True)
        if old != new
    ]
    assert [old for old, _ in changed] == [
        b"from ..log import logger",
        b"from ..tools import Tool",
        b"from .helpers import join",
    ]


def test_targets_and_patches_are_left_out_where_they_do_not_belong(checkout: Checkout) -> None:
    checkout.add_patch("google/sample", AFTER, **{"applies-to": ">=1.8.1"})
    patches = load_all(checkout.layout.patches)
    into = checkout.layout.root / "old"
    generated = generate(checkout.layout, Version(1, 8, 0), patches, into)
    assert generated.patches == ()
    assert not (into / "openai").exists()


def test_our_version_follows_the_lock(checkout: Checkout) -> None:
    checkout.write(
        "livekit-plugins-resilient/pyproject.toml",
        '[project]\nname = "livekit-plugins-resilient"\nversion = "1.8.0.4"\n',
    )
    with pytest.raises(InvalidConfig, match=r"1\.8\.0\.4 must be the locked upstream version"):
        ensure(checkout.layout)


@pytest.mark.parametrize("name", ["upstream.lock", "targets.toml"])
def test_a_missing_lock_or_map_is_said_so(checkout: Checkout, name: str) -> None:
    (checkout.layout.root / "vendor" / name).unlink()
    with pytest.raises(InvalidConfig, match=rf"vendor/{name} cannot be read.*No such file"):
        ensure(checkout.layout)


def test_a_version_outside_the_range_is_refused_before_it_is_fetched(unfetched: Checkout) -> None:
    unfetched.write("vendor/upstream.lock", "".join(unfetched.release("1.9.0")))
    with pytest.raises(UnsupportedVersion, match="outside the supported range"):
        ensure(unfetched.layout)
    assert not (unfetched.layout.pristine / "1.9.0").exists()
