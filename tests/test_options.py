"""Bad options are refused by name when they are built; good ones reach the core as bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from livekit.plugins.resilient import provider_bounds
from livekit.plugins.resilient.core import limits
from livekit.plugins.resilient.errors import OptionError
from livekit.plugins.resilient.options import ResilienceOptions

REQUIRED = (
    "connect_timeout_s",
    "reconnect_deadline_s",
    "redial_base_s",
    "redial_cap_s",
    "healthy_after_s",
    "redrive_after_s",
    "reply_timeout_s",
    "goaway_margin_s",
    "speech_quiet_s",
    "finalise_working_after_s",
)
WATCHDOGS = {  # option: bound
    "finalise_interrupted_after_s": "interrupted_after_s",
    "finalise_complete_after_s": "complete_after_s",
    "finalise_stalled_after_s": "stalled_after_s",
    "finalise_silent_after_s": "silent_after_s",
    "hedge_after_s": "hedge_after_s",
    "liveness_timeout_s": "liveness_timeout_s",
    "liveness_reply_after_s": "reply_silent_after_s",
    "liveness_speech_after_s": "unheard_after_s",
    "liveness_interrupted_after_s": "mute_after_s",
}
PROVIDERS = ("renewal_wait_s",)  # times that the provider decides by default
SWITCHED_OFF_BY_NONE = (
    "failover_after_s",
    "gap_audio_s",
)  # times that no bound of the core is made from


def build(**fields: Any) -> ResilienceOptions:
    return ResilienceOptions(**fields)


def test_only_two_ways_to_play_on_are_known() -> None:
    assert build(playout_on_drop="flush").playout_on_drop == "flush"
    with pytest.raises(OptionError, match=r"^playout_on_drop='stop'.*finish"):
        build(playout_on_drop="stop")


def test_every_time_is_checked_here() -> None:
    named = {f.name for f in dataclasses.fields(ResilienceOptions) if f.name.endswith("_s")}
    assert named == {*REQUIRED, *PROVIDERS, *WATCHDOGS, *SWITCHED_OFF_BY_NONE}


@pytest.mark.parametrize(
    "field",
    [*REQUIRED, *PROVIDERS, *WATCHDOGS, *SWITCHED_OFF_BY_NONE],
)
@pytest.mark.parametrize(
    "value", [0, -1.0, float("nan"), float("inf"), True, "3", [1]], ids=lambda value: repr(value)
)
def test_a_time_that_is_not_above_0_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"^{field}=.*seconds above 0") as caught:
        build(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("field", REQUIRED)
def test_none_is_refused_where_nothing_can_be_switched_off(field: str) -> None:
    with pytest.raises(OptionError, match=f"^{field}=None"):
        build(**{field: None})


@pytest.mark.parametrize(("option", "bound"), WATCHDOGS.items())
def test_none_switches_a_watchdog_off(option: str, bound: str) -> None:
    assert getattr(build().bounds(provider_bounds.OPENAI), bound) is not None
    assert getattr(build(**{option: None}).bounds(provider_bounds.OPENAI), bound) is None


@pytest.mark.parametrize("option", SWITCHED_OFF_BY_NONE)
def test_none_is_kept_where_it_switches_off(option: str) -> None:
    assert getattr(build(**{option: None}), option) is None


@pytest.mark.parametrize(("option", "bound"), [*WATCHDOGS.items(), ("redrive_after_s",) * 2])
def test_a_time_reaches_the_core(option: str, bound: str) -> None:
    assert getattr(build(**{option: 4.25}).bounds(provider_bounds.OPENAI), bound) == 4.25


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"redial_base_s": 9.0}, "redial_base_s"),
        ({"redial_cap_s": 0.1}, "redial_base_s"),
        ({"reconnect_deadline_s": 9.0}, "connect_timeout_s"),
        ({"redrive_after_s": 30.5}, "redrive_after_s"),
        ({"finalise_silent_after_s": 2.0}, "redrive_after_s"),
    ],
)
def test_times_that_contradict_each_other_are_refused(fields: dict[str, float], named: str) -> None:
    with pytest.raises(OptionError, match=f"^{named}=.*at most") as caught:
        build(**fields)
    assert caught.value.field == named


@pytest.mark.parametrize(("given", "stalled_s"), [(8.0, 6.0), (4.0, 4.0), (None, 6.0)])
def test_a_reply_that_stopped_is_hedged_no_later_than_one_that_never_began(
    given: float | None, stalled_s: float
) -> None:
    bounds = build(hedge_after_s=given).bounds(provider_bounds.OPENAI)
    assert bounds.hedge_stalled_after_s == stalled_s
    assert bounds.hedge_notice_s == (None if given is None else stalled_s)


def test_a_bound_that_is_off_contradicts_nothing() -> None:
    assert build(redrive_after_s=99.0, finalise_silent_after_s=None).redrive_after_s == 99.0


@pytest.mark.parametrize("field", ["redrive", "speech_hint"])
@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_a_switch_takes_true_or_false(field: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"^{field}="):
        build(**{field: value})


def test_the_switches_reach_the_core() -> None:
    assert build(redrive=False).bounds(provider_bounds.OPENAI).redrive is False
    assert build(speech_hint=False).bounds(provider_bounds.OPENAI).unheard_after_s is None


@pytest.mark.parametrize("provider", [provider_bounds.GEMINI, provider_bounds.OPENAI])
def test_the_provider_decides_its_own_liveness(provider: limits.ProviderBounds) -> None:
    bounds = build().bounds(provider)
    assert bounds.liveness_timeout_s == provider.liveness_timeout_s
    assert bounds.reply_silent_after_s == provider.reply_silent_after_s
    assert bounds.deaf_after_s == provider.deaf_after_s
    own = build(liveness_timeout_s=3.0, liveness_reply_after_s=4.0).bounds(provider)
    assert (own.liveness_timeout_s, own.reply_silent_after_s) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("be brief", "a function or a mapping"),
        ({"greeting": "hello"}, "greeting"),
        ({"reply_requested": "hello"}, "reply_requested"),
        ({"reply_cut": ""}, "reply_cut"),
        ({"reply_cut": 3}, "reply_cut"),
    ],
)
def test_bad_instructions_are_refused(value: object, said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        build(redrive_instructions=value)
    assert caught.value.field == "redrive_instructions"


@pytest.mark.parametrize("value", [None, lambda context: "x", {"reply_cut": "go on"}, {}])
def test_good_instructions_are_kept(value: object) -> None:
    assert build(redrive_instructions=value).redrive_instructions is value


@pytest.mark.parametrize("value", [0, -1, float("nan"), "fast"])
def test_a_speech_rate_is_above_0(value: object) -> None:
    with pytest.raises(OptionError, match="speech_rate_cps"):
        build(speech_rate_cps=value)


def test_on_event_is_callable() -> None:
    with pytest.raises(OptionError, match="on_event"):
        build(on_event=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("finalise_stalled_after_s", 4.0),
        ("finalise_silent_after_s", 15),
        ("finalise_working_after_s", 10.0),
        ("finalise_complete_after_s", 1.0),
        ("liveness_reply_after_s", 8.0),
        ("reply_timeout_s", 5.0),
    ],
)
def test_a_bound_that_would_cut_calls_on_record_is_warned_about_by_name(
    field: str, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    assert getattr(build(**{field: value}), field) == value
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{field}=")


def test_the_defaults_are_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    build()
    assert caplog.records == []
