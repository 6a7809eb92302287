"""The example of docs/testing.md is a file, and it runs as the page says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from livekit.plugins.resilient import testing
from livekit.plugins.resilient.testing import faults
from livekit.plugins.resilient.testing.fault_plan import parse_plan
from livekit.plugins.resilient.testing.gemini import FAMILIES
from vendoring.forks import Forks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "test_my_agent.py"


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert isinstance(found, str)
    return found


def run_example(folder: Path, test: str, forks: Forks) -> str:
    """Run `test` beside the example agent, as a user does who has installed the package."""
    shutil.copy(EXAMPLE.with_name("agent.py"), folder)
    (folder / EXAMPLE.name).write_text(test, encoding="utf-8")
    done = forks.run(
        "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))",
        ["-p", "no:cacheprovider", "-p", "livekit.plugins.resilient_pytest"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")},
    )
    return done.stdout + done.stderr


def test_the_page_shows_the_file() -> None:
    code = EXAMPLE.read_text(encoding="utf-8")
    assert code[code.index("import pytest\n") :] == block("python")
    lines = [line for line in block("python").splitlines() if line.strip()]
    assert len(lines) <= 15


def test_the_example_passes(tmp_path: Path, forks: Forks) -> None:
    said = run_example(tmp_path, block("python"), forks)
    assert "1 passed" in said, said


def test_the_example_fails_with_upstreams_model(tmp_path: Path, forks: Forks) -> None:
    ours = "livekit.plugins.resilient.google.realtime"
    assert ours in block("python")
    test = block("python").replace(ours, "livekit.plugins.google.realtime")
    said = run_example(tmp_path, test, forks)
    assert "the rest of the greeting did not happen" in said, said


def test_the_plan_is_valid() -> None:
    first, second = parse_plan(block("toml"), testing.GeminiLiveServer.vocabulary)
    assert isinstance(first.trigger, testing.AtAudio)
    assert second.actions == (testing.StaleHandle("after_setup"), testing.NoHandle())


@pytest.mark.parametrize("name", sorted(t.__name__ for t in (*faults.ACTIONS, *faults.TRIGGERS)))
def test_every_trigger_and_action_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


def test_every_family_is_on_the_page() -> None:
    assert all(f'"{family}"' in PAGE for family in FAMILIES)
