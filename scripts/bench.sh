#!/usr/bin/env bash
# Benchmarks. `survival`: the fault catalogue with upstream's model and with ours, in one table;
# options: --only NAME, --provider gemini|openai, --json FILE, --markdown FILE.
. "$(dirname "$0")/lib.sh"

case "${1:-}" in
  survival) ;;
  *) fail "usage: scripts/bench.sh survival [options]" ;;
esac
benchmark="$1"
shift
ensure_venv
PYTHONPATH=scripts "$VENV/bin/python" -m vendoring
exec "$VENV/bin/python" "scripts/$benchmark.py" "$@"
