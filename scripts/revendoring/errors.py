"""What can keep a move or a release from being tried at all. Each ends the command with code 2."""

from __future__ import annotations

from vendoring.errors import VendoringError


class DirtyTree(VendoringError):
    """The checkout has changes that are not committed, so it is not clear what is being moved."""


class NoCheckout(VendoringError):
    """git is missing, or the folder is no git checkout with a commit."""


class BranchExists(VendoringError):
    """The branch that the result would go to is there already."""


class GitFailed(VendoringError):
    """git refused something that should have worked."""


class NoEnvironment(VendoringError):
    """An environment to try things in could not be made."""


class Misplaced(VendoringError):
    """A file does not say its version where, or in the form in which, it has to."""
