"""Checks the facts of the conformance test against the recordings that they name, and that what
the providers sent in any of them is handled as it is.

FOLDER holds gemini.jsonl and openai.jsonl, the skeletons of recorded sessions; they are not part
of this project.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from livekit.plugins.resilient.openai.event_shapes import read_event  # noqa: E402
from tests.conformance import gemini, openai  # noqa: E402
from tests.conformance.facts import Step, broken, load  # noqa: E402
from tests.conformance.recordings import read  # noqa: E402

_Recorded = Callable[[Sequence[Sequence[Any]]], list[Step]]
_Measures = Callable[[Sequence[Step]], Mapping[str, float]]
PROVIDERS: Mapping[str, tuple[_Recorded, _Measures]] = {
    "gemini": (gemini.recorded, gemini.measures),
    "openai": (openai.recorded, openai.measures),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench.sh recordings", description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    folder: Path = parser.parse_args().folder
    wrong = checked = 0
    for provider, (recorded, measures) in PROVIDERS.items():
        sessions = read(folder / f"{provider}.jsonl")
        for fact in load(ROOT / "tests" / "conformance" / f"{provider}.toml"):
            if fact.source != "recording":
                continue
            checked += 1
            steps = sessions.get(fact.where)
            session = [] if steps is None else recorded(steps)
            problems = (
                broken(fact, session, measures(session)) if session else ["no such recording"]
            )
            for problem in problems:
                print(f"{provider} {fact.id}, {fact.where}: {problem}")
            wrong += bool(problems)
    print(f"{checked - wrong} of {checked} facts hold of their recordings")
    events = [
        (name, step[2])
        for name, steps in read(folder / "openai.jsonl").items()
        for step in steps
        if step[0] == "<"
    ]
    odd = [
        (name, event) for name, event in events if read_event(json.dumps(event)) != (event, False)
    ]
    for name, event in odd:
        print(f"openai {name}: {event['type']} is not taken as it is")
    print(f"{len(events) - len(odd)} of {len(events)} recorded events are taken as they are")
    return 1 if wrong or odd else 0


if __name__ == "__main__":
    sys.exit(main())
