#!/usr/bin/env bash
# A call per provider whose socket is cut in mid-reply, upstream's model beside ours. No key needed.
# Options: --mic FILE.wav (the caller's voice), --provider google|openai|both.
. "$(dirname "$0")/lib.sh"

ensure_venv
PYTHONPATH=scripts "$VENV/bin/python" -m vendoring
exec "$VENV/bin/python" scripts/demo.py "$@"
