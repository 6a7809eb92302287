"""Build hook: make the vendored tree current, or check the one that came along.

In a checkout the tree is generated from ../patches and ../vendor (see ../vendor/README.md). In an
unpacked source distribution those are not there: the tree was shipped, is checked against the
hashes of its own record, and nothing is fetched.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TREE = Path("livekit", "plugins", "resilient", "_vendor")
# The checking half of the vendoring scripts, under the name that it has in the sdist.
SHIPPED_CHECK = "vendoring_provenance.py"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs for sdist, wheel and editable installs alike."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises SystemExit with one sentence when the tree cannot be made or is not intact."""
        root = Path(self.root)
        scripts = root.parent / "scripts"
        if (scripts / "vendoring").is_dir():
            self._generate(scripts)
            check = scripts / "vendoring" / "provenance.py"
        else:
            check = root / SHIPPED_CHECK
            self._check_shipped(root)
        if self.target_name == "sdist":
            build_data["force_include"][str(check)] = SHIPPED_CHECK

    def _generate(self, scripts: Path) -> None:
        with _importing_from(scripts):
            import vendoring

            try:
                vendoring.ensure(log=self.app.display_info)
            except vendoring.VendoringError as e:
                raise SystemExit(f"livekit-plugins-resilient: {e}") from e

    def _check_shipped(self, root: Path) -> None:
        with _importing_from(root):
            check = importlib.import_module(Path(SHIPPED_CHECK).stem)
            problem = check.problem(root / TREE)
        if problem is not None:
            raise SystemExit(f"livekit-plugins-resilient: the shipped tree is damaged: {problem}")


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
