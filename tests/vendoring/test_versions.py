from __future__ import annotations

from itertools import pairwise

import pytest

from vendoring.errors import UnsupportedVersion
from vendoring.versions import Version, VersionRange


def test_versions_order_by_number_not_by_text() -> None:
    assert Version.parse("1.8.10") > Version.parse("1.8.9") > Version.parse("1.8")
    assert str(Version.parse("1.9")) == "1.9.0"


def test_pre_releases_come_before_their_release_in_the_order_of_their_stages() -> None:
    texts = ["1.8.9", "1.9.0.dev2", "1.9.0a1", "1.9.0b1", "1.9.0b2", "1.9.0rc1", "1.9.0"]
    versions = [Version.parse(text) for text in texts]
    assert all(earlier < later for earlier, later in pairwise(versions))
    assert [str(v) for v in versions] == texts
    assert [v.is_pre for v in versions] == [False, True, True, True, True, True, False]


@pytest.mark.parametrize("text", ["", "1", "1.8.9x1", "1.8.9rc", "1.8.9.1", "v1.8.9", "1.8.²"])
def test_anything_but_a_version_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedVersion, match=r"X\.Y\.Z"):
        Version.parse(text)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.8.0,<1.9", "1.8.9", "1.9.0"),
        (">1.8.0", "1.8.1", "1.8.0"),
        ("<=1.8.3", "1.8.3", "1.8.4"),
        ("==1.8.3", "1.8.3", "1.8.2"),
        ("!=1.8.3", "1.8.2", "1.8.3"),
        (" >= 1.8.0 , != 1.8.1 ", "1.8.2", "1.8.1"),
    ],
)
def test_a_range_is_the_conjunction_of_its_clauses(text: str, inside: str, outside: str) -> None:
    versions = VersionRange.parse(text)
    assert Version.parse(inside) in versions
    assert Version.parse(outside) not in versions


@pytest.mark.parametrize("text", ["", "1.8.0", "~=1.8.0", ">=1.8.0,", ">=1.x"])
def test_a_malformed_range_names_what_is_allowed(text: str) -> None:
    with pytest.raises(UnsupportedVersion, match=r">=|X\.Y\.Z"):
        VersionRange.parse(text)
