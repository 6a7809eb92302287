#!/usr/bin/env bash
# A call per provider whose socket is cut in mid-reply, upstream's model beside ours. No key needed.
# Options: --mic FILE.wav (the caller's voice), --provider google|openai|both.
STARTED_IN=$PWD
. "$(dirname "$0")/lib.sh"

ensure_venv
PYTHONPATH=scripts "$VENV/bin/python" -m vendoring >/dev/null
cd "$STARTED_IN" # a relative --mic is the caller's
exec "$VENV/bin/python" "$ROOT/scripts/demo.py" "$@"
