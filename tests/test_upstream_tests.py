"""The script that runs upstream's tests tells what fails on our classes, on a made-up suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/upstream_tests.py"

IMPORTS = """
from types import SimpleNamespace
import pytest
from livekit.plugins import openai
from livekit.plugins.google.realtime import RealtimeModel as Gemini
from livekit.plugins.google.realtime import realtime_api
from livekit.agents.llm._realtime import openai as engine
"""

PASSES_ON_BOTH = """
def test_a_helper_that_is_patched_is_used(monkeypatch):
    monkeypatch.setattr(engine, "OPENAI_BASE_URL", "https://patched.invalid/v1")
    assert openai.realtime.RealtimeModel(api_key="k").provider == "patched.invalid"

def test_each_name_is_the_same_class():
    assert Gemini is realtime_api.RealtimeModel
    assert issubclass(openai.realtime.RealtimeModel, engine.RealtimeModel)
"""

FAILS_ON_BOTH = """
def test_what_nobody_has():
    assert engine.RealtimeModel.nothing
"""

WITHOUT_CONSTRUCTOR = """
def test_a_method_of_an_instance_that_was_never_made():
    session = SimpleNamespace(send_event=[].append)
    engine.RealtimeSession.truncate(
        session, message_id="m", modalities=["audio"], audio_end_ms=0
    )

def test_an_instance_that_was_never_made():
    session = engine.RealtimeSession.__new__(engine.RealtimeSession)
    session.send_event = [].append
    session.truncate(message_id="m", modalities=["audio"], audio_end_ms=0)
"""

FAILS_ON_OURS = """
def test_the_name_of_the_module():
    assert "resilient" not in openai.realtime.RealtimeModel(api_key="k").label
"""


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "tests").mkdir()
    (folder / "tests/test_some.py").write_text(IMPORTS + "".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, str(SCRIPT), str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


def test_what_passes_on_upstream_and_fails_on_ours_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, PASSES_ON_BOTH, FAILS_ON_BOTH, WITHOUT_CONSTRUCTOR, FAILS_ON_OURS)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["1", "upstream", "failed", "ours", "failed"],
        ["3", "upstream", "passed", "ours", "failed"],
        ["2", "upstream", "passed", "ours", "passed"],
    ]
    [unexplained] = [line for line in lines if "NO REASON" in line]
    assert "test_the_name_of_the_module" in unexplained
    excused = [line for line in lines if "builds a session without its constructor" in line]
    assert len(excused) == 2
    assert all("never_made" in line for line in excused)


def test_tests_that_build_no_session_by_its_class_are_excused(tmp_path: Path) -> None:
    done = run(tmp_path, PASSES_ON_BOTH, WITHOUT_CONSTRUCTOR)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_another_folder_is_refused(tmp_path: Path, folder: str) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "give a clone of livekit/agents" in done.stdout
