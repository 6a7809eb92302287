"""Every error this package raises: one root, one leaf per thing that can go wrong.

`exit_code` is what the command line returns: 1 where a person must change a patch, a lock or a
declaration, 2 where the run itself could not be done.
"""

from __future__ import annotations

from typing import ClassVar

NEEDS_A_PERSON = 1
COULD_NOT_RUN = 2


class VendoringError(Exception):
    """Root of all errors of the vendoring scripts. Its text is one clear sentence."""

    exit_code: ClassVar[int] = COULD_NOT_RUN


class PipMissing(VendoringError):
    """The running interpreter has no pip, so nothing can be downloaded."""


class IndexUnreachable(VendoringError):
    """The package index did not answer."""


class DownloadFailed(VendoringError):
    """pip failed for a reason that is neither the network nor a hash."""


class HashMismatch(VendoringError):
    """A downloaded or stored file is not the one that the lock names."""

    exit_code = NEEDS_A_PERSON


class UnsupportedVersion(VendoringError):
    """An upstream version that is malformed, out of range or not in the lock files."""


class UnknownId(VendoringError):
    """The command line names a patch, override or private name that is not declared."""


class InvalidConfig(VendoringError):
    """A lock, target map or anchor file is malformed."""

    exit_code = NEEDS_A_PERSON


class InvalidPatch(VendoringError):
    """A patch, series or declaration file is malformed; names the field and what is allowed."""

    exit_code = NEEDS_A_PERSON


class NotInstalled(VendoringError):
    """A package that our code relies on is not there to be looked at."""


class ProbesNotRunnable(VendoringError):
    """The test environment cannot run the probes."""


class PatchProblem(VendoringError):
    """A well-formed patch (or override) does not fit this upstream source.

    `patch` is its id, `anchor` says in words what was looked for, `found` what was there instead.
    """

    exit_code = NEEDS_A_PERSON
    status: ClassVar[str] = "REFUSED"

    def __init__(self, found: str, *, anchor: str = "", patch: str = "") -> None:
        super().__init__(found, anchor, patch)
        self.found = found
        self.anchor = anchor
        self.patch = patch

    def locate(self, *, anchor: str = "", patch: str = "") -> None:
        """Fill in what the raiser did not know; what it did know is kept."""
        self.anchor = self.anchor or anchor
        self.patch = self.patch or patch

    def __str__(self) -> str:
        parts = (f"patch {self.patch}" if self.patch else "", self.anchor, self.found)
        return ": ".join(part for part in parts if part)


class NotFound(PatchProblem):
    """The anchor matches nothing."""

    status = "NOT-FOUND"


class Ambiguous(PatchProblem):
    """The anchor matches more than once."""

    status = "AMBIGUOUS"


class AlreadyApplied(PatchProblem):
    """The source already is as the patch would make it."""

    status = "OBSOLETE"


class Refused(PatchProblem):
    """The anchor was found, but the edit cannot be made safely there."""

    status = "REFUSED"
