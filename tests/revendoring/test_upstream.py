"""What differs between two upstream releases, on made-up folders."""

from __future__ import annotations

from pathlib import Path

from revendoring.upstream import lost_modules, requirement_changes
from vendoring.targets import Origin, Target, TargetMap
from vendoring.versions import Version, VersionRange

OLD, NEW = Version(1, 8, 1), Version(1, 8, 2)
EVERY = VersionRange.parse(">=1.8.0,<1.9")
ENGINE = "class Model: ...\nclass Session: ...\n"
TARGETS = TargetMap(
    EVERY,
    (
        Target(
            "google-realtime",
            "google/realtime_api.py",
            (Origin(EVERY, "livekit-plugins-google", "livekit.google.engine"),),
        ),
    ),
)


def folder(root: Path, **files: str) -> Path:
    """Files by dotted name."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def metadata(root: Path, dist: str, *requirements: str) -> None:
    path = root / f"{dist.replace('-', '_')}-1.8.1.dist-info" / "METADATA"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"Requires-Dist: {text}\n" for text in requirements)
    path.write_text(f"Name: {dist}\n{lines}\nbody\n")


def test_a_module_that_stayed_is_not_lost(tmp_path: Path) -> None:
    old = folder(tmp_path / "old", livekit__google__engine=ENGINE)
    new = folder(tmp_path / "new", livekit__google__engine="")
    assert lost_modules(old, new, TARGETS, OLD, NEW) == []


def test_a_module_that_moved_is_found_by_its_classes(tmp_path: Path) -> None:
    old = folder(tmp_path / "old", livekit__google__engine=ENGINE)
    new = folder(
        tmp_path / "new",
        livekit__agents__moved=f"X = 1\n{ENGINE}class More: ...\n",
        livekit__agents__other="class Session: ...\n",
        livekit__agents__broken="class (\n",
    )
    assert lost_modules(old, new, TARGETS, OLD, NEW) == [
        "vendor/targets.toml: upstream 1.8.2 has no livekit.google.engine for google-realtime; "
        "look at livekit.agents.moved"
    ]


def test_requirements_that_changed_are_told_and_those_of_extras_are_not(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    metadata(old, "livekit-agents", "httpx>=0.27", "gone", 'x>1; extra == "some"', "same~=1.0")
    metadata(new, "livekit-agents", "httpx>=0.28", "came<2", 'x>2; extra == "some"', "same~=1.0")
    metadata(old, "livekit-plugins-openai", "livekit-agents[codecs]>=1.8.1")
    metadata(new, "livekit-plugins-openai", "livekit-agents[codecs]>=1.8.2")
    assert requirement_changes(old, new) == [
        "livekit-agents now requires came<2",
        "livekit-agents no longer requires gone",
        "livekit-agents now requires httpx>=0.28 (was httpx>=0.27)",
    ]
