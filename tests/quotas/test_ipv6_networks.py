"""IPv6 addresses of a network that count as one, and those that do not."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.errors import ApiError
from broker.metrics.rate import Window
from broker.quotas.client_quota_requests import validate_alteration
from broker.quotas.connection_rates import IpRates, counted_address
from broker.quotas.connections import PER_IP, ConnectionQuotas, Throttled, TooMany
from broker.quotas.entity import DEFAULT, Entity
from tests.support.connecting import connect_from

ONE, OTHER, BESIDE = "2001:db8:1:2::7", "2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:3::"
NETWORK = "2001:db8:1:2::"
RATE = "connection_creation_rate"


@pytest.mark.parametrize(
    ("address", "prefix", "counted_as"),
    [
        (ONE, 64, NETWORK),
        (OTHER, 64, NETWORK),
        (NETWORK, 64, NETWORK),
        (BESIDE, 64, BESIDE),
        ("2001:db8:1:1:ffff:ffff:ffff:ffff", 64, "2001:db8:1:1::"),
        (ONE, 128, ONE),
        (ONE, 127, "2001:db8:1:2::6"),
        (ONE, 16, "2001::"),
        ("10.0.0.7", 64, "10.0.0.7"),
        ("::1", 64, "::1"),
        ("fe80::7", 64, "fe80::7"),
        ("fe80::7%eth0", 64, "fe80::7%eth0"),
        ("febf:ffff::7", 64, "febf:ffff::7"),
        ("fec0::7", 64, "fec0::"),
    ],
)
def test_an_address_is_counted_with_its_network(address: str, prefix: int, counted_as: str) -> None:
    assert counted_address(address, prefix) == counted_as


def quotas_by(prefix: int) -> ConnectionQuotas:
    quotas = ConnectionQuotas(Window(2, 1_000), ipv6_prefix=prefix)
    quotas.per_ip.maximum = 2
    return quotas


def test_a_network_has_as_many_connections_as_one_address() -> None:
    quotas = quotas_by(64)
    listener = quotas.add_listener("PLAINTEXT")
    assert [connect_from(quotas, listener, each, BASE_MS) for each in (ONE, OTHER)] == [None, None]
    assert connect_from(quotas, listener, NETWORK, BASE_MS) == TooMany(2)
    quotas.reject(listener, NETWORK, PER_IP, BASE_MS)
    assert connect_from(quotas, listener, BESIDE, BASE_MS) is None
    assert quotas.counts == {NETWORK: 2, BESIDE: 1}
    quotas.release("PLAINTEXT", OTHER)
    assert connect_from(quotas, listener, OTHER, BASE_MS) is None
    figures = {address: (each.accepted, each.refused) for address, each in quotas.addresses}
    assert figures == {NETWORK: (3, 1), BESIDE: (1, 0)}


def test_by_default_each_address_is_counted_separately() -> None:
    quotas = quotas_by(128)
    listener = quotas.add_listener("PLAINTEXT")
    for _ in range(2):
        assert [connect_from(quotas, listener, each, BASE_MS) for each in (ONE, OTHER)] == [None, None]
    assert quotas.counts == {ONE: 2, OTHER: 2}


def test_an_override_is_for_the_whole_network() -> None:
    quotas = quotas_by(64)
    overrides = {ONE: 1, OTHER: 3, "10.0.0.7": 4}
    quotas.set_per_ip_overrides({quotas.counted(address): most for address, most in overrides.items()})
    assert [quotas.per_ip.of(each) for each in (NETWORK, BESIDE, "10.0.0.7")] == [3, 2, 4]


def test_a_network_connects_as_fast_as_one_address() -> None:
    quotas = quotas_by(64)
    quotas.per_ip.maximum = 100
    quotas.set_ip_rate(NETWORK, 2)
    listener = quotas.add_listener("PLAINTEXT")
    assert [connect_from(quotas, listener, each, BASE_MS) for each in (ONE, OTHER)] == [None, None]
    entered = connect_from(quotas, listener, "2001:db8:1:2::8", BASE_MS)
    assert isinstance(entered, Throttled) and entered.bound == 2
    assert connect_from(quotas, listener, BESIDE, BASE_MS) is None
    assert set(quotas.ips.sensors) == {NETWORK}


def test_of_rules_for_single_addresses_the_least_holds_for_the_network() -> None:
    rates = IpRates(Window(2, 1_000), ipv6_prefix=64)
    rates.set_rule(DEFAULT, 9)
    rates.set_rule(ONE, 5)
    rates.set_rule(OTHER, 3)
    assert (rates.rate_for(NETWORK), rates.rule_of(NETWORK)) == (3, Entity(ip=OTHER))
    rates.set_rule(OTHER, None)
    assert (rates.rate_for(NETWORK), rates.rule_of(NETWORK)) == (5, Entity(ip=ONE))
    rates.set_rule(ONE, None)
    assert (rates.rate_for(NETWORK), rates.rule_of(NETWORK)) == (9, Entity(ip=DEFAULT))
    rates.set_rule(DEFAULT, None)
    assert not rates.active


def test_a_rule_is_written_for_the_address_that_stands_for_the_others() -> None:
    assert validate_alteration((("ip", NETWORK),), [(RATE, 1)], 64) == Entity(ip=NETWORK)
    assert validate_alteration((("ip", ONE),), [(RATE, None)], 64) == Entity(ip=ONE), "removing is allowed"
    words = rf"Invalid ip {ONE}, expected {NETWORK} \(all addresses of its /64 count as one\)"
    with pytest.raises(ApiError, match=words):
        validate_alteration((("ip", ONE),), [(RATE, 1)], 64)
    with pytest.raises(ApiError, match=r"expected 10\.0\.0\.7$"):
        validate_alteration((("ip", "::ffff:10.0.0.7"),), [(RATE, 1)], 64)
