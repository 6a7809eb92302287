"""Moving to another upstream release, tried in a worktree of its own (scripts/revendor.sh).

Start with `revendor.revendor`. CONTRIBUTING.md tells how to use it.
"""
