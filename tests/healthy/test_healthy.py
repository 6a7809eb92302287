"""A sample of the healthy corpus, and what holds for the whole of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient.testing import Reply
from tests.scenarios.call_script import PROVIDERS

from . import beside
from .meant import MEANT, shown_by
from .run import judge
from .script import HealthyScript, corpus, sample

CORPUS = corpus()
SAMPLE = sample(CORPUS.values())
LEAST = 100
PAGE = Path(__file__).parents[2] / "docs" / "healthy.md"


@pytest.mark.parametrize("script", [pytest.param(s, id=s.name) for s in SAMPLE])
def test_nobody_can_tell_our_model_from_upstreams(script: HealthyScript) -> None:
    verdict = judge(script)
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize("name", shown_by())
def test_a_meant_difference_is_met(name: str) -> None:
    met = judge(CORPUS[name]).meant
    assert not set(shown_by()[name]) - met


@pytest.mark.parametrize("script", [pytest.param(s, id=s.name) for s in SAMPLE[::9]])
def test_upstreams_model_is_equal_to_itself(script: HealthyScript) -> None:
    """What the harness finds is not its own doing."""
    verdict = judge(script, "upstream")
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize("name", ["gemini-greeting", "openai-greeting"])
def test_a_model_that_swallows_sound_is_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = resilient.google if name.startswith("gemini") else resilient.openai
    session = module.realtime.RealtimeSession
    push_audio, pushed = session.push_audio, 0

    def forgetful(self: Any, frame: Any) -> None:
        nonlocal pushed
        pushed += 1
        if pushed != 40:
            push_audio(self, frame)

    monkeypatch.setattr(session, "push_audio", forgetful)
    verdict = judge(CORPUS[name])
    assert not verdict.equal
    # Less sound also makes one message less, where the call ends just then.
    assert {found.channel for found in verdict.differences} - {"end"} == {"wire"}


@pytest.mark.parametrize("name", ["gemini-turns", "openai-turns"])
def test_a_model_that_moves_the_call_is_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound below what healthy servers need; set where no check of options is in the way."""
    from livekit.plugins.resilient import options

    bounds = options.ResilienceOptions.bounds

    def hasty(self: Any, provider: Any) -> Any:
        made = bounds(self, provider)
        object.__setattr__(made, "unheard_after_s", 0.1)
        object.__setattr__(made, "speech_quiet_s", 0.1)
        return made

    monkeypatch.setattr(options.ResilienceOptions, "bounds", hasty)
    verdict = judge(CORPUS[name])
    # Gemini's set-up takes so long that the old connection proves alive meanwhile.
    assert bool(verdict.decisions) == (name == "openai-turns")
    assert any(found.label == "2 dial" for found in verdict.differences), str(verdict)


@pytest.mark.parametrize("name", ["gemini-turns-before-the-answer-16s"])
def test_a_slow_reply_is_asked_of_another_connection_that_nobody_notices(name: str) -> None:
    verdict = judge(CORPUS[name])
    assert verdict.equal, str(verdict)
    assert verdict.beside > 0


@pytest.mark.parametrize("name", ["gemini-turns-before-the-answer-16s"])
def test_a_connection_beside_that_serves_is_found_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "LATER", Reply("Somebody hears this.", first_token_s=1.0))
    verdict = judge(CORPUS[name])
    assert any("HedgeOutcome" in decision for decision in verdict.decisions)
    assert {"heard", "wire"} <= {found.channel for found in verdict.differences}


def test_the_corpus_is_large_enough() -> None:
    for provider in PROVIDERS:
        assert sum(script.provider == provider for script in CORPUS.values()) >= LEAST


def test_the_sample_has_every_situation() -> None:
    assert {s.situation for s in SAMPLE} == {s.situation for s in CORPUS.values()}
    assert {s.group for s in SAMPLE} == {s.group for s in CORPUS.values()}
    assert {s.flavour for s in SAMPLE} == {s.flavour for s in CORPUS.values()}


def test_the_names_of_meant_differences_are_unique() -> None:
    assert len({entry.name for entry in MEANT}) == len(MEANT)


def test_the_page_has_the_table_of_meant_differences() -> None:
    rows = [f"| {entry.what} | {entry.reason} |" for entry in MEANT]
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert written[1:] == rows, "\n".join(rows)
