"""Vendoring of upstream's realtime engines: fetch by hash, patch, verify.

Start with `tree.ensure`, which `python -m vendoring` runs. How to write a patch is told in
patches/README.md; what the lock files and the target map are for, in vendor/README.md.
"""

from __future__ import annotations

from .errors import VendoringError
from .tree import ensure

__all__ = ["VendoringError", "ensure"]
