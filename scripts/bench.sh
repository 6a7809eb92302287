#!/usr/bin/env bash
# Benchmarks. `survival`: the fault catalogue with upstream's model and with ours, in one table;
# options: --only NAME (a promise, or one of its scenarios), --provider gemini|openai, --json FILE,
# --markdown FILE.
# `healthy`: the healthy corpus, in which both must do the same; options: --only NAME (or a part of
# names), --provider gemini|openai, --markdown FILE.
# `mutants`: each scenario with a mutant of our code that must fail it; options: --only NAME (or a part
# of names), --provider gemini|openai.
# `upstream-tests CHECKOUT`: upstream's own tests, from a checkout of its repository, on upstream's
# classes and on ours.
# `recordings FOLDER`: the facts of the conformance test against the recordings that they name.
# `hedging`: how long a caller waits for a late reply, with upstream's model and with ours.
# `core`: what one fact costs the conversation core, with short and with long histories.
. "$(dirname "$0")/lib.sh"

case "${1:-}" in
  survival) script=scripts/survival.py ;;
  healthy) script=scripts/healthy.py ;;
  mutants) script=scripts/mutants.py ;;
  upstream-tests) script=scripts/upstream_tests.py ;;
  recordings) script=scripts/recordings.py ;;
  hedging) script=scripts/hedging.py ;;
  core) script=scripts/bench_core.py ;;
  *) fail "usage: scripts/bench.sh survival|healthy|mutants|upstream-tests|recordings|hedging|core [options]" ;;
esac
shift
ensure_venv
PYTHONPATH=scripts "$VENV/bin/python" -m vendoring
exec "$VENV/bin/python" "$script" "$@"
