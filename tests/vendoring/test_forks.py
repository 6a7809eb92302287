"""Programs that run in forks: as in a process of their own, without meeting each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vendoring.forks import Forks


@pytest.fixture(scope="module")
def forked() -> Iterator[Forks]:
    with Forks(["nothing.like.this", "colorsys"]) as made:
        yield made


def test_a_program_runs_as_in_a_process_of_its_own(forked: Forks, tmp_path: Path) -> None:
    program = """
import json, os, sys
print(json.dumps([__name__, sys.argv, os.getcwd(), dict(os.environ), sys.stdin.read()]))
print("said", file=sys.stderr)
sys.exit(3)
"""
    done = forked.run(program, ["a", "b c"], cwd=tmp_path, env={"ONLY": "this"})
    name, argv, cwd, environment, given = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "said\n")
    assert (name, argv, given) == ("__main__", ["-c", "a", "b c"], "")
    assert Path(cwd) == tmp_path.resolve()
    # Of the C library's locale, if anything.
    assert {k: v for k, v in environment.items() if k != "LC_CTYPE"} == {"ONLY": "this"}


def test_what_is_shared_is_there_and_programs_do_not_meet(forked: Forks) -> None:
    program = """
import sys
print("colorsys" in sys.modules, "wave" in sys.modules, hasattr(sys, "mark"))
import wave
sys.mark = 1
"""
    assert [forked.run(program).stdout.split() for _ in range(2)] == [
        ["True", "False", "False"]
    ] * 2


def test_its_own_path_comes_before_all_else(forked: Forks, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "wave.py").write_text(f"NAME = {folder.name!r}\n")
    program = "import wave; print(getattr(wave, 'NAME', 'the library'))"
    env = {**os.environ, "PYTHONPATH": str(second)}
    assert forked.run(program, path=[first], env=env).stdout == "first\n"
    assert forked.run(program, env=env).stdout == "second\n"
    assert forked.run(program).stdout == "the library\n"


def test_an_error_and_a_signal_are_told(forked: Forks) -> None:
    failed = forked.run("raise ValueError('of the program')")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "ValueError: of the program"
    killed = forked.run("import os; os.kill(os.getpid(), 9)")
    assert killed.returncode == -signal.SIGKILL


def test_one_that_takes_too_long_is_killed_and_the_next_runs(forked: Forks) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run("import signal; signal.pause()", timeout_s=0.2)
    assert forked.run("print('next')").stdout == "next\n"


def test_a_process_that_ended_is_told() -> None:
    with Forks([]) as forked, pytest.raises(RuntimeError, match="has ended"):
        forked.run("import os; os.kill(os.getppid(), 9)")
    with Forks([], python=sys.executable) as forked:
        assert forked.run("").returncode == 0
