"""The pytest plugin, as pytest sees it: in runs of its own, with a user's settings."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vendoring.forks import Forks

PLUGIN = "livekit.plugins.resilient_pytest"
STRICT = "[pytest]\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n"

# The user's own event loops must stay theirs wherever the mark is not used.
USERS_CONFTEST = """
import asyncio

class UsersLoop(asyncio.SelectorEventLoop):
    pass

def pytest_asyncio_loop_factories(config, item):
    return {"users": UsersLoop}
"""

USERS_TESTS = """
import asyncio
import pytest
from livekit.plugins.openai.realtime import RealtimeModel

@pytest.mark.asyncio
@pytest.mark.virtual_time
async def test_hours_pass():
    await asyncio.sleep(36_000)

@pytest.mark.asyncio
async def test_the_users_own_loop():
    assert type(asyncio.get_running_loop()).__name__ == "UsersLoop"

@pytest.mark.virtual_time
def test_a_plain_function():
    pass

@pytest.mark.asyncio
@pytest.mark.virtual_time
async def test_a_call(headless_call, openai_realtime_server, gemini_live_server):
    kept.append(await openai_realtime_server(["Hello."]))
    kept.append(await openai_realtime_server())
    kept.append(await gemini_live_server(family="3.8"))
    kept.append(await headless_call(RealtimeModel(**kept[0].model_kwargs())))
    await kept[-1].generate_reply()
    assert kept[-1].heard.segments

def test_the_call_hung_up_before_its_server_stopped():
    *servers, call = kept
    assert call.closed.reason == "user_initiated"
    assert servers[0].recording.closed(1).by == "client"

@pytest.mark.asyncio
async def test_an_error_in_a_server_fails_the_test(openai_realtime_server):
    server = await openai_realtime_server()
    server.errors.append(RuntimeError("broken script"))

kept = []
"""

# Before pytest is imported, because its own import hook keeps what it finds here.
BLOCK_ASYNCIO = """
import functools, importlib.machinery
find_spec = importlib.machinery.PathFinder.find_spec

def find_no_asyncio(name, path=None, target=None):
    return None if name.startswith("pytest_asyncio") else find_spec(name, path, target)

importlib.machinery.PathFinder.find_spec = functools.partial(find_no_asyncio)
"""


RUN = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
ARGUMENTS = ["-p", "no:cacheprovider", "-p", PLUGIN]


def run_forked(forks: Forks, folder: Path, *arguments: str) -> str:
    """Run pytest in `folder`, with the libraries already imported."""
    done = forks.run(RUN, [*ARGUMENTS, *arguments], cwd=folder)
    return done.stdout + done.stderr


def run_pytest(folder: Path, *arguments: str, prelude: str = "") -> str:
    """Run pytest in `folder` in a new process; `prelude` is executed before it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{prelude}\n{RUN}", *ARGUMENTS, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        suffix = ".ini" if name == "pytest" else ".py"
        (folder / f"{name}{suffix}").write_text(textwrap.dedent(text))


def test_marks_and_fixtures_do_what_they_say(tmp_path: Path, forks: Forks) -> None:
    write(tmp_path, pytest=STRICT, conftest=USERS_CONFTEST, test_mine=USERS_TESTS)
    # Named a second time, by the module that is documented for it, it is still loaded once.
    plugin = "livekit.plugins.resilient.testing.pytest_plugin"
    said = run_forked(forks, tmp_path, "-p", plugin, "--strict-markers", "-rA")
    assert re.search(r"\b6 passed, (\d+ warnings?, )?1 error in", said), said
    assert "ERROR test_mine.py::test_an_error_in_a_server_fails_the_test" in said
    assert "broken script" in said


def test_an_unrelated_run_loads_nothing(tmp_path: Path) -> None:
    heavy = "('livekit.agents', 'livekit.plugins.resilient', 'numpy', 'websockets', 'trustme')"
    test = f"""
        import sys

        def test_unrelated():
            assert [name for name in {heavy} if name in sys.modules] == []
    """
    write(tmp_path, pytest=STRICT, test_unrelated=test)
    said = run_pytest(tmp_path)
    assert "1 passed" in said, said


def test_without_pytest_asyncio_it_says_what_is_missing(tmp_path: Path) -> None:
    marked = """
        import pytest

        @pytest.mark.virtual_time
        async def test_marked():
            pass
    """
    fixture = """
        def test_with_fixture(headless_call):
            pass
    """
    write(tmp_path, test_marked=marked, test_fixture=fixture)
    said = run_pytest(tmp_path, "-p", "no:asyncio", "test_marked.py", prelude=BLOCK_ASYNCIO)
    assert "the mark 'virtual_time' needs pytest-asyncio 1.4 or newer" in said
    assert "pip install livekit-plugins-resilient[testing]" in said
    said = run_pytest(tmp_path, "-p", "no:asyncio", "test_fixture.py", prelude=BLOCK_ASYNCIO)
    assert (
        "test_with_fixture: the fixtures of livekit-plugins-resilient need pytest-asyncio" in said
    )


def test_another_event_loop_than_the_fixtures_is_named(tmp_path: Path, forks: Forks) -> None:
    test = """
        import pytest

        @pytest.mark.asyncio(loop_scope="module")
        async def test_elsewhere(openai_realtime_server):
            await openai_realtime_server()
    """
    write(tmp_path, pytest=STRICT, test_elsewhere=test)
    said = run_forked(forks, tmp_path)
    assert "set asyncio_default_fixture_loop_scope to the loop_scope of the test" in said


def test_the_entry_point_is_named_as_its_module() -> None:
    """Else pytest would load it twice where a conftest names it, and refuse to start."""
    tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = Path(__file__).parents[2] / "livekit-plugins-resilient" / "pyproject.toml"
    entry_points = tomllib.loads(project.read_text())["project"]["entry-points"]
    assert entry_points == {"pytest11": {PLUGIN: PLUGIN}}
