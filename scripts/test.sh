#!/usr/bin/env bash
# All checks: lint, format, types, tests, and every patch on the locked upstream version.
# Arguments go to pytest; with any, only pytest runs.
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
step "pytest" "$VENV/bin/python" -m pytest
