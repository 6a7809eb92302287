#!/usr/bin/env bash
# Checks every patch and override on the locked upstream version and on every other supported one,
# runs the probes on bare and patched upstream, and prints a patch x version table.
#
#   scripts/verify.sh [VERSION...]   these versions besides the locked one (default: all)
#   scripts/verify.sh --locked       only the locked version
#   scripts/verify.sh --static       without the probes
#   scripts/verify.sh --show ID      the diff that a patch makes, on the terminal
#   scripts/verify.sh --ack ID...    record a review: needs --note TEXT, may have --version VERSION
#
# Exit codes: 0 the locked version is all OK, 1 something needs a person, 2 could not run.
. "$(dirname "$0")/lib.sh"

ensure_venv
command=verify
case "${1:-}" in
  --show) command=show && shift ;;
  --ack) command=ack && shift ;;
esac
exec "$VENV/bin/python" "$ROOT/scripts/vendoring" "$command" "$@"
