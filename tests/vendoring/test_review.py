"""What `ack` shows and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vendoring import cli
from vendoring.anchors import read_anchors
from vendoring.check import Inventory
from vendoring.errors import NotFound
from vendoring.layout import Layout
from vendoring.review import review
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

OLD, LOCKED = Version(1, 8, 0), Version(1, 8, 1)
ID = "google/argument"
PATCH = """
[[edit]]
op = "set-kwarg"
in = "Session._run"
at = { call = "self._dial" }
name = "first"
value = "True"
"""


@pytest.fixture
def here(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setattr(Layout, "here", classmethod(lambda cls: checkout.layout))
    checkout.add_patch(ID, PATCH)
    return checkout


def change(checkout: Checkout, old: str, new: str, source: bytes) -> None:
    """Publish another 1.8.1."""
    engine = source.decode()
    assert old in engine
    lines = checkout.release("1.8.1", engine=engine.replace(old, new))
    checkout.write("vendor/upstream.lock", "".join(lines))


def changed_lines(checkout: Checkout, id_: str = ID) -> list[str]:
    inventory = Inventory.load(checkout.layout)
    (found,) = review(checkout.layout, inventory, id_, LOCKED)
    return [
        line
        for line in found.difference
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]


def test_the_difference_is_to_the_review_of_an_older_release(here: Checkout, source: bytes) -> None:
    cli.main(["ack", ID, "--version", "1.8.0", "--note", "read it"])
    change(here, "attempts < 3", "attempts < 4", source)
    assert changed_lines(here) == ["-    while attempts < 3:", "+    while attempts < 4:"]


def test_layout_comments_and_docstrings_are_no_difference(here: Checkout, source: bytes) -> None:
    cli.main(["ack", ID, "--version", "1.8.0", "--note", "read it"])
    change(
        here,
        "        attempts = 0\n        while attempts < 3:",
        '        """Told."""\n        attempts = (\n 0)  # none\n        while attempts < 4:',
        source,
    )
    assert changed_lines(here) == ["-    while attempts < 3:", "+    while attempts < 4:"]


def test_without_a_note_the_difference_is_shown_and_nothing_recorded(
    here: Checkout, source: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["ack", ID, "--version", "1.8.0", "--note", "read it"])
    change(here, "attempts < 3", "attempts < 4", source)
    before = here.layout.anchors.read_text()
    for arguments in (["ack", ID], ["ack", ID, "--note", " "]):
        capsys.readouterr()
        assert cli.main(arguments) == 1
        out = capsys.readouterr().out
        assert "reviewed on 1.8.0" in out
        assert '"read it"' in out
        assert "+    while attempts < 4:" in out
        assert "Nothing is recorded" in out
        assert here.layout.anchors.read_text() == before


def test_a_note_records_the_review_and_keeps_the_older_one(here: Checkout, source: bytes) -> None:
    cli.main(["ack", ID, "--version", "1.8.0", "--note", "read it"])
    change(here, "attempts < 3", "attempts < 4", source)
    assert cli.main(["ack", ID, "--note", "one attempt more"]) == 0
    anchors = read_anchors(here.layout.anchors)
    assert [(a.version, a.note) for a in anchors] == [
        ("1.8.0", "read it"),
        ("1.8.1", "one attempt more"),
    ]
    assert cli.main(["ack", ID]) == 0
    assert "while" not in here.layout.anchors.read_text()


def test_one_unknown_id_keeps_all_from_being_recorded(here: Checkout) -> None:
    assert cli.main(["ack", ID, "google/nothing", "--note", "read it"]) == 2
    assert not here.layout.anchors.exists()


def test_a_scope_that_is_gone_cannot_be_reviewed(here: Checkout, source: bytes) -> None:
    change(here, "def _run", "def _started", source)
    with pytest.raises(NotFound):
        review(here.layout, Inventory.load(here.layout), ID, LOCKED)


def test_an_override_is_compared_though_its_parameters_changed(
    here: Checkout, source: bytes
) -> None:
    override = """\
        [[override]]
        target = "google-realtime"
        class = "Session"
        method = "tell"
        signature = "(self, error, {parameter})"
        why = "Made up."
        last-update = 2026-11-29
        """
    place = "patches/google/overrides.toml"
    here.write(place, override.format(parameter="again"))
    cli.main(["ack", "google/Session.tell", "--version", "1.8.0", "--note", "read it"])
    change(here, "error: Exception, again: bool", "error: Exception, more: bool", source)
    here.write(place, override.format(parameter="more"))
    assert changed_lines(here, "google/Session.tell") == [
        "-def tell(self, error: Exception, again: bool) -> None:",
        "+def tell(self, error: Exception, more: bool) -> None:",
    ]


def test_a_source_other_than_the_one_reviewed_is_not_shown_as_it(
    here: Checkout, source: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["ack", ID, "--note", "read it"])
    change(here, "attempts < 3", "attempts < 4", source)
    capsys.readouterr()
    assert cli.main(["ack", ID]) == 1
    assert "the source of that review cannot be had" in capsys.readouterr().out
