"""Where things lie in a checkout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "livekit.plugins.resilient"
VENDOR_PACKAGE = f"{PACKAGE}._vendor"


@dataclass(frozen=True)
class Layout:
    """Paths below the root of a checkout."""

    root: Path

    @classmethod
    def here(cls) -> Layout:
        """The checkout that this file belongs to."""
        return cls(Path(__file__).resolve().parents[2])

    @property
    def scripts(self) -> Path:
        return self.root / "scripts" / "vendoring"

    @property
    def patches(self) -> Path:
        return self.root / "patches"

    @property
    def anchors(self) -> Path:
        return self.patches / "anchors.lock"

    @property
    def lock(self) -> Path:
        return self.root / "vendor" / "upstream.lock"

    @property
    def range_lock(self) -> Path:
        return self.root / "vendor" / "range.lock"

    @property
    def seen_lock(self) -> Path:
        """Pins of releases that no lock file has yet, as first seen on the index; git-ignored."""
        return self.cache / "vendoring" / "seen.lock"

    @property
    def targets(self) -> Path:
        return self.root / "vendor" / "targets.toml"

    @property
    def allowed_overlaps(self) -> Path:
        return self.root / "vendor" / "allowed-overlaps.toml"

    @property
    def pristine(self) -> Path:
        """Fetched upstream sources, one folder a version; git-ignored."""
        return self.root / "vendor" / "upstream"

    @property
    def project(self) -> Path:
        """The folder of the distribution that we publish."""
        return self.root / "livekit-plugins-resilient"

    @property
    def package(self) -> Path:
        return self.project / "livekit" / "plugins" / "resilient"

    @property
    def tree(self) -> Path:
        """The generated vendored tree; git-ignored."""
        return self.package / "_vendor"

    @property
    def cache(self) -> Path:
        return self.root / ".cache"
