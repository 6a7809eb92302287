#!/usr/bin/env bash
# All checks: lint, format, types, tests, and every patch on the locked upstream version.
# Arguments go to pytest; with any, only pytest runs. Takes nine to ten minutes on two idle cores.
. "$(dirname "$0")/lib.sh"

ensure_venv
if [ $# -gt 0 ]; then
  exec "$VENV/bin/python" -m pytest "$@"
fi

step() {
  printf '\n== %s\n' "$1"
  shift
  "$@"
}

step "vendored source" env PYTHONPATH=scripts "$VENV/bin/python" -m vendoring
step "ruff check" "$VENV/bin/ruff" check .
step "ruff format" "$VENV/bin/ruff" format --check .
step "mypy --strict" "$VENV/bin/mypy"
step "verify patches on the locked version" scripts/verify.sh --locked

# Calls on the real clock mostly wait, so they do so beside the others.
real_clock=$(mktemp)
trap 'rm -f "$real_clock"' EXIT
"$VENV/bin/python" -m pytest tests/real_clock >"$real_clock" 2>&1 &
waiting=$!
failed=0
step "pytest" "$VENV/bin/python" -m pytest -n 2 --dist worksteal --ignore tests/real_clock || failed=$?
wait "$waiting" || failed=$?
step "pytest, on the real clock" cat "$real_clock"
exit "$failed"
