"""One real wheel and sdist of this checkout, shared by all tests of what is in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from releasing import build
from releasing.artefacts import Artefacts, Expected, read_sdist, read_wheel
from vendoring.layout import Layout
from vendoring.locks import locked_pins
from vendoring.toml import read_toml

EPOCH = 1_767_225_600


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> build.Built:
    """Built from the checkout as it is."""
    into = tmp_path_factory.mktemp("release")
    return build.build(Layout.here().project, into, EPOCH, build.CIRCUMSTANCES[0])


@pytest.fixture(scope="session")
def read(built: build.Built) -> Artefacts:
    """Their files; not to be changed."""
    return Artefacts(read_wheel(built.wheel), read_sdist(built.sdist))


@pytest.fixture(scope="session")
def expected() -> Expected:
    """What this checkout says that they are."""
    layout = Layout.here()
    project = read_toml(layout.project / "pyproject.toml")["project"]
    return Expected(
        str(project["name"]),
        str(project["version"]),
        str(project["requires-python"]),
        locked_pins(layout),
        (str(layout.root), str(Path.home())),
    )
