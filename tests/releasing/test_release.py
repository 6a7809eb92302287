"""The command around the checks: which Pythons, which commit, what is kept."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from releasing import cli, install, pythons
from releasing import release as releasing
from releasing.artefacts import Expected
from releasing.build import Built
from releasing.release import Outcome, Wish, release
from revendoring.checkout import Checkout
from revendoring.errors import DirtyTree, NoEnvironment
from revendoring.process import Ended, run
from tests.revendoring.conftest import CHANGELOG, mypy_cache, repository
from vendoring.hashing import sha256

if TYPE_CHECKING:
    from tests.revendoring.conftest import Repository

__all__ = ["mypy_cache", "repository"]

HERE = ".".join(map(str, sys.version_info[:2]))


# -- Pythons


def fake_python(folder: Path, name: str, says: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)


def test_a_shim_without_its_version_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_python(tmp_path / "shims", "python3.12", "echo 'not found' >&2; exit 127")
    fake_python(tmp_path / "pyenv" / "versions" / "3.12.9" / "bin", "python", "echo 3.12")
    fake_python(tmp_path / "shims", "python3.13", "echo 3.9")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    found, missing = pythons.choose(">=3.11,<3.14", [])
    assert found == {"3.12": tmp_path / "pyenv" / "versions" / "3.12.9" / "bin" / "python"}
    assert missing == ["3.11", "3.13"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["3.9"], r"Python 3\.9 is not supported \(supported: 3\.10, "),
        (["3.12"], r"no Python 3\.12 was found"),
        ([], r"none of Python 3\.10, 3\.11, 3\.12, 3\.13 was found"),
    ],
)
def test_a_missing_python_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: list[str], words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(NoEnvironment, match=words) as caught:
        pythons.choose(">=3.10,<3.14", wanted)
    assert caught.value.exit_code == 2


# -- what the smoke calls say


GOOD = {
    "version": "1.8.9.1",
    "installed": "1.8.9.1",
    "file": "/env/lib/x.py",
    "calls": {"google": {"survived": True}, "openai": {"survived": True}},
}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({}, 0, None),
        ({"installed": "1.8.9.2"}, 0, "it says version 1.8.9.1, its metadata 1.8.9.2"),
        ({"file": "/checkout/x.py"}, 0, "imported from elsewhere"),
        ({"calls": {"google": {"survived": False}}}, 1, "the google call did not survive"),
        ({}, 3, "ended with code 3"),
    ],
)
def test_what_the_calls_say_is_judged(
    change: dict[str, object], code: int, words: str | None
) -> None:
    ended = Ended(code, f"a warning\n{json.dumps({**GOOD, **change})}\n")
    faults = install.smoke_faults(ended, "1.8.9.1", Path("/env"))
    if words is None:
        assert faults == []
    else:
        (fault,) = faults
        assert words in fault


def test_calls_that_crash_or_hang_are_faults() -> None:
    crashed = install.smoke_faults(Ended(1, "Traceback\nImportError: x\n"), "1", Path("/env"))
    assert crashed == ["the calls could not be made: ImportError: x"]
    hung = install.smoke_faults(Ended(-1, "", timed_out=True), "1", Path("/env"))
    assert "did not end within" in hung[0]


# -- the commit


def faults_of(repository: Repository) -> list[str]:
    return releasing._untagged(Checkout(repository.layout), "1.8.1.1")


def test_a_release_wants_a_date_and_a_tag(repository: Repository) -> None:
    undated, untagged = faults_of(repository)
    assert "[Unreleased]" in undated
    assert untagged == "this commit has no tag: git tag v1.8.1.1"
    dated = CHANGELOG.replace("[Unreleased] - 1.8.1.1", "[1.8.1.1] - 2026-12-01")
    repository.made.write("CHANGELOG.md", dated)
    repository.commit()
    repository.git("tag", "v1.8.1.1")
    assert faults_of(repository) == []
    repository.made.write("more.txt", "")
    repository.commit()
    assert faults_of(repository) == [
        "v1.8.1.1 tags another commit: raise the last number of the version"
    ]


def test_a_dirty_checkout_is_refused(repository: Repository) -> None:
    repository.made.write("stray.txt", "")
    with pytest.raises(DirtyTree, match=r"stray\.txt"):
        release(repository.layout, Wish(rehearsal=True))


def test_what_is_no_release_yet_is_not_built(repository: Repository) -> None:
    outcome = release(repository.layout, Wish())
    assert outcome.exit_code == 1
    assert [check.name for check in outcome.checks if check.faults] == ["tag and date"]
    assert "building and installing: not before" in outcome.text()
    assert repository.git("worktree", "list").count("\n") == 0


def test_an_option_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--no-install"])
    assert caught.value.code == 2
    assert "--no-install goes only with --rehearsal" in capsys.readouterr().err


def test_what_is_kept_has_checksums(
    repository: Repository, built: Built, expected: Expected
) -> None:
    folder = repository.layout.root / releasing._keep(repository.layout, built, expected)
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {p.name: sha256(p.read_bytes()) for p in (built.wheel, built.sdist)}
    assert {p.name for p in folder.iterdir()} == {*sums, "SHA256SUMS"}
    assert not list(folder.parent.glob(".*"))


def test_one_wrong_check_needs_a_person() -> None:
    good, bad = releasing.Check("a"), releasing.Check("b", ("fault",))
    assert Outcome("1", [good]).exit_code == 0
    outcome = Outcome("1", [good, bad])
    assert outcome.exit_code == 1
    assert "WRONG b\n      - fault" in outcome.text()
    assert "1 of 2 checks passed." in outcome.text()


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    ended = run(
        ["/bin/sh", "-c", f"sleep 60 & echo $! > {note}; wait"], cwd=tmp_path, timeout_s=1.0
    )
    assert ended.timed_out
    until = time.monotonic() + 10
    while not _is_gone(int(note.read_text())):
        assert time.monotonic() < until
        time.sleep(0.01)


def _is_gone(pid: int) -> bool:
    """Ended; whether somebody has collected it does not matter."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True
