#!/usr/bin/env bash
# Builds wheel and sdist of the commit that is checked out, twice, compares the bytes, looks into
# them, installs each into a fresh environment of every Python found, and makes a call there. What
# passes is put into dist/VERSION with its checksums; uploading it is left to a person.
#
#   scripts/release.sh                a release: the commit must be tagged, the CHANGELOG dated
#     --rehearsal                     want neither, and keep nothing
#     --python X.Y                    try only this Python (may be given several times)
#     --no-install                    leave the installs out (only with --rehearsal)
#
# Exit codes: 0 all fine; 1 something needs a person; 2 could not run or was interrupted: nothing is
# left behind.
. "$(dirname "$0")/lib.sh"

ensure_venv
exec "$VENV/bin/python" "$ROOT/scripts/releasing" "$@"
