"""Limits on the traffic of an address before authentication."""

import pytest

from broker.quotas.unauthenticated import (
    BURST_S,
    BYTE_RATE,
    FRAME_RATE,
    MAX_ADDRESSES,
    OverRate,
    UnauthenticatedLimits,
    UnauthenticatedQuotas,
)

HERE, THERE = "10.0.0.1", "10.0.0.2"
NOW = 5_000_000


@pytest.fixture
def quotas() -> UnauthenticatedQuotas:
    quotas = UnauthenticatedQuotas()
    quotas.limits = UnauthenticatedLimits(connections=1, byte_rate=100, frame_rate=10)
    return quotas


@pytest.mark.parametrize(("size", "over"), [(999, False), (1_000, False), (1_001, True)])
def test_bytes_have_a_burst_of_ten_seconds(quotas: UnauthenticatedQuotas, size: int, over: bool) -> None:
    verdict = quotas.add_bytes(HERE, size, NOW)
    assert verdict == (OverRate(BYTE_RATE, 100) if over else None)


def test_frames_have_a_burst_of_ten_seconds(quotas: UnauthenticatedQuotas) -> None:
    assert [quotas.add_frames(HERE, 1, NOW) for _ in range(10 * BURST_S)] == [None] * 100
    assert quotas.add_frames(HERE, 1, NOW) == OverRate(FRAME_RATE, 10)


@pytest.mark.parametrize(("after_ms", "is_let_in"), [(99, False), (100, True), (101, True)])
def test_time_pays_for_frames_to_the_millisecond(
    quotas: UnauthenticatedQuotas, after_ms: int, is_let_in: bool
) -> None:
    quotas.add_frames(HERE, 100, NOW)
    assert (quotas.add_frames(HERE, 1, NOW + after_ms) is None) is is_let_in


def test_many_short_looks_pay_as_much_as_one_long_one(quotas: UnauthenticatedQuotas) -> None:
    quotas.add_frames(HERE, 100, NOW)
    refused = [quotas.add_frames(HERE, 1, NOW + ms) is not None for ms in range(1, 1_001)]
    assert refused.count(False) == 10
    assert refused.index(False) == 99


def test_refused_frames_are_not_counted_and_received_bytes_are(quotas: UnauthenticatedQuotas) -> None:
    quotas.add_frames(HERE, 100, NOW)
    for _ in range(1_000):
        assert quotas.add_frames(HERE, 1, NOW)
    assert quotas.add_frames(HERE, 1, NOW + 100) is None
    quotas.add_bytes(HERE, 2_000, NOW + 100)
    assert quotas.add_bytes(HERE, 0, NOW + 100 + 9_999)
    assert quotas.add_bytes(HERE, 0, NOW + 100 + 10_000) is None


def test_a_login_that_has_begun_may_end(quotas: UnauthenticatedQuotas) -> None:
    quotas.add_frames(HERE, 100, NOW)
    assert quotas.add_frames(HERE, 1, NOW, is_begun=True) is None
    # The debt is paid before the next burst.
    assert quotas.add_frames(HERE, 1, NOW + 100)
    assert quotas.add_frames(HERE, 1, NOW + 200) is None


def test_another_address_is_not_concerned(quotas: UnauthenticatedQuotas) -> None:
    quotas.add_frames(HERE, 100, NOW)
    quotas.add_bytes(HERE, 1_000_000, NOW)
    assert quotas.add_frames(THERE, 100, NOW) is None and quotas.add_bytes(THERE, 1_000, NOW) is None


def test_a_clock_that_goes_back_gives_and_takes_nothing(quotas: UnauthenticatedQuotas) -> None:
    quotas.add_frames(HERE, 100, NOW)
    assert quotas.add_frames(HERE, 1, NOW - 60_000)
    assert quotas.add_frames(HERE, 1, NOW + 100) is None


def test_the_table_is_bounded_and_evicts_the_least_recent(quotas: UnauthenticatedQuotas) -> None:
    for address in (HERE, THERE):
        quotas.add_frames(address, 100, NOW)
    for number in range(MAX_ADDRESSES - 1):
        quotas.add_frames(f"other {number}", 1, NOW)
        assert quotas.add_frames(THERE, 1, NOW)
    assert len(quotas) == MAX_ADDRESSES
    assert quotas.add_frames(HERE, 100, NOW) is None


def test_the_defaults_let_two_thousand_clients_behind_one_address_log_in_at_once() -> None:
    quotas, refused = UnauthenticatedQuotas(), 0
    for _ in range(2_500):
        begun = False
        for size in (60, 50, 120, 180):
            refused += quotas.add_frames(HERE, 1, NOW, is_begun=begun) is not None
            refused += quotas.add_bytes(HERE, size, NOW) is not None
            begun = True
    assert refused == 0 and quotas.add_frames(HERE, 1, NOW)
