"""The use of rules by the clients of several gateways."""

import pytest

from broker.common.clock import BASE_MS
from broker.quotas.client_quotas import ClientQuotas, RuleUse, rule_use, rule_use_of
from broker.quotas.connection_metrics import ip_rule_use
from broker.quotas.connections import IP_RATE, ConnectionQuotas
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.remote_use import Clients, RemoteUse, SensorUse, remote_use

RATE = "producer_byte_rate"
SHARE = "request_percentage"
ANYBODY = Entity(client_id=DEFAULT)
APP = Entity(client_id="app")


@pytest.fixture
def quotas() -> ClientQuotas:
    found = ClientQuotas()
    found.apply(ANYBODY, RATE, 1_000)
    found.apply(APP, RATE, 2_000)
    found.apply(ANYBODY, SHARE, 50)
    return found


def used(quotas: ClientQuotas, remote: RemoteUse) -> dict[tuple[object, str], tuple[float, int, str]]:
    """Observed, throttled and gateway by rule and key; the same for each rule alone."""
    found = {
        (use.entity, use.key): (use.observed, use.throttled, use.gateway)
        for use in rule_use(quotas, BASE_MS, remote)
        if use is not None
    }
    for entity in (ANYBODY, APP):
        alone = {
            (use.entity, use.key): (use.observed, use.throttled, use.gateway)
            for use in rule_use_of(quotas, entity, BASE_MS, remote)
        }
        assert alone == {place: use for place, use in found.items() if place[0] == entity}
    return found


def use_of(rule: Entity, clients: Clients, observed: float, throttled: int = 0, key: str = RATE) -> SensorUse:
    return SensorUse(key, rule, clients, observed, throttled)


def test_rates_of_the_same_clients_are_added_up(quotas: ClientQuotas) -> None:
    quotas.record_produce("", "app", 5_000, BASE_MS)
    own_use = used(quotas, {})[APP, RATE][0]
    reported = [("b", [use_of(APP, (None, "app"), 700.0, 2)]), ("c", [use_of(APP, (None, "app"), 60.0, 1)])]
    assert used(quotas, remote_use(reported)) == {(APP, RATE): (own_use + 760.0, 3, "")}


def test_what_each_gateway_reports_of_the_clients_of_a_limit_is_known() -> None:
    uses = (use_of(APP, (None, "app"), 700.0, 2), use_of(ANYBODY, (None, "b"), 60.0, key=SHARE))
    found = remote_use([("b", uses), ("c", uses[:1])])
    assert found[RATE].by_gateway == {(None, "app"): {"b": uses[0], "c": uses[0]}}
    assert found[SHARE].by_gateway == {(None, "b"): {"b": uses[1]}}


def test_a_rule_that_is_used_only_elsewhere_is_used(quotas: ClientQuotas) -> None:
    reported = [("b", [use_of(APP, (None, "app"), 700.0)])]
    assert used(quotas, remote_use(reported)) == {(APP, RATE): (700.0, 0, "")}


def test_under_a_default_rule_the_busiest_client_of_all_gateways_counts(quotas: ClientQuotas) -> None:
    """Not the sum of different clients, each of which has the limit for itself."""
    quotas.record_produce("", "x", 3_000, BASE_MS)
    own_use = used(quotas, {})[ANYBODY, RATE][0]
    x, y = (None, "x"), (None, "y")
    reported = [
        ("b", [use_of(ANYBODY, x, 1.0), use_of(ANYBODY, y, own_use)]),
        ("c", [use_of(ANYBODY, y, 2.0, 4)]),
    ]
    assert used(quotas, remote_use(reported)) == {(ANYBODY, RATE): (own_use + 2.0, 4, "")}


def test_of_a_limit_that_each_gateway_enforces_alone_the_highest_use_counts(quotas: ClientQuotas) -> None:
    quotas.request.record_handled("", "x", 500_000_000, BASE_MS)
    own_use = used(quotas, {})[ANYBODY, SHARE][0]
    assert own_use > 0
    for there, wanted in (
        (own_use - 0.5, (own_use, 5, "")),
        (own_use, (own_use, 5, "")),
        (own_use + 0.5, (own_use + 0.5, 5, "b")),
    ):
        reported = [
            ("b", [use_of(ANYBODY, (None, "x"), there, 3, SHARE)]),
            ("c", [use_of(ANYBODY, (None, "x"), 0.1, 2, SHARE)]),
        ]
        assert used(quotas, remote_use(reported)) == {(ANYBODY, SHARE): wanted}


def test_connection_rates_of_addresses_are_those_of_the_busiest_gateway() -> None:
    rule = Entity(ip="10.0.0.1")
    found = remote_use([("b", [use_of(rule, (None, None), 7.5, key=IP_RATE)])])
    assert [use for use in ip_rule_use([ConnectionQuotas()], BASE_MS, found) if use] == [
        RuleUse(rule, IP_RATE, 7.5, 0, gateway="b")
    ]
