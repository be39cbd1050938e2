"""Rates of addresses: the matching rule, the counted form, and the number of sensors."""

import pytest

from broker.clock import BASE_MS
from broker.metrics.window import Window
from broker.quotas.connection_rates import IpRates, canonical_address
from broker.quotas.entity import DEFAULT, Entity


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
