"""Upstream's own tests of its realtime plugins, on upstream's classes and on ours.

    scripts/bench.sh upstream-tests CHECKOUT

CHECKOUT is a clone of livekit/agents at the vendored release, or the nearest there is. Prints how
often each pair of outcomes came, and a table of the tests that end differently.

Ends with 0 where every test that passes on upstream passes on ours or builds a session without its
constructor, with 1 where one does not, and with 2 where the tests could not be run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TypeAlias

from upstream_tests_plugin import NO_CONSTRUCTOR

from vendoring.forks import Forks

Outcomes: TypeAlias = dict[str, tuple[str, str]]
"""What became of each test, by its pytest id, and why it did not pass."""

HERE = Path(__file__).resolve().parent

# What both runs import, whichever classes they try.
SHARED = (
    "pytest",
    "livekit.agents",
    "google.genai",
    "google.cloud.speech_v2",
    "google.cloud.texttospeech",
    "openai.types.realtime",
    "openai.types.beta.realtime",
)

# Modules of upstream's suite that have to do with the classes that we replace.
_CONCERNS = re.compile(
    r"plugins\.(google|openai)\.(beta\.)?realtime|plugins\.(google|openai) import .*realtime"
    r"|agents\.llm\._realtime|inference\.realtime|inference\.RealtimeModel|plugins\.xai"
)


def relevant(tests: Path) -> list[str]:
    """The modules below `tests` that use a replaced class, as paths from the checkout."""
    return [
        str(path.relative_to(tests.parent))
        for path in sorted(tests.rglob("test_*.py"))
        if _CONCERNS.search(path.read_text("utf-8"))
    ]


def run(
    checkout: Path, modules: list[str], forks: Forks, *, ours: bool, timeout_s: int
) -> Outcomes:
    """Run the modules on upstream's classes, or on ours.

    Raises:
        RuntimeError: pytest wrote no result.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "outcomes.json"
        environment = os.environ | {
            "UPSTREAM_TESTS_RESULT": str(result),
            "UPSTREAM_TESTS_OURS": "1" if ours else "",
            "UPSTREAM_TESTS_TIMEOUT_S": str(timeout_s),
        }
        arguments = [
            *("-p", "upstream_tests_plugin", "-p", "no:cacheprovider", "-q"),
            # Their libraries are imported already, so that their assertions stay as they are.
            *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
            *("--continue-on-collection-errors", *modules),
        ]
        done = forks.run(
            "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))",
            arguments,
            cwd=checkout,
            env=environment,
            path=[HERE],
            timeout_s=math.inf,
        )
        if not result.exists():
            raise RuntimeError((done.stdout + done.stderr)[-2000:])
        return {test: (end, why) for test, (end, why) in json.loads(result.read_text()).items()}


def report(upstream: Outcomes, ours: Outcomes) -> int:
    """Print what differs; returns how many tests fail on ours without a reason."""
    counts: Counter[tuple[str, str]] = Counter()
    rows: list[tuple[str, str, str, str]] = []
    unexcused = 0
    for test, (theirs, _) in sorted(upstream.items()):
        mine, why = ours.get(test, ("missing", ""))
        counts[theirs, mine] += 1
        if theirs == mine:
            continue
        reason = why if theirs == "passed" else "upstream does not pass it"
        if theirs == "passed" and not why.startswith(NO_CONSTRUCTOR):
            unexcused += 1
            reason = f"NO REASON: {why}"
        rows.append((test, theirs, mine, reason))
    for (theirs, mine), count in sorted(counts.items()):
        print(f"{count:5}  upstream {theirs:8} ours {mine}")
    if rows:
        width = max(len(row[0]) for row in rows)
        print(f"\n{'test':{width}}  {'upstream':8}  {'ours':8}  reason")
        for test, theirs, mine, reason in rows:
            print(f"{test:{width}}  {theirs:8}  {mine:8}  {reason}")
    print(f"\n{unexcused} pass on upstream's classes and fail on ours without a known reason")
    return unexcused


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(
        prog="bench.sh upstream-tests", description=__doc__.splitlines()[0]
    )
    parser.add_argument("checkout", type=Path, help="a clone of livekit/agents")
    parser.add_argument("--timeout", type=int, default=60, help="seconds that a test may take")
    given = parser.parse_args()
    tests = given.checkout / "tests"
    modules = relevant(tests) if tests.is_dir() else []
    if not modules:
        print(f"no test in {tests} uses a realtime class: give a clone of livekit/agents")
        return 2
    try:
        with Forks(SHARED) as forks:
            upstream = run(given.checkout, modules, forks, ours=False, timeout_s=given.timeout)
            ours = run(given.checkout, modules, forks, ours=True, timeout_s=given.timeout)
    except RuntimeError as error:
        print(f"pytest could not be run in {given.checkout}:\n{error}")
        return 2
    return 1 if report(upstream, ours) else 0


if __name__ == "__main__":
    sys.exit(main())
