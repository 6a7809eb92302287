"""Fetching with the real pip from a folder of made-up wheels."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

import pytest

from vendoring.errors import DownloadFailed, HashMismatch, IndexUnreachable, PipMissing
from vendoring.fetch import pristine
from vendoring.versions import Version

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

LOCKED = Version(1, 8, 1)
HELPERS = "livekit/plugins/google/realtime/helpers.py"


def empty(unfetched: Checkout) -> None:
    """Take the wheels away: from now on every download fails."""
    for wheel in unfetched.index.iterdir():
        wheel.unlink()


def test_sources_are_laid_out_and_not_fetched_again(unfetched: Checkout) -> None:
    folder = pristine(unfetched.layout, LOCKED)
    assert (folder / HELPERS).read_text().startswith("from ..tools")
    assert (folder / "livekit_agents-1.8.1.dist-info" / "METADATA").exists()
    empty(unfetched)
    assert pristine(unfetched.layout, LOCKED) == folder


def test_a_changed_file_is_fetched_again(unfetched: Checkout) -> None:
    path = pristine(unfetched.layout, LOCKED) / HELPERS
    good = path.read_text()
    path.write_text("changed = 1\n")
    assert (pristine(unfetched.layout, LOCKED) / HELPERS).read_text() == good


def test_another_lock_is_fetched_again(unfetched: Checkout) -> None:
    pristine(unfetched.layout, LOCKED)
    lines = unfetched.release("1.8.1", engine="ANOTHER = 1\n")
    unfetched.write("vendor/upstream.lock", "".join(lines))
    folder = pristine(unfetched.layout, LOCKED)
    assert (folder / "livekit/plugins/google/realtime/engine.py").read_text() == "ANOTHER = 1\n"


def test_pip_refuses_a_wheel_with_another_hash(unfetched: Checkout) -> None:
    unfetched.release("1.8.1", engine="TAMPERED = 1\n")
    with pytest.raises(HashMismatch, match=r"the lock names for livekit-plugins-google 1\.8\.1$"):
        pristine(unfetched.layout, LOCKED)
    assert not (unfetched.layout.pristine / "1.8.1").exists()


def test_the_hash_is_checked_again_after_pip(
    unfetched: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should pip ever let a wrong file pass, it is still refused."""
    real = subprocess.run

    def tampering(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = real(command, **kwargs)
        into = command[command.index("--dest") + 1]
        shutil.copy(
            unfetched.index / "livekit_agents-1.8.0-py3-none-any.whl",
            f"{into}/livekit_agents-1.8.1-py3-none-any.whl",
        )
        return done

    monkeypatch.setattr(subprocess, "run", tampering)
    with pytest.raises(HashMismatch, match=r"wheel of livekit-agents 1\.8\.1 is not the locked"):
        pristine(unfetched.layout, LOCKED)


def test_a_release_that_the_index_lacks_is_said_so(unfetched: Checkout) -> None:
    empty(unfetched)
    with pytest.raises(
        DownloadFailed, match=r"could not download livekit-agents 1\.8\.1.*it said: "
    ):
        pristine(unfetched.layout, LOCKED)


def test_an_unreachable_index_is_said_so(
    unfetched: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.setenv("PIP_TIMEOUT", "1")
        with pytest.raises(IndexUnreachable, match="package index could not be reached"):
            pristine(unfetched.layout, LOCKED)


def test_a_missing_pip_is_said_so(unfetched: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without_pip(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pip" else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_pip)
    with pytest.raises(PipMissing, match=r"has no pip.*ensurepip"):
        pristine(unfetched.layout, LOCKED)
