"""git: is the checkout clean, a worktree to try things in, and a branch for what came of it.

Nothing here writes to the files of the checkout that a person works in, except `switch`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vendoring.layout import Layout

from .errors import BranchExists, DirtyTree, GitFailed, NoCheckout


class Checkout:
    """The checkout that a person works in."""

    def __init__(self, layout: Layout) -> None:
        """Raises NoCheckout without git, or where `layout.root` is not the top of a checkout."""
        self.layout = layout
        try:
            top = self._git("rev-parse", "--show-toplevel")
            self.head = self._git("rev-parse", "HEAD")
        except FileNotFoundError as e:
            raise NoCheckout("git is not installed") from e
        except GitFailed as e:
            raise NoCheckout(f"{layout.root} is not a git checkout with a commit") from e
        if Path(top).resolve() != layout.root.resolve():
            raise NoCheckout(f"{layout.root} is not the top of a git checkout")

    def require_clean(self) -> None:
        """Raises DirtyTree naming what is not committed; ignored files do not count."""
        lines = self._git("status", "--porcelain").splitlines()
        if lines:
            names = ", ".join(line.split(maxsplit=1)[1] for line in lines[:3])
            more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
            raise DirtyTree(
                f"the checkout has changes that are not committed ({names}{more}): "
                "commit or put them away first"
            )

    def require_committer(self) -> None:
        """Raises GitFailed when git knows nobody to commit as."""
        try:
            self._git("var", "GIT_COMMITTER_IDENT")
        except GitFailed as e:
            raise GitFailed("git has no name and address to commit with: set user.email") from e

    def require_no_branch(self, name: str) -> None:
        """Raises BranchExists."""
        if self._git("branch", "--list", name):
            raise BranchExists(
                f"there is a branch {name} already: go on there (`git switch {name}`), "
                f"or remove it (`git branch -D {name}`) to begin anew"
            )

    def tags(self) -> list[str]:
        """All tags."""
        return self._git("tag", "--list").split()

    def tags_of_head(self) -> list[str]:
        """The tags on the commit that is checked out."""
        return self._git("tag", "--points-at", self.head).split()

    def commit_time(self) -> int:
        """Seconds since 1970 of the commit that is checked out."""
        return int(self._git("log", "-1", "--format=%ct", self.head))

    @contextlib.contextmanager
    def worktree(self, label: str) -> Iterator[Layout]:
        """A second checkout of the same commit below .cache, gone afterwards whatever happens.

        It begins with copies of the fetched upstream sources, which are checked by hash before use.
        """
        folder = self.layout.cache / "worktrees"
        self._remove_abandoned(folder)
        root = folder / f"{label}-{os.getpid()}"
        try:
            self._git("worktree", "add", "--detach", "--quiet", str(root), self.head)
            layout = Layout(root)
            if self.layout.pristine.is_dir():
                shutil.copytree(
                    self.layout.pristine, layout.pristine, ignore=shutil.ignore_patterns(".lock")
                )
            yield layout
        finally:
            self._remove(root)

    def commit(self, worktree: Layout, message: str) -> str:
        """Commit everything in a worktree. Returns the commit; no branch names it yet."""
        self._git("add", "--all", at=worktree.root)
        self._git("commit", "--quiet", "--no-verify", "-m", message, at=worktree.root)
        return self._git("rev-parse", "HEAD", at=worktree.root)

    def switch(self, branch: str, commit: str) -> None:
        """Make a branch at a commit and check it out; the checkout must still be clean."""
        self.require_clean()
        self._git("switch", "--quiet", "--create", branch, commit)

    def _remove_abandoned(self, folder: Path) -> None:
        """Worktrees of processes that were killed and could not tidy up."""
        for root in folder.glob("*-*"):
            owner = root.name.rpartition("-")[2]
            if owner.isdigit() and not _is_running(int(owner)):
                self._remove(root)

    def _remove(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        with contextlib.suppress(GitFailed):
            self._git("worktree", "prune")

    def _git(self, *arguments: str, at: Path | None = None) -> str:
        # Variables that a calling git (a hook, a rebase) has set would point at its own checkout.
        own = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_INDEX_FILE")}
        run = subprocess.run(
            ["git", *arguments],
            cwd=at or self.layout.root,
            env={**own, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            said = run.stderr.strip().splitlines()
            raise GitFailed(f"git {arguments[0]} failed: {said[-1] if said else 'it said nothing'}")
        return run.stdout.rstrip("\n")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
