"""One scenario of each kind, and a sample of healthy calls, on an ordinary event loop."""

from __future__ import annotations

import pytest

from tests.real_clock import healthy
from tests.real_clock.runner import Play, Runner, plays
from tests.real_clock.selection import FASTEST, LOADED_KINDS, scenarios
from tests.scenarios.registry import catalogue


@pytest.mark.parametrize("play", plays(scenarios()), ids=str)
def test_our_model_survives(play: Play, runner: Runner) -> None:
    runner.result(play)


@pytest.mark.parametrize("play", plays(scenarios(LOADED_KINDS), loaded=True), ids=str)
def test_our_model_survives_on_a_loaded_loop(play: Play, runner: Runner) -> None:
    runner.result(play)


@pytest.mark.parametrize("play", plays(healthy.sample()), ids=str)
def test_a_healthy_call_is_left_alone(play: Play, runner: Runner) -> None:
    runner.result(play)


@pytest.mark.parametrize("play", plays(healthy.sample(healthy.LOADED), loaded=True), ids=str)
def test_a_healthy_call_is_left_alone_on_a_loaded_loop(play: Play, runner: Runner) -> None:
    runner.result(play)


def test_every_kind_of_a_provider_is_played_once() -> None:
    every = catalogue()
    played = [(every[name].provider, every[name].kind) for name in FASTEST]
    assert sorted(played) == sorted({(entry.provider, entry.kind) for entry in every.values()})
