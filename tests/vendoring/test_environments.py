"""Which environment a release runs in. No environment is made here: that needs an index."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vendoring import environments
from vendoring.environments import environment_for, needs_of
from vendoring.errors import IndexUnreachable, ProbesNotRunnable
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

OLD = Version(1, 8, 0)


def asks_for(checkout: Checkout, dist: str, *requirements: str) -> None:
    """Put requirements into the metadata of the old release's wheel."""
    stem = f"{dist.replace('-', '_')}-1.8.0"
    path = checkout.layout.pristine / "1.8.0" / f"{stem}.dist-info/METADATA"
    path.write_text(path.read_text() + "".join(f"Requires-Dist: {r}\n" for r in requirements))


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the changed metadata for what was fetched."""
    monkeypatch.setattr(
        environments, "pristine", lambda layout, version: layout.pristine / str(version)
    )


@pytest.mark.usefixtures("trusting")
def test_needs_are_those_that_count_on_this_python(checkout: Checkout) -> None:
    asks_for(
        checkout,
        "livekit-agents",
        "aiohttp~=3.10",
        "livekit==1.1.17",
        "old-thing; python_version < '3'",
        "pillow>=10; extra == 'images'",
        "numpy>=1; extra == 'codecs'",
    )
    asks_for(checkout, "livekit-plugins-openai", "livekit-agents[images]>=1.8.0", "openai>=2.50")
    needs = needs_of(checkout.layout, OLD)
    assert sorted(r.name for r in needs.ranges) == ["aiohttp", "openai", "pillow"]
    assert [str(r) for r in needs.exact] == ["livekit==1.1.17"]
    assert needs.unmet({"AioHTTP": "3.14.5", "openai": "2.49", "pillow": "13.0.0"}) == [
        "openai>=2.50"
    ]


def test_the_running_environment_is_taken_where_it_fits(checkout: Checkout) -> None:
    """The sources of the release go before those that are installed, and are a copy."""
    environment = environment_for(checkout.layout, OLD)
    assert environment.python == Path(sys.executable)
    (release,) = environment.path
    assert (release / "livekit/plugins/google/realtime/engine.py").is_file()
    assert not release.is_relative_to(checkout.layout.pristine)


def test_a_changed_release_is_copied_again(checkout: Checkout) -> None:
    (release,) = environment_for(checkout.layout, OLD).path
    engine = release / "livekit/plugins/google/realtime/engine.py"
    assert "X = 1" not in engine.read_text()
    checkout.write("vendor/range.lock", "".join(checkout.release("1.8.0", engine="X = 1\n")))
    environment_for(checkout.layout, OLD)
    assert engine.read_text() == "X = 1\n"


@pytest.mark.usefixtures("trusting")
def test_a_cached_environment_is_taken_where_it_still_runs(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks_for(checkout, "livekit-agents", "no-such-thing>=1")
    home = checkout.layout.cache / "verify" / "environments" / sys.implementation.cache_tag
    for name, installed in (("a", {"other": "1"}), ("b", {"no-such-thing": "1.5"})):
        stamp = home / name / "STAMP.json"
        stamp.parent.mkdir(parents=True)
        stamp.write_text(json.dumps(installed))

    def listing(python: Path) -> dict[str, str]:
        return {"no-such-thing": "1.5"} if python.is_relative_to(home / "b") else {}

    monkeypatch.setattr(environments, "_installed", listing)
    assert environment_for(checkout.layout, OLD).python.is_relative_to(home / "b")

    def broken(python: Path) -> dict[str, str]:
        return {}

    monkeypatch.setattr(environments, "_installed", broken)
    monkeypatch.setattr(environments, "_make", lambda home, wanted: (Path("made"), {}))
    assert environment_for(checkout.layout, OLD).python == Path("made")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("ERROR: No matching distribution found for x", ProbesNotRunnable),
        ("WARNING: Retrying (Retry(total=4)) after 'NewConnectionError'", IndexUnreachable),
    ],
)
def test_what_cannot_be_installed_leaves_nothing_behind(
    tmp_path: Path, said: str, error: type[Exception]
) -> None:
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    command = [sys.executable, "-c", f"import sys; sys.exit({said!r})"]
    with pytest.raises(error):
        environments._run(command, "an environment", folder)
    assert not folder.exists()
