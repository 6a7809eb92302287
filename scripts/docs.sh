#!/usr/bin/env bash
# Writes the pages that are made from the code: docs/architecture.md.
. "$(dirname "$0")/lib.sh"

ensure_venv
PYTHONPATH=scripts "$VENV/bin/python" -m vendoring >/dev/null
exec "$VENV/bin/python" scripts/architecture.py
