"""Rates of addresses: the matching rule, the counted form, and the number of sensors."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.rate import Window
from broker.quotas.connection_rates import AddressStatsTable, IpRates, canonical_address
from broker.quotas.connections import PER_IP, ConnectionQuotas, Throttled, TooMany
from broker.quotas.entity import DEFAULT, Entity
from tests.support.connecting import connect_from


def test_addresses_are_remembered_up_to_a_number() -> None:
    rates = IpRates(Window(2, 1_000), max_sensors=16)
    rates.set_rule(DEFAULT, 5)
    for number in range(16):
        rates.sensor(f"10.0.0.{number}", BASE_MS + number)
    assert len(rates.sensors) == 16
    rates.sensor("10.0.0.16", BASE_MS + 16)
    assert len(rates.sensors) == 15, "two went, one came"
    assert "10.0.0.1" not in rates.sensors and "10.0.0.2" in rates.sensors


def test_the_rule_that_governs_is_named() -> None:
    rates = IpRates(Window(2, 1_000))
    rates.set_rule(DEFAULT, 5)
    rates.set_rule("::ffff:10.0.0.7", 7)
    assert rates.rule_of("10.0.0.7") == Entity(ip="10.0.0.7")
    assert rates.rule_of("10.0.0.8") == Entity(ip=DEFAULT)


@pytest.mark.parametrize(
    ("text", "counted_as"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_an_address_is_counted_in_one_form(text: str, counted_as: str) -> None:
    assert canonical_address(text) == counted_as


HOUR_MS = 3_600_000
ONE, OTHER = "10.0.0.1", "10.0.0.2"


def seen(addresses: AddressStatsTable) -> dict[str, tuple[int, int, int]]:
    return {address: (each.accepted, each.delayed, each.refused) for address, each in addresses}


def test_an_address_is_counted_with_or_without_a_limit() -> None:
    quotas = ConnectionQuotas(Window(2, 1_000))
    listener = quotas.add_listener("PLAINTEXT")
    for _ in range(3):
        assert connect_from(quotas, listener, ONE, BASE_MS) is None
    quotas.set_ip_rate(OTHER, 1)
    connect_from(quotas, listener, OTHER, BASE_MS)
    assert isinstance(connect_from(quotas, listener, OTHER, BASE_MS), Throttled)
    assert seen(quotas.addresses) == {ONE: (3, 0, 0), OTHER: (1, 1, 0)}
    rates = {address: each.rate.observed(BASE_MS) for address, each in quotas.addresses}
    assert rates == {ONE: 3.0, OTHER: 1.0}


def test_one_connection_too_many_is_refused_and_not_accepted() -> None:
    quotas = ConnectionQuotas()
    listener = quotas.add_listener("PLAINTEXT")
    quotas.per_ip.maximum = 1
    assert connect_from(quotas, listener, ONE, BASE_MS) is None
    assert connect_from(quotas, listener, ONE, BASE_MS) == TooMany(1)
    quotas.reject(listener, ONE, PER_IP, BASE_MS)
    assert seen(quotas.addresses) == {ONE: (1, 0, 1)} and listener.rejected == {PER_IP: 1}


def test_a_client_that_was_not_seen_for_an_hour_is_forgotten() -> None:
    quotas = ConnectionQuotas()
    listener = quotas.add_listener("PLAINTEXT")
    connect_from(quotas, listener, ONE, BASE_MS)
    connect_from(quotas, listener, OTHER, BASE_MS + 1)
    run_through(quotas.expire(BASE_MS + HOUR_MS))
    assert set(seen(quotas.addresses)) == {ONE, OTHER}
    run_through(quotas.expire(BASE_MS + HOUR_MS + 1))
    assert set(seen(quotas.addresses)) == {OTHER}


def test_there_are_never_more_than_so_many() -> None:
    addresses = AddressStatsTable(Window(2, 1_000), max_addresses=16)
    for index in range(16):
        addresses.accepted(f"10.0.0.{index}", BASE_MS + index)
    assert len(addresses) == 16
    addresses.accepted("10.1.0.0", BASE_MS + 99)
    # An eighth of sixteen was evicted: those seen longest ago.
    assert len(addresses) == 15
    assert {"10.0.0.0", "10.0.0.1"}.isdisjoint(seen(addresses)) and "10.0.0.2" in seen(addresses)
