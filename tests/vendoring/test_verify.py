"""The verdicts, on a made-up checkout with real probe processes."""

from __future__ import annotations

import socket
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vendoring import cli, probes
from vendoring.anchors import read_anchors, write_anchors
from vendoring.check import IMPORTS, MODULES, Inventory, check_version
from vendoring.environments import environment_for
from vendoring.errors import ProbesNotRunnable
from vendoring.layout import Layout
from vendoring.locks import locked_version
from vendoring.verify import verify
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

LOCKED = Version(1, 8, 1)
ARGUMENT = """
[[edit]]
op = "set-kwarg"
in = "Session._run"
at = { call = "self._dial" }
name = "first"
value = "True"
"""
LOOSE = """
[[edit]]
op = "insert-after"
in = "Session._run"
at = { call = "self.tell" }
code = "pass"
"""
GONE = """
[[edit]]
op = "insert-first"
in = "Session.gone"
code = "pass"
"""
CONDITION = """
[[edit]]
op = "replace-expr"
in = "Session._dial"
at = { expr = "not first" }
code = "ours"
"""
NOTHING = """
[[edit]]
op = "insert-first"
in = "Session.tell"
code = "pass"
"""
SAME = """
[[edit]]
op = "set-kwarg"
in = "Session._run"
at = { call = "self.tell", kw = { again = "True" } }
name = "again"
value = "True"
"""


@pytest.fixture
def here(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The made-up checkout, which the command line takes for its own."""
    monkeypatch.setattr(Layout, "here", classmethod(lambda cls: checkout.layout))
    return checkout


def statuses(checkout: Checkout, version: Version = LOCKED) -> dict[str, str]:
    inventory = Inventory.load(checkout.layout)
    return {f.id: f.status for f in check_version(checkout.layout, inventory, version)}


def test_static_verdicts(checkout: Checkout) -> None:
    checkout.add_patch("google/argument", ARGUMENT)
    checkout.add_patch("google/loose", LOOSE)
    checkout.add_patch("google/gone", GONE)
    checkout.add_patch("google/same", SAME)
    checkout.add_patch("google/newer", ARGUMENT, **{"applies-to": ">=1.8.5"})
    assert statuses(checkout) == {
        "google/argument": "DRIFT",
        "google/loose": "AMBIGUOUS",
        "google/gone": "NOT-FOUND",
        "google/same": "OBSOLETE",
        "google/newer": "-",
    }


def test_a_patch_whose_requirement_failed_is_refused(checkout: Checkout) -> None:
    checkout.add_patch("google/gone", GONE)
    checkout.add_patch("google/after", ARGUMENT)
    path = checkout.layout.patches / "google" / "after.toml"
    path.write_text('requires = ["google/gone"]\n' + path.read_text())
    inventory = Inventory.load(checkout.layout)
    found = {f.id: f for f in check_version(checkout.layout, inventory, LOCKED)}
    assert found["google/after"].status == "REFUSED"
    assert "requires google/gone, which is not applied here" in found["google/after"].detail


def test_a_patch_is_judged_on_top_of_those_before_it(checkout: Checkout) -> None:
    checkout.add_patch("google/first", CONDITION)
    checkout.add_patch("google/second", CONDITION)
    assert statuses(checkout) == {"google/first": "DRIFT", "google/second": "NOT-FOUND"}


def test_a_target_that_upstream_lacks_is_not_applicable(checkout: Checkout) -> None:
    checkout.add_patch("openai/early", '[[edit]]\nop = "insert-first"\nin = "run"\ncode = "x"\n')
    assert statuses(checkout)["openai/early"] == "DRIFT"
    assert statuses(checkout, Version(1, 8, 0))["openai/early"] == "-"


def test_a_module_that_upstream_moved_is_told_and_nothing_is_probed(checkout: Checkout) -> None:
    checkout.add_patch("google/argument", ARGUMENT)
    checkout.write(
        "vendor/targets.toml",
        checkout.layout.targets.read_text().replace("realtime.engine", "realtime.elsewhere"),
    )
    report = verify(checkout.layout, [LOCKED])
    assert {f.id: f.status for f in report.findings} == {
        "google/argument": "NOT-FOUND",
        MODULES: "NOT-FOUND",
    }
    assert all("realtime/elsewhere.py: say in targets.toml" in f.detail for f in report.findings)


def test_drift_is_ok_once_acknowledged_and_again_drift_after_a_change(here: Checkout) -> None:
    here.add_patch("google/argument", ARGUMENT)
    assert statuses(here) == {"google/argument": "DRIFT"}
    assert cli.main(["ack", "google/argument", "--note", "read it"]) == 0
    assert statuses(here) == {"google/argument": "OK"}
    (anchor,) = read_anchors(here.layout.anchors)
    assert (anchor.id, anchor.scope, anchor.version, anchor.note) == (
        "google/argument",
        "Session._run",
        "1.8.1",
        "read it",
    )
    engine_text = (
        here.layout.pristine / "1.8.1/livekit/plugins/google/realtime/engine.py"
    ).read_text()
    changed = engine_text.replace("attempts < 3", "attempts < 4")
    here.write("vendor/upstream.lock", "".join(here.release("1.8.1", engine=changed)))
    assert statuses(here) == {"google/argument": "DRIFT"}


def test_ack_forgets_reviews_of_what_is_gone(here: Checkout) -> None:
    here.add_patch("google/argument", ARGUMENT)
    cli.main(["ack", "google/argument", "--note", "read it"])
    (anchor,) = read_anchors(here.layout.anchors)
    write_anchors(here.layout.anchors, [anchor, replace(anchor, scope="Session.old")])
    assert not verify(here.layout, [LOCKED], probes=False).passed
    cli.main(["ack", "google/argument", "--note", "read it"])
    assert verify(here.layout, [LOCKED], probes=False).passed


def test_overrides_are_checked_like_patches(here: Checkout) -> None:
    here.write(
        "patches/google/overrides.toml",
        """\
        [[override]]
        target = "google-realtime"
        class = "Session"
        method = "tell"
        signature = "(self, error, again)"
        why = "Made up."
        last-update = 2026-11-29
        """,
    )
    assert statuses(here) == {"google/Session.tell": "DRIFT"}
    assert cli.main(["ack", "google/Session.tell", "--note", "read it"]) == 0
    assert statuses(here) == {"google/Session.tell": "OK"}


def test_a_patch_that_quotes_upstream_is_a_leak(here: Checkout, source: bytes) -> None:
    here.add_patch("google/argument", ARGUMENT)
    cli.main(["ack", "google/argument", "--note", "read it"])
    lines = source.decode().splitlines()
    start = next(i for i, line in enumerate(lines) if "async def _run" in line)
    quoted = "".join(f"# {line}\n" for line in lines[start : start + 8])
    path = here.layout.patches / "google" / "argument.toml"
    path.write_text(quoted + path.read_text())
    report = verify(here.layout, [LOCKED], probes=False)
    assert [f.status for f in report.findings] == ["LEAK"]
    assert not report.passed


# -- probes


def add_probe(checkout: Checkout, name: str, body: str) -> None:
    folder, _, stem = name.partition("/")
    text = textwrap.dedent(body)
    checkout.write(f"tests/probes/{folder}/test_{stem.replace('-', '_')}.py", text)


ASKS_FOR_PATCH = """
    from pathlib import Path
    import livekit.plugins.resilient._vendor.google as vendored

    def test_patched():
        text = (Path(vendored.__file__).parent / "realtime_api.py").read_text()
        assert "first=True" in text
"""


PROBES = {
    "google/good": (ASKS_FOR_PATCH, "OK"),
    "google/always": ("def test_always(): pass\n", "OBSOLETE"),
    "google/never": ("def test_never(): assert False\n", "INEFFECTIVE"),
    # Its probe finds what the patch before it did.
    "google/rides-along": (ASKS_FOR_PATCH + "\n    def test_other(): pass\n", "REDUNDANT"),
    "google/not-importable": ("import nothing_like_this\n", "INVALID"),
    "google/empty": ("def not_a_test(): pass\n", "INVALID"),
    "google/no-set-up": (
        """
        import pytest
        @pytest.fixture
        def broken(): raise OSError
        def test_set_up(broken): pass
        """,
        "INVALID",
    ),
    "google/skipped": (
        """
        import pytest
        @pytest.mark.skip
        def test_skipped(): pass
        """,
        "INVALID",
    ),
    "google/missing": (None, "INVALID"),
}


def test_a_probe_must_fail_bare_and_pass_patched(here: Checkout) -> None:
    """All kinds of probes in one run: none may spoil the verdict on another."""
    here.add_patch("google/good", ARGUMENT)
    for name in list(PROBES)[1:]:
        here.add_patch(name, NOTHING)
    cli.main(["ack", *PROBES, "--note", "read it"])
    for name, (probe, _) in PROBES.items():
        if probe is not None:
            add_probe(here, name, probe)
    report = verify(here.layout, [LOCKED])
    expected = {name: status for name, (_, status) in PROBES.items()}
    assert {f.id: f.status for f in report.findings} == {**expected, IMPORTS: "OK"}
    assert not report.passed


def test_another_copy_of_the_package_in_front_is_noticed(here: Checkout) -> None:
    """A probe that imports something else than the chosen tree would prove nothing."""
    overlay = probes.build_overlay(here.layout, LOCKED, [], here.layout.cache / "bare")
    environment = environment_for(here.layout, LOCKED)
    elsewhere = here.layout.root / "elsewhere"
    overlay.rename(elsewhere)
    overlay.mkdir()
    refused = pytest.raises(ProbesNotRunnable, match="hides the one that is to be probed")
    with probes.forks_in(environment) as forks, refused:
        probes.run_probes(here.layout, forks, LOCKED, overlay, [])


def test_another_release_in_front_is_noticed(here: Checkout) -> None:
    overlay = probes.build_overlay(here.layout, LOCKED, [], here.layout.cache / "bare")
    environment = replace(environment_for(here.layout, LOCKED), path=())
    refused = pytest.raises(ProbesNotRunnable, match=r"another upstream release hides 1\.8\.1")
    with probes.forks_in(environment) as forks, refused:
        probes.run_probes(here.layout, forks, LOCKED, overlay, [])


# -- the command line


def test_the_table_has_a_row_a_patch_and_a_column_a_version(
    here: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    here.add_patch("google/argument", ARGUMENT)
    here.add_patch("google/gone", GONE)
    assert cli.main(["verify", "--static"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["1.8.0", "1.8.1*"]
    assert lines[1].split() == ["google/argument", "DRIFT", "DRIFT"]
    assert lines[2].split() == ["google/gone", "NOT-FOUND", "NOT-FOUND"]
    assert [
        line.split(":")[:2] for line in lines if line.startswith("google/") and ":" in line
    ] == [
        ["google/argument on 1.8.1", " DRIFT"],
        ["google/gone on 1.8.1", " NOT-FOUND"],
    ]
    assert lines[-1] == "    1.8.0: NOT-FOUND: google/gone"


def test_only_the_locked_version_decides(here: Checkout) -> None:
    here.add_patch("google/argument", ARGUMENT)
    cli.main(["ack", "google/argument", "--note", "read it"])
    old = here.release("1.8.0", engine="class Session: ...\n")
    here.write("vendor/range.lock", "".join(old))
    assert cli.main(["verify", "--static"]) == 0
    assert cli.main(["verify", "--static", "--locked"]) == 0
    assert cli.main(["verify", "--static", "1.8.0"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["verify", "1.8.7"], 2, "upstream 1.8.7 is in no lock file"),
        (["verify", "newest"], 2, "'newest' is not of the form X.Y.Z"),
        (["fetch", "1.8.7"], 2, "upstream 1.8.7 is in no lock file"),
        (
            ["show", "google/nothing"],
            2,
            "there is no patch 'google/nothing' (known: google/sample)",
        ),
        (["ack", "google/nothing", "--note", "x"], 2, "is no patch, override or private name"),
        (["show", "google/gone"], 2, "there is no patch"),
        (["verify", "--static", "--json", "no/such/folder/x.json"], 2, "its folder must exist"),
        (["verify", "1.9.0"], 2, "upstream 1.9.0 is outside the supported range"),
        (["verify", "--locked", "1.8.0"], 2, "either --locked or versions"),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(
    here: Checkout,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    here.add_patch("google/sample", ARGUMENT)
    assert cli.main(arguments) == code
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert says in error


def test_an_index_that_cannot_be_asked_is_exit_code_2(
    here: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        assert cli.main(["verify"]) == 2
    assert "the package index could not be reached" in capsys.readouterr().err
    assert not here.layout.seen_lock.exists()


def test_a_release_that_cannot_be_fetched_is_exit_code_2(
    unfetched: Checkout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Layout, "here", classmethod(lambda cls: unfetched.layout))
    for wheel in unfetched.index.glob("*1.8.0*"):
        wheel.unlink()
    assert cli.main(["verify", "--static"]) == 2
    assert "pip could not download livekit-agents 1.8.0" in capsys.readouterr().err


def test_show_prints_what_a_patch_does_on_top_of_those_before_it(
    here: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    here.add_patch("google/before", ARGUMENT)
    here.add_patch(
        "google/sample",
        '[[edit]]\nop = "insert-first"\nin = "Session.tell"\ncode = "ours()"\n',
    )
    assert cli.main(["show", "google/sample"]) == 0
    added = [line for line in capsys.readouterr().out.splitlines() if line.startswith("+")]
    assert "+        ours()" in added
    assert not any("first=True" in line for line in added)


def test_the_real_patches_apply_to_the_locked_version() -> None:
    """The quick half of scripts/verify.sh; the probes and the other versions are run there."""
    layout = Layout.here()
    inventory = Inventory.load(layout)
    findings = check_version(layout, inventory, locked_version(layout))
    assert inventory.patches
    assert [f for f in findings if f.status not in ("OK", "DRIFT", "-")] == []


def test_no_patch_is_for_other_releases_than_the_one_that_is_shipped() -> None:
    layout = Layout.here()
    locked = locked_version(layout)
    assert [p.id for p in Inventory.load(layout).patches if locked not in p.applies_to] == []


def test_every_probe_belongs_to_a_patch_and_every_patch_has_one() -> None:
    layout = Layout.here()
    found = {
        p.relative_to(layout.root).as_posix() for p in layout.root.glob("tests/probes/*/test_*")
    }
    assert found == {p.probe for p in Inventory.load(layout).patches}
