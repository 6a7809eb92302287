"""What the index offers: pip is pointed at a folder of made-up wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vendoring.errors import HashMismatch, UnsupportedVersion
from vendoring.fetch import pristine
from vendoring.index import ensure_pins, offered
from vendoring.locks import pins_for
from vendoring.verify import versions_to_check
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

NEW = Version(1, 8, 2)


def test_releases_are_those_of_all_distributions(checkout: Checkout) -> None:
    checkout.release("1.8.2")
    checkout.release("1.8.3")
    (checkout.index / "livekit_plugins_google-1.8.3-py3-none-any.whl").unlink()
    checkout.release("1.9.0b1")
    assert list(map(str, offered())) == ["1.8.0", "1.8.1", "1.8.2"]
    assert list(map(str, offered(pre=True))) == ["1.8.0", "1.8.1", "1.8.2", "1.9.0b1"]


def test_by_default_every_release_in_the_range_is_checked_and_newer_ones_are_named(
    checkout: Checkout,
) -> None:
    for version in ("1.7.9", "1.8.2", "1.9.0"):
        checkout.release(version)
    inside, outside = versions_to_check(checkout.layout, ask_index=True)
    assert list(map(str, inside)) == ["1.8.0", "1.8.1", "1.8.2"]
    assert list(map(str, outside)) == ["1.9.0"]
    inside, outside = versions_to_check(checkout.layout, ask_index=False)
    assert list(map(str, inside)) == ["1.8.0", "1.8.1"]
    assert outside == []


def test_a_release_in_no_lock_file_is_pinned_as_first_seen(unfetched: Checkout) -> None:
    lines = unfetched.release("1.8.2")
    ensure_pins(unfetched.layout, NEW)
    assert sorted(f"{p.requirement()}\n" for p in pins_for(unfetched.layout, NEW)) == sorted(lines)
    assert unfetched.layout.seen_lock.is_relative_to(unfetched.layout.cache)
    unfetched.release("1.8.2", engine="CHANGED = 1\n")
    ensure_pins(unfetched.layout, NEW)
    with pytest.raises(HashMismatch):
        pristine(unfetched.layout, NEW)


def test_a_release_that_is_nowhere_is_said_so(unfetched: Checkout) -> None:
    with pytest.raises(
        UnsupportedVersion, match=r"1\.8\.2 is in no lock file \(.*\) and not on the index"
    ):
        ensure_pins(unfetched.layout, NEW)
    assert not unfetched.layout.seen_lock.exists()
