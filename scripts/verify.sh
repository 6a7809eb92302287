#!/usr/bin/env bash
# Checks every patch, override and private name that we rely on, on every upstream release from the
# oldest supported one to the newest on the index, runs the probes on bare and on patched upstream,
# on the locked release also without each patch, and prints a patch x version table.
#
#   scripts/verify.sh [VERSION...]    these versions and the locked one (default: all)
#   scripts/verify.sh --locked        only the locked version
#   scripts/verify.sh --static        without the probes, and without asking the index
#     --pre  --json FILE  --markdown FILE    pre-releases too; the report as a file
#   scripts/verify.sh --show ID       the diff that a patch makes, on the terminal
#   scripts/verify.sh --ack ID...     how the scopes differ from those reviewed last; with
#                                     --note TEXT the review is recorded (--version VERSION)
#
# Exit codes: 0 all OK on the locked version and newer ones, 1 something needs a person, 2 could not
# run. patches/README.md tells what each status means and what to do.
. "$(dirname "$0")/lib.sh"

case "${1:-}" in
  -h | --help)
    sed -n '/^# Checks/,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

ensure_venv
command=verify
case "${1:-}" in
  --show) command=show && shift ;;
  --ack) command=ack && shift ;;
esac
exec "$VENV/bin/python" "$ROOT/scripts/vendoring" "$command" "$@"
