"""When a connection is renewed before the provider ends it (R16)."""

from __future__ import annotations

from livekit.plugins.resilient.core.limits import RENEWAL_RETRY_S
from livekit.plugins.resilient.core.renewal import Renewal, RenewalLimits


def test_a_connection_is_renewed_at_its_age_and_left_after_the_wait() -> None:
    renewal = Renewal(RenewalLimits(after_s=100.0, wait_s=10.0))
    seen = []
    for at in (1.0, 50.0):
        renewal.connected(at)
        seen.append((renewal.next_at, renewal.leave_by))
    assert seen == [(101.0, 111.0), (150.0, 160.0)]


def test_without_a_limit_nothing_is_renewed() -> None:
    renewal = Renewal(RenewalLimits(after_s=None, wait_s=10.0))
    renewal.connected(1.0)
    assert renewal.next_at is None


def test_a_dial_that_failed_is_tried_again_without_a_longer_wait() -> None:
    renewal = Renewal(RenewalLimits(after_s=100.0, wait_s=10.0))
    renewal.connected(0.0)
    renewal.failed(101.0)
    assert renewal.next_at == 101.0 + RENEWAL_RETRY_S
    assert (renewal.leave_by, renewal.overlaps) == (110.0, True)


def test_a_provider_that_refuses_two_connections_is_believed_from_then_on() -> None:
    renewal = Renewal(RenewalLimits(after_s=100.0, wait_s=10.0))
    renewal.connected(0.0)
    renewal.refused(101.0)
    assert (renewal.next_at, renewal.overlaps) == (101.0, False)
    renewal.connected(102.0)
    assert (renewal.next_at, renewal.overlaps) == (202.0, False)
