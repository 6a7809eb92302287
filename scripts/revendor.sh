#!/usr/bin/env bash
# Moves the package to another upstream release: lock, pins, versions, checks, CHANGELOG. It works in
# a worktree of its own and commits on a new branch, revendor-VERSION, which it then checks out.
#
#   scripts/revendor.sh VERSION         to this upstream release
#   scripts/revendor.sh --newest        to the newest one in the supported range
#     --check                           try everything and report, but keep nothing
#     --tests PATH...  --no-tests       run only these tests, or none
#     --markdown FILE                   write the report there too
#
# Exit codes: 0 done, nothing needs a person; 1 done (or tried), something does: the list says what;
# 2 could not run or was interrupted: nothing was changed.
. "$(dirname "$0")/lib.sh"

ensure_venv
exec "$VENV/bin/python" "$ROOT/scripts/revendoring" "$@"
