"""What a mutant is: one small change of our code, after which some scenario must fail."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["PACKAGE", "Mutant"]

PACKAGE = "livekit.plugins.resilient"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One decision of the product, left out.

    Attributes:
        name: kebab-case, what breaks.
        sentence: what the product no longer does.
        module: dotted, below `livekit.plugins.resilient`; none of the generated tree.
        old: a piece of the module's source that occurs once.
        new: what stands there instead. Where `old` calls what upstream's code would have done
            itself, this is what upstream does.
    """

    name: str
    sentence: str
    module: str
    old: str = field(repr=False)
    new: str = field(repr=False)

    @property
    def module_name(self) -> str:
        """The module's full name."""
        return f"{PACKAGE}.{self.module}"

    def applied_to(self, source: str) -> str:
        """The module's source with the change.

        Raises:
            ValueError: `old` does not occur exactly once in it.
        """
        count = source.count(self.old)
        if count != 1:
            raise ValueError(
                f"mutant {self.name}: its old text occurs {count} times in {self.module}"
            )
        return source.replace(self.old, self.new)

    def source(self) -> str:
        """The module's own source. Imports the packages above the module."""
        spec = importlib.util.find_spec(self.module_name)
        if spec is None or spec.origin is None:
            raise ValueError(f"mutant {self.name}: there is no module {self.module}")
        return Path(spec.origin).read_text(encoding="utf-8")
