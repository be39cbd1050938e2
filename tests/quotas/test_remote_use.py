"""The use of rules by the clients of several gateways."""

import pytest

from broker.common.clock import BASE_MS
from broker.quotas.client_quotas import ClientQuotas, rule_use, rule_use_of
from broker.quotas.connection_metrics import ip_rule_use
from broker.quotas.connections import IP_RATE, ConnectionQuotas
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.remote_use import Clients, RemoteUse, SensorUse, remote_use
from tests.support.connecting import connect_from

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


def test_request_time_of_the_same_clients_is_added_up(quotas: ClientQuotas) -> None:
    quotas.request.record_handled("", "x", 500_000_000, BASE_MS)
    own_use = used(quotas, {})[ANYBODY, SHARE][0]
    reported = [
        ("b", [use_of(ANYBODY, (None, "x"), 7.5, 3, SHARE)]),
        ("c", [use_of(ANYBODY, (None, "x"), 0.5, 2, SHARE)]),
    ]
    assert used(quotas, remote_use(reported)) == {(ANYBODY, SHARE): (own_use + 8.0, 5, "")}


def ip_uses(remote: RemoteUse, quotas: ConnectionQuotas | None = None) -> dict[Entity, tuple[float, str]]:
    found = ip_rule_use([quotas or ConnectionQuotas()], BASE_MS, remote)
    return {
        use.entity: (use.observed, use.gateway) for use in found if use and isinstance(use.entity, Entity)
    }


def test_connection_rates_of_an_address_are_added_up_and_the_busiest_address_counts() -> None:
    rule, quotas = Entity(ip=DEFAULT), ConnectionQuotas()
    quotas.set_ip_rate(DEFAULT, 100)
    for address, count in (("10.0.0.1", 20), ("10.0.0.2", 30)):
        for _ in range(count):
            connect_from(quotas, quotas.add_listener("PLAINTEXT"), address, BASE_MS)
    here = ip_uses({}, quotas)[rule][0]
    reported = [
        ("b", [use_of(rule, ("10.0.0.1", None), 9.0, key=IP_RATE)]),
        ("c", [use_of(rule, ("10.0.0.1", None), 8.0, key=IP_RATE), use_of(rule, ("10.0.0.3", None), 1.0)]),
    ]
    assert ip_uses(remote_use(reported), quotas) == {rule: (pytest.approx(here * 2 / 3 + 17), "")}
    assert ip_uses(remote_use(reported)) == {rule: (17.0, "")}


def test_a_gateway_of_an_earlier_version_reports_the_busiest_address_of_a_rule() -> None:
    rule = Entity(ip="10.0.0.1")
    found = remote_use([("b", [use_of(rule, (None, None), 7.5, key=IP_RATE)])])
    assert ip_uses(found) == {rule: (7.5, "b")}
