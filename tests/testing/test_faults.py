"""Fault plans: checked on entry, written as TOML, counted exactly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from livekit.plugins.resilient.testing import faults
from livekit.plugins.resilient.testing.errors import FaultPlanError
from livekit.plugins.resilient.testing.fault_plan import (
    FaultEngine,
    load_plan,
    parse_plan,
    snake_case,
)
from livekit.plugins.resilient.testing.faults import (
    Abort,
    AtAudio,
    Before,
    Close,
    Fault,
    NoHandle,
    OnConnection,
    Received,
    Refuse,
    SessionExpired,
    StaleHandle,
    Swallow,
)
from livekit.plugins.resilient.testing.gemini.codec import VOCABULARY

PLAN = """
[[fault]]
trigger = { name = "at_audio", position_s = 1, connection = 1 }
action = "abort"

[[fault]]
trigger = { name = "on_connection", connection = 2 }
action = [{ name = "stale_handle", when = "after_setup" }, "no_handle"]
times = "always"
"""


def test_plan_is_read_from_toml(tmp_path: Path) -> None:
    expected = (
        Fault(AtAudio(1, connection=1), (Abort(),)),
        Fault(OnConnection(2), (StaleHandle("after_setup"), NoHandle()), times="always"),
    )
    assert parse_plan(PLAN, VOCABULARY) == expected
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    assert load_plan(path) == expected


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[[fault]\n", "not TOML"),
        ("[[faults]]\n", "unknown key in a fault plan 'faults'; known: fault"),
        ("[[fault]]\naction = 'abort'", "fault 1: 'trigger' is missing"),
        ("[[fault]]\ntrigger='at_noon'\naction='abort'", "unknown trigger 'at_noon'; known: after"),
        (
            "[[fault]]\ntrigger='user_stops'\naction='explode'",
            "unknown action 'explode'; known: ab",
        ),
        ("[[fault]]\ntrigger='at_audio'\naction='abort'", "at_audio needs the field 'position_s'"),
        (
            "[[fault]]\ntrigger={name='before', event='turnCompleted'}\naction='abort'",
            "unknown Gemini Live server event 'turnCompleted'; known: .*turnComplete",
        ),
        (
            "[[fault]]\ntrigger={name='received', event='setUp'}\naction='abort'",
            "unknown Gemini Live client message 'setUp'; known: .*setup",
        ),
        (
            "[[fault]]\ntrigger='user_stops'\naction={name='close', kode=1}",
            "unknown field of close 'kode'; known: code, reason",
        ),
        (
            "[[fault]]\ntrigger='user_stops'\naction={name='close', code='1011'}",
            "close.code must be a whole number, not '1011'",
        ),
        (
            "[[fault]]\ntrigger='user_stops'\naction='session_expired'",
            "unknown Gemini Live action 'SessionExpired'; known: Abort",
        ),
        ("[[fault]]\ntrigger='user_stops'\naction='abort'\ntimes=true", "times must be a whole"),
        (
            "[[fault]]\ntrigger='on_connection'\naction={name='stale_handle', when='now'}",
            "stale_handle.when must be one of 'before_setup', 'after_setup'",
        ),
    ],
)
def test_bad_plan_is_refused_with_what_is_known(plan: str, message: str) -> None:
    with pytest.raises(FaultPlanError, match=message):
        parse_plan(plan, VOCABULARY)


def test_action_that_cannot_follow_its_trigger_is_refused() -> None:
    with pytest.raises(FaultPlanError, match="Swallow needs the trigger Before, not AtAudio"):
        Fault(AtAudio(1.0), Swallow())
    with pytest.raises(FaultPlanError, match="Refuse needs the trigger OnConnection"):
        Fault(Received("setup"), Refuse())
    with pytest.raises(FaultPlanError, match=r"1006 cannot be sent.*use Abort"):
        Close(1006)
    with pytest.raises(FaultPlanError, match="nth counts from 1"):
        OnConnection(nth=0)


def test_every_action_is_documented_and_named() -> None:
    declared = {
        cls
        for cls in vars(faults).values()
        if isinstance(cls, type) and issubclass(cls, faults.Action) and cls is not faults.Action
    }
    assert declared == faults.ACTIONS
    for cls in declared:
        assert dataclasses.is_dataclass(cls)
        assert "mitates" in (cls.__doc__ or "") or cls in (faults.Send, SessionExpired), cls
    assert snake_case("NoSetupAnswer") == "no_setup_answer"


def test_engine_counts_matches_per_fault() -> None:
    engine = FaultEngine(
        VOCABULARY,
        [
            Fault(Before("turnComplete", nth=2), Abort(), times=2),
            Fault(Before("turnComplete", connection=7), Close(1001), times="always"),
        ],
    )

    def fire(connection: int) -> list[faults.Action]:
        due = engine.fire(Before, connection, lambda t: t.event == "turnComplete")
        return [action for _, action in due]

    assert fire(1) == []
    assert fire(7) == [Abort(), Close(1001)]
    assert fire(1) == [Abort()]
    assert fire(1) == []
    assert fire(7) == [Close(1001)]
    assert engine.watches(Before)
    assert not engine.watches(AtAudio)


def test_handshake_actions_need_a_fault_of_their_own() -> None:
    with pytest.raises(FaultPlanError, match="a fault of their own"):
        Fault(OnConnection(1), (Refuse(), Abort()))
