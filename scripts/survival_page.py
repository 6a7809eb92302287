"""The survival table: one row per promise, what the caller met in words, docs/survival.md and the
README's part of it."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, TypeAlias

from benching import markdown_table

if TYPE_CHECKING:
    from tests.scenarios.outcome import Met
    from tests.scenarios.registry import Promise, Scenario

Status: TypeAlias = 'Met | Literal["error"]'
COMMAND = "scripts/bench.sh survival --only"
WORST_FIRST: tuple[Status, ...] = (
    "error",
    "hung",
    "call ended",
    "never answered",
    "left in silence",
    "answered",
    "state wrong",
    "kept",
)
WORDS = {
    "kept": "as promised. Where it is known, with the dead air: the longest time in which neither "
    "the agent nor the caller was audible, from the fault on or from the end of a question.",
    "answered": "not as promised, after the longest wait of the caller, which is given.",
    "heard": "the same where the caller had asked nothing.",
    "late or wrong": "whatever was asked was answered in time, but the record, the session, the "
    "connections or the events were not as promised, or not in time.",
    "left in silence": "the agent was not heard again, until the wait was given up.",
    "never answered": "the same, and something had been asked: by the caller, or by the "
    "application for a reply.",
    "call ended": "the session closed or the model gave up, so long after the fault.",
    "hung": "the call came to no end.",
}
"""What the words of the table mean."""

REASON_WIDTH = 140
MOST_REASONS = 3
_SERVER_WAIT = re.compile(r"^'(\S+)' x\d+(?: on connection \d+)? did not happen within (.+)$")
_LISTED = re.compile(r"(?<!not so): \[.*$")
_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True)
class Result:
    """One run: a `tests.scenarios.outcome.Outcome`, or "error" where the scenario or the simulator
    is at fault and not the model; `took_s` is real time."""

    met: Status
    why: str = ""
    seconds: float | None = None
    told: bool = True
    took_s: float = 0.0

    @property
    def survived(self) -> bool:
        return self.met == "kept"


@dataclass(frozen=True)
class Row:
    """One scenario with both models."""

    scenario: Scenario
    upstream: Result
    ours: Result

    @property
    def surprising(self) -> bool:
        """Whether our model did other than the catalogue says."""
        expected = not self.scenario.waits_for
        broken = "error" in (self.upstream.met, self.ours.met)
        return broken or self.ours.survived != expected


@dataclass(frozen=True)
class PromiseRow:
    """One promise, with those of its variants that were played."""

    promise: Promise
    rows: tuple[Row, ...]

    @property
    def upstream(self) -> list[Result]:
        return [row.upstream for row in self.rows]

    @property
    def ours(self) -> list[Result]:
        return [row.ours for row in self.rows]

    @property
    def rules(self) -> str:
        return ", ".join(self.promise.rules)

    def ours_in_words(self) -> str:
        waits = sorted({rule for row in self.rows for rule in row.scenario.waits_for})
        return in_words(self.ours) + (f" (waits for {', '.join(waits)})" if waits else "")

    def command(self) -> str:
        return f"{COMMAND} {self.promise.name}"


def by_promise(rows: Iterable[Row], promises: Iterable[Promise]) -> list[PromiseRow]:
    """The rows in the order of the promises, which are left out where nothing was played."""
    played = {row.scenario.name: row for row in rows}
    found = []
    for promise in promises:
        own = tuple(played[entry.name] for entry in promise.variants if entry.name in played)
        if own:
            found.append(PromiseRow(promise, own))
    return found


# Words -------------------------------------------------------------------------------------


def in_words(results: Sequence[Result]) -> str:
    """In how many calls a promise was kept, and what the caller met in them, the worst first."""
    kept = f"{sum(result.survived for result in results)} of {len(results)}"
    groups = [[result for result in results if result.met == met] for met in WORST_FIRST]
    groups = [group for group in groups if group]
    if len(groups) == 1:
        text = _group_in_words(groups[0]).removeprefix("kept").removeprefix(", ")
        return f"{kept}: {text}" if text else kept
    texts = [f"{_group_in_words(group)} ({_calls(len(group))})" for group in groups]
    return f"{kept}: {'; '.join(texts)}"


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _group_in_words(group: Sequence[Result]) -> str:
    """What calls with the same fate have in common."""
    met = group[0].met
    after = _range(result.seconds for result in group)
    why = _reasons(group)
    # What was waited for is said by the promise; what was seen to be wrong may not be.
    broken = _reasons([result for result in group if result.why.startswith("not so")])
    broken = f", {broken}" if broken else ""
    if met == "kept":
        return f"kept, dead air {after}" if after else "kept"
    if met == "call ended":
        untold = "" if all(result.told for result in group) else ", without a close event"
        return f"call ended {_after(after)}{untold}{broken}"
    if met in ("never answered", "left in silence"):
        return f"{met}, given up {_after(after)}{broken}"
    if met == "answered":
        return f"answered {_after(after)}, but {why}" if after else f"heard, but {why}"
    word = "late or wrong" if met == "state wrong" else met
    return f"{word}, {why}" if why.startswith("not so") else f"{word}: {why}"


def _range(given: Iterable[float | None]) -> str:
    """The least and the most of what is known, in seconds."""
    known = [seconds for seconds in given if seconds is not None]
    if any(math.isinf(seconds) for seconds in known):
        return "for good"
    texts = list(dict.fromkeys(f"{seconds:.1f}" for seconds in sorted(known)))
    return f"{texts[0]} to {texts[-1]} s" if len(texts) > 1 else "".join(f"{t} s" for t in texts)


def _after(seconds: str) -> str:
    return "at once" if seconds == "0.0 s" else f"after {seconds}"


def _reasons(group: Iterable[Result]) -> str:
    """What was not so, each once although the numbers may differ."""
    found: dict[str, str] = {}
    for result in group:
        text = reason(result.why)
        found.setdefault(_NUMBER.sub("#", text), text)
    texts = list(found.values())
    more = [f"{len(texts) - MOST_REASONS} more"] if len(texts) > MOST_REASONS else []
    return "; ".join(texts[:MOST_REASONS] + more)


def reason(why: str) -> str:
    """Why a promise was broken, without what differs from run to run."""
    text = _SERVER_WAIT.sub(r"no \1 within \2", why)
    text = _LISTED.sub("", text)
    return textwrap.shorten(text, REASON_WIDTH, placeholder=" ...")


# Counts ------------------------------------------------------------------------------------


def counts(own: Sequence[PromiseRow], side: Callable[[PromiseRow], list[Result]]) -> str:
    """How many promises are kept in every call, and in brackets how many calls went well."""
    promises = sum(all(result.survived for result in side(row)) for row in own)
    return f"{promises} ({sum(result.survived for row in own for result in side(row))})"


def upstream_of(row: PromiseRow) -> list[Result]:
    return row.upstream


def ours_of(row: PromiseRow) -> list[Result]:
    return row.ours


def total(own: Sequence[PromiseRow]) -> str:
    return f"{len(own)} ({sum(len(row.rows) for row in own)})"


def summary(table: Sequence[PromiseRow]) -> list[str]:
    """One line per provider."""
    lines = []
    for provider in dict.fromkeys(row.promise.provider for row in table):
        own = [row for row in table if row.promise.provider == provider]
        lines.append(
            f"{provider}: of {total(own)} promises upstream keeps {counts(own, upstream_of)}, "
            f"ours {counts(own, ours_of)}"
        )
    return lines


def readme_part(table: Sequence[PromiseRow]) -> str:
    """Who keeps how many promises of each kind of fault."""
    from tests.scenarios.legend import KINDS

    every = sum(len(row.rows) for row in table)
    ours = sum(all(result.survived for result in row.ours) for row in table)
    theirs = sum(all(result.survived for result in row.upstream) for row in table)
    lines = [
        f"Of {len(table)} promises upstream's models keep {theirs}, and ours {ours}. Some are",
        f"tested in several calls, one per close code, say: {every} in all, counted in brackets.",
        "",
        "| kind of fault | promises (calls) | upstream keeps | ours keep |",
        "|---|---|---|---|",
    ]
    for kind, title in KINDS.items():
        own = [row for row in table if row.promise.kind == kind]
        if own:
            cells = (title, total(own), counts(own, upstream_of), counts(own, ours_of))
            lines.append(f"| {' | '.join(cells)} |")
    cells = ("all", total(table), counts(table, upstream_of), counts(table, ours_of))
    return "\n".join([*lines, f"| {' | '.join(cells)} |"])


# docs/survival.md --------------------------------------------------------------------------

HEADINGS = ("promise", "rule", "with upstream's model", "with ours", "play it")


def page(table: Sequence[PromiseRow]) -> str:
    """The whole of docs/survival.md."""
    from tests.scenarios.legend import KINDS, RULES

    lines = [
        "# Survival",
        "",
        "What a caller experiences when the connection to the model fails, with upstream's model",
        "and with ours. A row is a promise: one sentence, tested in one call or in several that",
        "differ in the close code, the provider's public name or the moment of the fault. Each is",
        "a whole call against a simulated server; its control, the same call without the fault,",
        "passes with both. Written by `scripts/bench.sh survival`.",
        "",
        f"Upstream: livekit-agents {version('livekit-agents')}, "
        f"livekit-plugins-google {version('livekit-plugins-google')}, "
        f"livekit-plugins-openai {version('livekit-plugins-openai')}.",
        "",
        "A promise is kept if it is kept in every call; the numbers of calls stand in brackets.",
        "",
        *(f"- {line}" for line in summary(table)),
        "",
        "## How to read it",
        "",
        "`0 of 4` says in how many of a promise's calls it was kept; then comes what the caller",
        "met in them, told by the run itself:",
        "",
        *(f"- *{word}*: {meaning}" for word, meaning in WORDS.items()),
        "",
        '"At once" is less than 0.05 s. The link leads to the file of the function that makes the',
        "call; the command plays all calls of the promise. R codes are explained [below](#rules).",
        "",
    ]
    for kind, title in KINDS.items():
        own = [row for row in table if row.promise.kind == kind]
        if own:
            rows = [HEADINGS, *(_cells(row) for row in own)]
            lines += [f"## {kind}: {title}", "", *markdown_table(rows), ""]
    used = {rule for row in table for rule in row.promise.rules}
    rules = [f"- **{rule}**: {text}" for rule, text in RULES.items() if rule in used]
    return "\n".join([*lines, "## Rules", "", *rules, ""])


def _cells(row: PromiseRow) -> tuple[str, ...]:
    promise = row.promise
    source = f"[`{promise.function}`](../{promise.source})"
    cells = (
        f"{promise.provider}: {promise.sentence} {source}",
        row.rules,
        in_words(row.upstream),
        row.ours_in_words(),
        f"`{row.command()}`",
    )
    return tuple(cell.replace("|", "\\|") for cell in cells)
