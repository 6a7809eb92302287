"""Every place that names the version: they agree here, and move together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from revendoring import changelog, places
from revendoring.errors import Misplaced
from revendoring.places import Release
from vendoring.errors import InvalidConfig
from vendoring.layout import Layout
from vendoring.locks import Pin, locked_pins
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.revendoring.conftest import Repository

NEW = Version(1, 8, 2)
RELEASED = "## [1.8.1.1] - 2026-12-01, built from livekit-agents 1.8.1"
UNRELEASED = "## [Unreleased] - 1.8.1.2, built from livekit-agents 1.8.1"


def test_all_places_of_this_checkout_agree() -> None:
    assert places.disagreements(Layout.here()) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("livekit-plugins-resilient/pyproject.toml", "1.8.1.1", "1.8.2.1", "does not begin with"),
        ("livekit-plugins-resilient/pyproject.toml", "<1.9", "<1.10", "dependencies lack"),
        ("livekit-plugins-resilient/pyproject.toml", "-xai>=", "-xia>=", "the extra xai lack"),
        (
            "livekit-plugins-resilient/livekit/plugins/resilient/version.py",
            "1.8.1.1",
            "1.8.1.2",
            "version.py: __version__ is not 1.8.1.1",
        ),
        ("README.md", "| 1.8.1.1 | 1.8.1", "| 1.8.1.1 | 1.8.0", "README.md: the first row"),
        ("CHANGELOG.md", "1.8.1.1", "1.8.1.2", "CHANGELOG.md: the newest section is of 1.8.1.2"),
    ],
)
def test_a_place_that_disagrees_is_named(
    repository: Repository, name: str, old: str, new: str, words: str
) -> None:
    text = repository.text(name)
    assert old in text
    repository.made.write(name, text.replace(old, new))
    assert any(words in line for line in places.disagreements(repository.layout))


def test_all_places_move_together(repository: Repository) -> None:
    layout = repository.layout
    pins = [Pin(p.dist, NEW, p.sha256[::-1]) for p in locked_pins(layout)]
    places.move(layout, pins, Release(NEW, 1))
    places.write_changelog(layout, Release(NEW, 1), "- Moved.")
    assert places.disagreements(layout) == []
    assert list(locked_pins(layout)) == sorted(pins)


def test_rows_of_releases_that_came_out_are_kept(repository: Repository) -> None:
    layout = repository.layout
    text = repository.text("CHANGELOG.md")
    repository.made.write(
        "CHANGELOG.md", text.replace("[Unreleased] - 1.8.1.1", "[1.8.1.1] - 2026-12-01")
    )
    pins = [Pin(p.dist, NEW, p.sha256) for p in locked_pins(layout)]
    places.move(layout, pins, Release(NEW, 1))
    readme = repository.text("README.md").splitlines()
    (first,) = [i for i, line in enumerate(readme) if line.startswith("| 1.8.2.1 |")]
    assert readme[first + 1].startswith("| 1.8.1.1 |")


def test_moving_there_and_back_changes_only_the_changelog(repository: Repository) -> None:
    layout = repository.layout
    old = locked_pins(layout)
    places.move(layout, [Pin(p.dist, NEW, p.sha256[::-1]) for p in old], Release(NEW, 1))
    places.write_changelog(layout, Release(NEW, 1), "- Moved.")
    places.move(layout, old, Release(old[0].version, 1))
    places.write_changelog(layout, Release(old[0].version, 1), "- Back.")
    # The lock files' comments are written anew, and the made-up ones have none.
    changed = set(repository.git("diff", "--name-only").split())
    assert changed <= {"CHANGELOG.md", "vendor/range.lock", "vendor/upstream.lock"}


@pytest.mark.parametrize("text", ["1.8.9", "1.8.9.0", "1.8.9.x", "1.8.9.1.2", ""])
def test_what_is_no_version_of_ours_is_refused(text: str) -> None:
    with pytest.raises(Misplaced, match="no version of ours"):
        Release.parse(text)


def test_supported_pythons_come_from_the_metadata() -> None:
    assert places.supported_pythons(">=3.10,<3.14") == ["3.10", "3.11", "3.12", "3.13"]
    with pytest.raises(InvalidConfig, match="requires-python"):
        places.supported_pythons(">=3.10")


# -- the change log


def test_an_unreleased_section_is_renamed_and_keeps_what_it_lists() -> None:
    text = f"# Log\n\n{UNRELEASED}\n\n### Added\n\n- All.\n\n{RELEASED}\n\n- First.\n"
    once = changelog.moved(text, "1.8.2.1", "1.8.2", "- Moved.")
    twice = changelog.moved(once, "1.8.3.1", "1.8.3", "- Moved again.")
    assert twice == (
        "# Log\n\n## [Unreleased] - 1.8.3.1, built from livekit-agents 1.8.3\n\n"
        "### Upstream\n\n- Moved again.\n\n### Added\n\n- All.\n\n" + f"{RELEASED}\n\n- First.\n"
    )


def test_a_released_section_is_left_alone() -> None:
    text = f"# Log\n\n{RELEASED}\n\n- First.\n"
    assert changelog.moved(text, "1.8.2.1", "1.8.2", "- Moved.") == (
        "# Log\n\n## [Unreleased] - 1.8.2.1, built from livekit-agents 1.8.2\n\n"
        "### Upstream\n\n- Moved.\n\n" + f"{RELEASED}\n\n- First.\n"
    )


@pytest.mark.parametrize(
    "heading", ["## 1.8.9.1", "## [1.8.9.1] - soon, built from livekit-agents 1.8.9"]
)
def test_a_heading_of_another_form_is_named(heading: str) -> None:
    with pytest.raises(Misplaced, match=r"CHANGELOG\.md line 3: expected"):
        changelog.sections(f"# Log\n\n{heading}\n")
