"""Private names of others: what counts as their meaning, and what verification says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vendoring import cli
from vendoring.anchors import read_anchors
from vendoring.check import Inventory, check_version, orphaned_anchors
from vendoring.errors import InvalidPatch, NotFound, NotInstalled
from vendoring.layout import Layout
from vendoring.relies import Relied, installed_source, load_all_relied, relied_nodes
from vendoring.source import Source, fingerprint
from vendoring.verify import verify
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

LOCKED, OLD = Version(1, 8, 1), Version(1, 8, 0)

SOURCE = '''
_LIMIT = 3

class Record:
    _done: bool = False

class Session:
    def __init__(self, opts):
        self._opts = opts
        self._busy, self._late = False, 0
        self._counts = [0]
        self._other = 1

    def _run(self):
        """Run."""
        self._busy = True

    @property
    def _line(self): return 1

    @_line.setter
    def _line(self, value): self._other = value

    def close(self, record):
        for self._late in range(3): print(1)
        record._done = True
        self._counts[0] += 1

class Unlike:
    def __init__(self):
        self._opts = None

def _helper(): return 1
'''


def meaning(name: str, text: str = SOURCE) -> str:
    return fingerprint(*relied_nodes(Source(text.encode(), "a.py"), name))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Session._run", "self._busy = True", "self._busy = None"),
        ("Session._opts", "self._opts = opts", "self._opts = dict(opts)"),
        ("Session._busy", "self._busy = True", "self._busy = None"),
        ("Session._busy", "def _run(self)", "def _begin(self)"),
        ("Session._late", "in range(3)", "in range(4)"),
        ("Session._counts", "self._counts[0] += 1", "self._counts[0] += 2"),
        ("Session._line", "(self): return 1", "(self): return 2"),
        ("Session._line", "self._other = value", "self._other = -value"),
        ("Record._done", "_done: bool = False", "_done: bool = True"),
        ("Record._done", "record._done = True", "record._done = None"),
        ("Session", "self._other = 1", "self._other = 2"),
        ("_helper", "_helper(): return 1", "_helper(): return 2"),
        ("_LIMIT", "_LIMIT = 3", "_LIMIT = 4"),
    ],
)
def test_a_change_of_meaning_is_seen(name: str, old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    assert meaning(name) != meaning(name, SOURCE.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Session._run", '"""Run."""', '"""Run on."""'),
        ("Session._opts", "self._opts = None", "self._opts = ()"),  # another class's
        ("Session._opts", "self._other = 1", "self._other = 2"),
        ("Session._late", "print(1)", "print(2)"),
        ("Session._counts", "record._done = True", "record._done = None"),
        ("Record._done", "self._counts = [0]", "self._counts = [1]"),
        ("_LIMIT", "_helper(): return 1", "_helper(): return 2"),
    ],
)
def test_other_changes_are_no_drift(name: str, old: str, new: str) -> None:
    assert SOURCE.count(old) == 1
    assert meaning(name) == meaning(name, SOURCE.replace(old, new))


@pytest.mark.parametrize("name", ["Session._gone", "Gone._opts", "_gone", "Record._counts"])
def test_a_name_that_is_gone_is_not_found(name: str) -> None:
    with pytest.raises(NotFound):
        meaning(name)


# -- declarations

ENTRY = """
[[relies-on]]
target = "google-realtime"
name = "Session._dial"
read-by = ["google/seed.py"]
why = "Made up."
last-update = 2026-11-30
"""
INSTALLED = """
[[relies-on]]
dist = "pytest"
module = "_pytest.recwarn"
name = "WarningsRecorder._list"
read-by = ["a.py"]
why = "Made up."
last-update = 2026-11-30
"""
CORE = INSTALLED.replace("pytest", "livekit-agents", 1).replace("_pytest.recwarn", "livekit.agents")


def declared(folder: Path, vendored: str = "", other: str = "") -> list[Relied]:
    (folder / "google").mkdir()
    (folder / "google" / "relies-on.toml").write_text(vendored)
    (folder / "relies-on.toml").write_text(other)
    return load_all_relied(folder)


def test_names_are_declared_beside_the_patches_of_their_target(tmp_path: Path) -> None:
    found = declared(tmp_path, ENTRY, INSTALLED + 'drop-when = "x"\n')
    assert [(r.id, r.scope, r.file) for r in found] == [
        ("google-realtime:Session._dial", "Session._dial", "google/relies-on.toml"),
        ("_pytest.recwarn:WarningsRecorder._list", "WarningsRecorder._list", "relies-on.toml"),
    ]


@pytest.mark.parametrize(
    ("vendored", "other", "says"),
    [
        (ENTRY.replace("why", "because"), "", "relies-on 1: unknown field 'because'"),
        (ENTRY.replace('why = "Made up."\n', ""), "", "field 'why' is missing"),
        (ENTRY.replace("google-realtime", "openai-realtime"), "", "must start with 'google-'"),
        (
            ENTRY.replace('["google/seed.py"]', '"google/seed.py"'),
            "",
            "must be a list of strings",
        ),
        (ENTRY + ENTRY, "", "google-realtime:Session._dial is declared twice"),
        (INSTALLED, "", "unknown field 'dist' .allowed: target"),
        ("", ENTRY, "unknown field 'target' .allowed: dist, module"),
        ("", INSTALLED.replace("module =", "drop-when ="), "field 'module' is missing"),
        ("[relies-on]\n", "", "relies-on must be a list of tables"),
    ],
)
def test_a_malformed_declaration_says_what_is_allowed(
    tmp_path: Path, vendored: str, other: str, says: str
) -> None:
    with pytest.raises(InvalidPatch, match=says):
        declared(tmp_path, vendored, other)


# -- verification


@pytest.fixture
def here(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The made-up checkout, which the command line takes for its own."""
    monkeypatch.setattr(Layout, "here", classmethod(lambda cls: checkout.layout))
    return checkout


def statuses(checkout: Checkout, version: Version = LOCKED) -> dict[str, str]:
    inventory = Inventory.load(checkout.layout)
    return {f.id: f.status for f in check_version(checkout.layout, inventory, version)}


def publish(checkout: Checkout, source: bytes, old: str, new: str) -> None:
    """Another 1.8.1."""
    engine = source.decode()
    assert old in engine
    lines = checkout.release("1.8.1", engine=engine.replace(old, new))
    checkout.write("vendor/upstream.lock", "".join(lines))


ID = "google-realtime:Session._dial"


def test_a_name_is_drift_until_it_is_reviewed_and_after_it_changed(
    here: Checkout, source: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    here.write("patches/google/relies-on.toml", ENTRY)
    assert statuses(here) == {ID: "DRIFT"}
    assert cli.main(["ack", ID, "--version", "1.8.0", "--note", "read it"]) == 0
    assert statuses(here) == {ID: "OK"}
    publish(here, source, "if not first", "if first")
    assert statuses(here) == {ID: "DRIFT"}
    capsys.readouterr()
    assert cli.main(["verify", "--static", "--locked"]) == 1
    told = capsys.readouterr().out
    assert f"{ID} on 1.8.1: DRIFT: not as last reviewed" in told
    assert "used by google/seed.py" in told
    assert cli.main(["ack", ID, "--note", "the other way round"]) == 0
    assert "+    if first:" in capsys.readouterr().out
    assert cli.main(["verify", "--static", "--locked"]) == 0


def test_a_name_that_upstream_gave_up_is_not_found(here: Checkout, source: bytes) -> None:
    here.write("patches/google/relies-on.toml", ENTRY)
    cli.main(["ack", ID, "--note", "read it"])
    publish(here, source, "_dial", "_connect")
    report = verify(here.layout, [LOCKED], probes=False)
    (problem,) = report.problems
    assert (problem.id, problem.status) == (ID, "NOT-FOUND")
    assert "used by google/seed.py" in problem.detail
    assert "declare what it uses now" in report.to_do(problem)


def test_a_module_that_a_release_does_not_have(here: Checkout) -> None:
    entry = ENTRY.replace("google-", "openai-").replace("google/", "openai/")
    here.write("patches/openai/relies-on.toml", entry)
    here.write("patches/relies-on.toml", CORE.replace("livekit.agents", "livekit.agents.gone"))
    assert statuses(here, OLD) == {
        "openai-realtime:Session._dial": "-",
        "livekit.agents.gone:WarningsRecorder._list": "NOT-FOUND",
    }


def test_the_review_of_a_name_that_is_declared_no_more_is_told(here: Checkout) -> None:
    path = here.write("patches/google/relies-on.toml", ENTRY)
    cli.main(["ack", ID, "--note", "read it"])
    assert orphaned_anchors(Inventory.load(here.layout), LOCKED) == []
    path.unlink()
    (finding,) = orphaned_anchors(Inventory.load(here.layout), LOCKED)
    assert (finding.id, finding.status) == (ID, "DRIFT")


def test_what_is_only_installed_is_looked_at_once_and_reviewed_by_its_own_version(
    here: Checkout,
) -> None:
    here.write("patches/relies-on.toml", INSTALLED)
    id_ = "_pytest.recwarn:WarningsRecorder._list"
    assert statuses(here) == {id_: "DRIFT"}
    assert statuses(here, OLD) == {}
    assert cli.main(["ack", id_, "--note", "read it"]) == 0
    assert statuses(here) == {id_: "OK"}
    (anchor,) = read_anchors(here.layout.anchors)
    assert anchor.version == pytest.__version__


def test_what_is_not_installed_cannot_be_verified(
    here: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    text = INSTALLED.replace('"pytest"', '"there-is-no-such"')
    here.write("patches/relies-on.toml", text)
    assert cli.main(["verify", "--static", "--locked"]) == 2
    assert "there-is-no-such is not installed" in capsys.readouterr().err
    with pytest.raises(NotInstalled):
        installed_source(load_all_relied(here.layout.patches)[0])


def test_the_names_of_one_module_share_a_row(here: Checkout, source: bytes) -> None:
    second = ENTRY.replace("_dial", "_run")
    here.write("patches/google/relies-on.toml", ENTRY + second)
    cli.main(["ack", ID, "google-realtime:Session._run", "--note", "read it"])
    publish(here, source, "attempts < 3", "attempts < 4")
    report = verify(here.layout, [LOCKED, OLD], probes=False)
    row = next(line for line in report.table().splitlines() if "private names" in line)
    assert re.split("  +", row) == ["google-realtime: private names (2)", "OK", "1 DRIFT"]
    names = {entry["id"]: entry for entry in json.loads(report.json())["relies_on"]}
    assert names[ID]["where"] == "google-realtime"
    assert names[ID]["results"]["1.8.1"]["status"] == "OK"
    assert names["google-realtime:Session._run"]["results"]["1.8.1"]["status"] == "DRIFT"


def test_a_declaration_that_quotes_upstream_is_a_leak(here: Checkout, source: bytes) -> None:
    path = here.write("patches/google/relies-on.toml", ENTRY)
    cli.main(["ack", ID, "--note", "read it"])
    lines = source.decode().splitlines()
    start = next(i for i, line in enumerate(lines) if "async def _run" in line)
    path.write_text("".join(f"# {line}\n" for line in lines[start : start + 8]) + ENTRY)
    report = verify(here.layout, [LOCKED], probes=False)
    assert [f.status for f in report.findings] == ["LEAK"]
