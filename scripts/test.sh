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
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

# mypy keeps one core busy, so the patches are tried beside it. What both say is shown in this order.
static() {
  step "ruff check" "$VENV/bin/ruff" check . \
    && step "ruff format" "$VENV/bin/ruff" format --check . \
    && step "mypy --strict" "$VENV/bin/mypy"
}
failed=0
static >"$said/static" 2>&1 &
checking=$!
scripts/verify.sh --locked >"$said/patches" 2>&1 || failed=$?
wait "$checking" || failed=$?
cat "$said/static"
step "verify patches on the locked version" cat "$said/patches"
[ "$failed" = 0 ] || exit "$failed"

# Calls on the real clock mostly wait, so they do so beside the others.
"$VENV/bin/python" -m pytest tests/real_clock >"$said/real_clock" 2>&1 &
waiting=$!
step "pytest" "$VENV/bin/python" -m pytest -n 2 --dist worksteal --ignore tests/real_clock || failed=$?
wait "$waiting" || failed=$?
step "pytest, on the real clock" cat "$said/real_clock"
exit "$failed"
