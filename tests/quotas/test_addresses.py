"""Statistics per client address, and the verdicts that they count."""

from broker.clock import BASE_MS
from broker.metrics.window import Window
from broker.quotas.addresses import Addresses
from broker.quotas.connections import PER_IP, ConnectionQuotas, Throttled, TooMany

HOUR_MS = 3_600_000
ONE, OTHER = "10.0.0.1", "10.0.0.2"


def seen(addresses: Addresses) -> dict[str, tuple[int, int, int]]:
    return {address: (each.accepted, each.held, each.refused) for address, each in addresses}


def test_an_address_is_counted_with_or_without_a_limit() -> None:
    quotas = ConnectionQuotas(Window(2, 1_000))
    listener = quotas.add_listener("PLAINTEXT")
    for _ in range(3):
        assert quotas.enter(listener, ONE, BASE_MS) is None
    quotas.set_ip_rate(OTHER, 1)
    quotas.enter(listener, OTHER, BASE_MS)
    assert isinstance(quotas.enter(listener, OTHER, BASE_MS), Throttled)
    assert seen(quotas.addresses) == {ONE: (3, 0, 0), OTHER: (1, 1, 0)}
    rates = {address: each.rate.observed(BASE_MS) for address, each in quotas.addresses}
    assert rates == {ONE: 3.0, OTHER: 1.0}


def test_one_connection_too_many_is_refused_and_not_accepted() -> None:
    quotas = ConnectionQuotas()
    listener = quotas.add_listener("PLAINTEXT")
    quotas.per_ip.maximum = 1
    assert quotas.enter(listener, ONE, BASE_MS) is None
    assert quotas.enter(listener, ONE, BASE_MS) == TooMany(1)
    quotas.reject(listener, ONE, PER_IP, BASE_MS)
    assert seen(quotas.addresses) == {ONE: (1, 0, 1)} and listener.rejected == {PER_IP: 1}


def test_who_was_not_seen_for_an_hour_is_forgotten() -> None:
    quotas = ConnectionQuotas()
    listener = quotas.add_listener("PLAINTEXT")
    quotas.enter(listener, ONE, BASE_MS)
    quotas.enter(listener, OTHER, BASE_MS + 1)
    quotas.expire(BASE_MS + HOUR_MS)
    assert set(seen(quotas.addresses)) == {ONE, OTHER}
    quotas.expire(BASE_MS + HOUR_MS + 1)
    assert set(seen(quotas.addresses)) == {OTHER}


def test_there_are_never_more_than_so_many() -> None:
    addresses = Addresses(Window(2, 1_000), most=16)
    for index in range(16):
        addresses.accepted(f"10.0.0.{index}", BASE_MS + index)
    assert len(addresses) == 16
    addresses.accepted("10.1.0.0", BASE_MS + 99)
    # An eighth of sixteen was evicted: those seen longest ago.
    assert len(addresses) == 15
    assert {"10.0.0.0", "10.0.0.1"}.isdisjoint(seen(addresses)) and "10.0.0.2" in seen(addresses)
