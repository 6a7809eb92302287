from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vendoring.anchors import Anchor, is_reviewed, orphans, read_anchors, record, write_anchors
from vendoring.errors import InvalidConfig

ONE = Anchor("google/a", "C.f", "1.8.1", "aa", "2026-11-29", 'says "quoted" \\ é\nsecond line')
TWO = Anchor("google/a", "C.g", "1.8.1", "bb", "2026-11-29", "fine")


def test_what_is_written_is_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "anchors.lock"
    assert read_anchors(path) == []
    write_anchors(path, [TWO, ONE])
    assert read_anchors(path) == [ONE, TWO]


def test_a_review_counts_for_its_patch_and_scope_only() -> None:
    assert is_reviewed([ONE], "google/a", "C.f", "aa")
    assert not is_reviewed([ONE], "google/a", "C.f", "bb")
    assert not is_reviewed([ONE], "google/a", "C.g", "aa")
    assert not is_reviewed([ONE], "google/b", "C.f", "aa")


def test_a_new_review_replaces_that_of_the_same_version_only() -> None:
    same = replace(ONE, fingerprint="cc")
    newer = replace(ONE, fingerprint="dd", version="1.8.2")
    assert record([ONE, TWO], [same, newer]) == [same, newer, TWO]


def test_reviews_of_scopes_that_are_gone_are_found() -> None:
    assert orphans([ONE, TWO], {("google/a", "C.f")}) == [TWO]


@pytest.mark.parametrize("text", ["x = 1\n", "[anchor]\n", '[[anchor]]\nid = "a"\n', "[[anchor]\n"])
def test_a_malformed_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "anchors.lock"
    path.write_text(text)
    with pytest.raises(InvalidConfig, match=r"anchors\.lock"):
        read_anchors(path)
