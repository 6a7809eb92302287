"""A move on a made-up repository: git, pip, mypy and pytest are real, upstream is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from revendoring import cli, places
from revendoring.checkout import Checkout
from revendoring.errors import BranchExists, DirtyTree, GitFailed, NoCheckout
from revendoring.outcome import Outcome
from revendoring.revendor import Wish, revendor
from tests.vendoring.conftest import ENGINE
from vendoring.errors import IndexUnreachable, UnsupportedVersion, VendoringError
from vendoring.layout import Layout
from vendoring.locks import known_versions, locked_pins, locked_version
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.revendoring.conftest import Repository

NEW = Version(1, 8, 2)
CHANGED = ENGINE.replace("attempts < 3", "attempts < 4")
OVERRIDE = """
[[override]]
target = "google-realtime"
class = "Session"
method = "{method}"
signature = "{signature}"
why = "Made up."
last-update = 2026-11-29
"""
STRAY_FILE = "stray.txt"


def moved(repository: Repository, version: Version | None = NEW, *, keep: bool = True) -> Outcome:
    return revendor(repository.layout, Wish(version, keep=keep))


def override(repository: Repository, method: str, signature: str) -> None:
    """Declare an override and record that it was reviewed."""
    repository.made.write(
        "patches/google/overrides.toml", OVERRIDE.format(method=method, signature=signature)
    )
    repository.made.write("patches/google/series", "")
    run = [sys.executable, "-m", "vendoring", "ack", f"google/Session.{method}", "--note", "ok"]
    environment = {**os.environ, "PYTHONPATH": str(repository.layout.root / "scripts")}
    subprocess.run(run, cwd=repository.layout.root, env=environment, check=True)
    repository.commit()


@pytest.mark.usefixtures("own_environment")
def test_a_release_that_changes_nothing_needs_nobody(repository: Repository) -> None:
    lines = repository.made.release("1.8.2")
    before = locked_pins(repository.layout)
    outcome = moved(repository)
    assert outcome.exit_code == 0, outcome.text()
    assert repository.git("branch", "--show-current") == "revendor-1.8.2"
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("rev-list", "--count", "main..HEAD") == "1"
    assert len(repository.git("worktree", "list").splitlines()) == 1
    assert locked_version(repository.layout) == NEW
    assert set(lines) <= set(repository.text("vendor/upstream.lock").splitlines(keepends=True))
    assert {p.version for p in before} < set(known_versions(repository.layout))
    assert places.disagreements(repository.layout) == []
    assert '"livekit-plugins-google>=1.8.2,<1.9"' in repository.text(
        "livekit-plugins-resilient/pyproject.toml"
    )
    assert "built from livekit-agents 1.8.2." in repository.text("README.md")
    assert "1 passed" in outcome.text()


@pytest.mark.usefixtures("patches_only")
def test_a_changed_method_that_we_override_is_told_with_what_to_do(repository: Repository) -> None:
    override(repository, "_run", "(self)")
    repository.made.release("1.8.2", engine=CHANGED)
    outcome = moved(repository)
    assert outcome.exit_code == 1
    (need,) = outcome.needs
    assert need.what.startswith("google/Session._run on 1.8.2: DRIFT")
    assert "--ack google/Session._run" in need.how
    assert "| google/Session._run | OK | DRIFT |" in repository.text("CHANGELOG.md")


@pytest.mark.usefixtures("patches_only")
def test_a_patch_that_fits_no_more_is_told_and_the_rest_is_not_run(repository: Repository) -> None:
    edit = '[[edit]]\nop = "insert-first"\nin = "Session._dial"\ncode = "pass"\n'
    repository.made.add_patch("google/sample", edit)
    repository.commit()
    repository.made.release("1.8.2", engine=ENGINE.replace("_dial", "_ring"))
    outcome = moved(repository)
    assert outcome.exit_code == 1
    whats = [need.what for need in outcome.needs]
    assert any(
        w.startswith("the vendored tree cannot be built: patch google/sample") for w in whats
    )
    assert any(w.startswith("google/sample on 1.8.2: NOT-FOUND") for w in whats)
    assert "not run" in outcome.text()
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.usefixtures("own_environment")
def test_a_failing_test_and_a_type_error_are_named(repository: Repository) -> None:
    repository.made.write("tests/test_ours.py", "def test_old_news() -> None:\n    assert False\n")
    repository.made.write("ours.py", 'X: int = ""\n')
    repository.commit()
    repository.made.release("1.8.2")
    whats = [need.what for need in moved(repository).needs]
    assert any(w.startswith("test failed: tests.test_ours.test_old_news: assert F") for w in whats)
    assert any(w.startswith("ours.py:1: error:") for w in whats)


@pytest.mark.usefixtures("patches_only")
def test_a_module_that_upstream_lacks_is_told(repository: Repository) -> None:
    text = repository.text("vendor/targets.toml")
    last = "livekit.plugins.google.realtime.engine"
    repository.made.write("vendor/targets.toml", text.replace(last, f"{last}_of_old"))
    repository.commit()
    repository.made.release("1.8.2")
    (need,) = moved(repository, keep=False).needs
    assert need.what == (
        f"vendor/targets.toml: upstream 1.8.2 has no {last}_of_old for google-realtime"
    )


@pytest.mark.usefixtures("patches_only")
def test_a_check_keeps_nothing(repository: Repository, tmp_path: Path) -> None:
    repository.made.release("1.8.2")
    before = repository.state()
    report = tmp_path / "report.md"
    code = cli.main(["--newest", "--check", "--markdown", str(report)], repository.layout)
    assert code == 0
    assert repository.state() == before
    assert report.read_text().startswith("## upstream 1.8.1 to 1.8.2, release 1.8.2.1\n")


@pytest.mark.usefixtures("patches_only")
def test_the_newest_is_taken_and_one_out_of_range_is_told(repository: Repository) -> None:
    for version in ("1.8.2", "1.8.3", "1.9.0"):
        repository.made.release(version)
    outcome = moved(repository, None)
    assert locked_version(repository.layout) == Version(1, 8, 3)
    (need,) = outcome.needs
    assert need.what.startswith("upstream 1.9.0 is on the index, outside the supported range")


@pytest.mark.usefixtures("patches_only")
def test_our_number_goes_on_where_it_was_tagged(repository: Repository) -> None:
    for tag in ("v1.8.2.1", "v1.8.2.3", "v1.8.1.9", "other"):
        repository.git("tag", tag)
    repository.made.release("1.8.2")
    assert str(moved(repository, keep=False).release) == "1.8.2.4"


def test_where_it_is_already_nothing_is_done(repository: Repository) -> None:
    before = repository.state()
    outcome = moved(repository, Version(1, 8, 1))
    assert outcome.exit_code == 0
    assert "nothing to do" in outcome.text()
    assert repository.state() == before


# -- what cannot be done


def _dirty(repository: Repository) -> None:
    repository.made.write(STRAY_FILE, "")


def _branch(repository: Repository) -> None:
    repository.git("branch", "revendor-1.8.2")


def _nobody(repository: Repository) -> None:
    repository.git("config", "--unset", "user.email")
    repository.git("config", "user.useConfigOnly", "true")


def _nothing(repository: Repository) -> None:
    pass


@pytest.mark.parametrize(
    ("version", "prepare", "error", "words"),
    [
        (NEW, _dirty, DirtyTree, rf"changes that are not committed \({STRAY_FILE}\)"),
        (NEW, _branch, BranchExists, "there is a branch revendor-1.8.2 already"),
        (NEW, _nobody, GitFailed, "no name and address to commit with"),
        (Version(1, 8, 7), _nothing, UnsupportedVersion, "upstream 1.8.7 is in no lock file"),
        (Version(1, 9, 0), _nothing, UnsupportedVersion, r"1.9.0 is outside the supported range"),
        (Version.parse("1.8.2rc1"), _nothing, UnsupportedVersion, "is a pre-release"),
    ],
)
def test_what_cannot_be_tried_changes_nothing(
    repository: Repository,
    version: Version,
    prepare: object,
    error: type[VendoringError],
    words: str,
) -> None:
    repository.made.release("1.8.2")
    assert callable(prepare)
    prepare(repository)
    before = repository.state()
    with pytest.raises(error, match=words) as caught:
        moved(repository, version)
    assert caught.value.exit_code == 2
    assert repository.state() == before


def test_an_unreachable_index_is_told(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    before = repository.state()
    with pytest.raises(IndexUnreachable, match="package index could not be reached"):
        moved(repository, None)
    assert repository.state() == before


def test_a_folder_without_git_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoCheckout, match="is not a git checkout"):
        revendor(Layout(tmp_path), Wish(NEW))


@pytest.mark.usefixtures("patches_only")
def test_a_place_of_another_form_leaves_everything_as_it_was(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.made.write("README.md", "no table\n")
    repository.commit()
    repository.made.release("1.8.2")
    before = repository.state()
    assert cli.main(["1.8.2"], repository.layout) == 2
    assert "README.md must have the lines" in capsys.readouterr().err
    assert repository.state() == before


HANGING = """\
import os, pathlib, signal

def test_hang() -> None:
    pathlib.Path({started!r}).write_text(str(os.getpid()))
    signal.pause()
"""
DRIVER = """\
import sys
from pathlib import Path
from revendoring import cli, trial
from vendoring.layout import Layout
trial.make_environment = lambda *_: trial.Environment(Path(sys.executable))
sys.exit(cli.main(["1.8.2"], Layout(Path(sys.argv[1]))))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_trace(
    repository: Repository, tmp_path: Path, number: signal.Signals
) -> None:
    started = tmp_path / "started"
    repository.made.write("tests/test_hang.py", HANGING.format(started=str(started)))
    repository.commit()
    repository.made.release("1.8.2")
    before = repository.state()
    scripts = Layout.here().root / "scripts"
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(repository.layout.root)],
        env={**os.environ, "PYTHONPATH": str(scripts)},
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (started.exists() and started.read_text()):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.endswith("interrupted; nothing was changed\n")
    assert repository.state() == before
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert list((repository.layout.cache / "worktrees").iterdir()) == []


def test_what_a_killed_run_left_is_cleared_away(repository: Repository) -> None:
    checkout = Checkout(repository.layout)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = repository.layout.cache / "worktrees" / f"revendor-{ended.pid}"
    repository.git("worktree", "add", "--quiet", "--detach", str(left))
    with checkout.worktree("other") as worktree:
        assert not left.exists()
        assert (worktree.root / "README.md").exists()
    assert len(repository.git("worktree", "list").splitlines()) == 1
