from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from vendoring.errors import InvalidConfig, UnsupportedVersion
from vendoring.layout import Layout
from vendoring.locks import DISTRIBUTIONS, known_versions, locked_version, pins_for, read_lock
from vendoring.targets import load_targets
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout


def test_every_known_release_is_pinned_whole_and_in_range() -> None:
    """The real lock files: a hash of each distribution a version, none twice, none out of range."""
    layout = Layout.here()
    supported = load_targets(layout.targets).supported
    pins = [p for v in known_versions(layout) for p in pins_for(layout, v)]
    assert len(pins) == len(DISTRIBUTIONS) * len(known_versions(layout))
    assert len({p.sha256 for p in pins}) == len(pins)
    assert all(p.version in supported for p in pins)
    assert locked_version(layout) not in {p.version for p in read_lock(layout.range_lock)}


def test_every_real_target_has_one_origin_a_version_and_its_own_place() -> None:
    layout = Layout.here()
    targets = load_targets(layout.targets)
    for version in known_versions(layout):
        origins = [origin for _, origin in targets.present(version)]
        assert len({o.module for o in origins}) == len(origins)
    moved = targets.get("openai-realtime")
    before, after = moved.origin(Version(1, 8, 2)), moved.origin(Version(1, 8, 3))
    assert before is not None
    assert after is not None
    assert (before.dist, after.dist) == ("livekit-plugins-openai", "livekit-agents")
    assert targets.get("inference-realtime").origin(Version(1, 8, 2)) is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("livekit-agents==1.8.1", "line 1: expected one of livekit-agents"),
        ("livekit-agents==1.8.1 --hash=sha256:00", "line 1: expected"),
        (f"other==1.8.1 --hash=sha256:{'0' * 64}", "line 1: expected"),
        (f"livekit-agents==1.8.1 --hash=sha256:{'0' * 64}", "each of .* exactly once"),
    ],
)
def test_a_malformed_lock_says_which_line(checkout: Checkout, line: str, says: str) -> None:
    checkout.write("vendor/upstream.lock", line + "\n")
    with pytest.raises(InvalidConfig, match=says):
        locked_version(checkout.layout)


def test_the_locked_release_has_one_version(checkout: Checkout) -> None:
    text = checkout.layout.lock.read_text().replace("openai==1.8.1", "openai==1.8.0")
    checkout.write("vendor/upstream.lock", text)
    with pytest.raises(InvalidConfig, match="all pins must have the same version"):
        locked_version(checkout.layout)


def test_an_unknown_version_says_what_is_known(checkout: Checkout) -> None:
    with pytest.raises(
        UnsupportedVersion, match=r"1\.8\.7 is in no .* \(known: 1\.8\.0 to 1\.8\.1\)"
    ):
        pins_for(checkout.layout, Version(1, 8, 7))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.replace("google/log.py", "google/helpers.py"), "the same path"),
        (lambda t: t.replace('"google-log"', '"google-helpers"'), "the same name"),
        (lambda t: t.replace("google/log.py", "log.py"), "must be FOLDER/FILE.py"),
        (
            lambda t: t.replace('dist = "livekit-agents"', 'dist = "agents"'),
            "allowed: livekit-agents",
        ),
        (lambda t: t.replace("supported", "range"), "the file must have exactly supported, target"),
        (lambda t: t + "x = 1\n", "must have exactly versions, dist, module"),
    ],
)
def test_a_malformed_target_map_says_what_is_allowed(
    checkout: Checkout, change: Callable[[str], str], says: str
) -> None:
    checkout.write("vendor/targets.toml", change(checkout.layout.targets.read_text()))
    with pytest.raises(InvalidConfig, match=says):
        load_targets(checkout.layout.targets)


def test_a_version_outside_the_range_is_unsupported(checkout: Checkout) -> None:
    with pytest.raises(UnsupportedVersion, match=r"1\.9\.0 is outside the supported range"):
        load_targets(checkout.layout.targets).present(Version(1, 9, 0))
