"""Synthetic upstream releases and checkouts: no test here needs a network or upstream's code."""

from __future__ import annotations

import os
import textwrap
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vendoring.fetch import lay_out
from vendoring.hashing import sha256
from vendoring.layout import Layout
from vendoring.locks import DISTRIBUTIONS, Pin
from vendoring.patchfile import Patch, parse_patch
from vendoring.versions import Version

ENGINE = '''\
"""A made-up engine."""

from __future__ import annotations

import asyncio

from ..log import logger
from ..tools import Tool
from .helpers import join


class Session:
    """A made-up session."""

    def __init__(self, opts: dict[str, int]) -> None:
        """Keep the options."""
        self.opts = opts
        self.events: list[str] = []

    async def _run(self) -> None:
        attempts = 0
        while attempts < 3:
            try:
                await self._dial(first=attempts == 0)
            except OSError as e:
                if not self.opts or attempts == 2:
                    self.tell(e, again=False)
                    raise
                self.tell(e, again=True)
                await asyncio.sleep(0)
                attempts += 1
            else:
                break

    async def _dial(self, first: bool) -> None:
        self.events.append("dial")
        if not first:
            return
        raise OSError

    def tell(self, error: Exception, again: bool) -> None:
        logger.info("told")
        self.events.append(join(type(error).__name__, str(again)))
'''

HELPERS = """\
from ..tools import Tool


def join(*parts: str) -> str:
    return " ".join(parts)
"""

LOG = "import logging\n\nlogger = logging.getLogger(__name__)\n"


@pytest.fixture
def source() -> bytes:
    """One file of a made-up upstream."""
    return ENGINE.encode()


PatchMaker = Callable[..., Patch]


@pytest.fixture
def make_patch() -> PatchMaker:
    """Build a valid patch around the edits given."""

    def make(*edits: Mapping[str, Any], name: str = "google/sample", **fields: Any) -> Patch:
        table: dict[str, Any] = {**patch_table(name), "edit": list(edits), **fields}
        return parse_patch(table, name, "0" * 64)

    return make


def patch_table(name: str) -> dict[str, Any]:
    folder, _, stem = name.partition("/")
    return {
        "id": name,
        "target": f"{folder}-realtime",
        "description": "Made up.",
        "reason": "temporary",
        "why-not-subclass": "Made up.",
        "forwarded": "no",
        "applies-to": ">=1.8.0",
        "last-update": "2026-11-29",
        "probe": f"tests/probes/{folder}/test_{stem.replace('-', '_')}.py",
    }


# -- a whole checkout around synthetic wheels


@dataclass
class Checkout:
    """A made-up repository, and an index folder that pip is pointed at."""

    layout: Layout
    index: Path
    # Lay releases out at once, so that tests of other things need not wait for pip.
    stocked: bool = True

    def write(self, name: str, text: str) -> Path:
        path = self.layout.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def release(self, version: str, engine: str = ENGINE) -> list[str]:
        """Publish one release of all distributions; returns their lock lines."""
        base = "livekit/plugins/google"
        contents = {
            "livekit-agents": {
                "livekit/agents/__init__.py": "",
                "livekit/agents/llm/_realtime/openai.py": "def run():\n    return 1\n",
            },
            "livekit-plugins-google": {
                f"{base}/__init__.py": "",
                f"{base}/tools.py": "class Tool: ...\n",
                f"{base}/realtime/engine.py": engine,
                f"{base}/realtime/helpers.py": HELPERS,
                f"{base}/log.py": LOG,
            },
            "livekit-plugins-openai": {"livekit/plugins/openai/models.py": "X = 1\n"},
            "livekit-plugins-xai": {"livekit/plugins/xai/models.py": "X = 1\n"},
        }
        wheels = {d: build_wheel(self.index, d, version, contents[d]) for d in DISTRIBUTIONS}
        pins = [
            Pin(dist, Version.parse(version), sha256(wheel.read_bytes()))
            for dist, wheel in wheels.items()
        ]
        if self.stocked:
            self.layout.pristine.mkdir(parents=True, exist_ok=True)
            lay_out(wheels, pins, self.layout.pristine / version)
        return [f"{pin.requirement()}\n" for pin in pins]

    def add_patch(self, name: str, edits: str, **fields: str) -> None:
        """Write a patch file and list it in the series."""
        table = {**patch_table(name), **fields}
        text = "".join(f'{key} = "{value}"\n' for key, value in table.items())
        self.write(f"patches/{name}.toml", text + textwrap.dedent(edits))
        folder, _, stem = name.partition("/")
        series = self.layout.patches / folder / "series"
        listed = series.read_text() if series.exists() else ""
        series.write_text(f"{listed}{stem}.toml\n")


def build_wheel(folder: Path, dist: str, version: str, files: Mapping[str, str]) -> Path:
    stem = f"{dist.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: made-up\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    extra = {f"{stem}.dist-info/METADATA": metadata, f"{stem}.dist-info/WHEEL": tags}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, **extra, f"{stem}.dist-info/RECORD": ""}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


TARGETS = """
supported = ">=1.8.0,<1.9"

[[target]]
name = "google-realtime"
path = "google/realtime_api.py"
[[target.origin]]
versions = ">=1.8.0"
dist = "livekit-plugins-google"
module = "livekit.plugins.google.realtime.engine"

[[target]]
name = "google-helpers"
path = "google/helpers.py"
[[target.origin]]
versions = ">=1.8.0"
dist = "livekit-plugins-google"
module = "livekit.plugins.google.realtime.helpers"

[[target]]
name = "google-log"
path = "google/log.py"
[[target.origin]]
versions = ">=1.8.0"
dist = "livekit-plugins-google"
module = "livekit.plugins.google.log"

[[target]]
name = "openai-realtime"
path = "openai/realtime_model.py"
[[target.origin]]
versions = ">=1.8.1"
dist = "livekit-agents"
module = "livekit.agents.llm._realtime.openai"
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A checkout locked to a made-up 1.8.1, with 1.8.0 in the range lock; both are fetched.

    pip sees a folder of made-up wheels only.
    """
    return _only_index(make_checkout(tmp_path), monkeypatch)


@pytest.fixture
def unfetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The same before anything was fetched."""
    return _only_index(make_checkout(tmp_path, stocked=False), monkeypatch)


def _only_index(made: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return made


def make_checkout(folder: Path, *, stocked: bool = True) -> Checkout:
    index = folder / "index"
    index.mkdir()
    made = Checkout(Layout(folder / "root"), index, stocked)
    made.write("vendor/upstream.lock", "".join(made.release("1.8.1")))
    made.write("vendor/range.lock", "".join(made.release("1.8.0")))
    made.write("vendor/targets.toml", TARGETS)
    made.write(
        "livekit-plugins-resilient/pyproject.toml",
        '[project]\nname = "livekit-plugins-resilient"\nversion = "1.8.1.1"\n',
    )
    made.write("livekit-plugins-resilient/livekit/plugins/resilient/__init__.py", "")
    made.write("patches/README.md", "")
    return made
