# Shared by the scripts: the development environment in .venv, made on first use.
# Needs Python 3.10 to 3.13 (PYTHON names another than python3), git and a package index.

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
VENV="$ROOT/.venv"
# Each of many processes would compile every module again.
unset PYTHONDONTWRITEBYTECODE

fail() {
  printf '%s\n' "$*" >&2
  exit 2
}

python_of_host() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

# Installs the package (editable) and the tools, unless what decides about them is unchanged.
ensure_venv() {
  local python wanted stamp="$VENV/.stamp"
  wanted=$(cat pyproject.toml livekit-plugins-resilient/pyproject.toml livekit-plugins-resilient/hatch_build.py | cksum)
  if [ -x "$VENV/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; then
    return
  fi
  echo "Setting up .venv (first run: a minute or two) ..."
  if [ ! -x "$VENV/bin/python" ]; then
    python=$(python_of_host) || fail "Python 3.10 to 3.13 is needed; set PYTHON to one."
    "$python" -m venv "$VENV" || fail "venv could not be made: is the python3-venv package installed?"
  fi
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1" \
    || fail "pip could not be upgraded: is a package index reachable?"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
    --group dev --editable "livekit-plugins-resilient[testing,xai]" \
    || fail "The package could not be built and installed; the reason is above."
  printf '%s' "$wanted" >"$stamp"
}
