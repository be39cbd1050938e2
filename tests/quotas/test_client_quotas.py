"""The facade: limits from the image, verdicts for the handlers, rows and metrics for the console."""

import pytest

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.metrics.families import render
from broker.metrics.rate import Window
from broker.quotas.client_quotas import ClientQuotas, RuleUse, rule_use
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.quotas.quota_metrics import families
from broker.quotas.throttled import longer
from tests.quotas.scene import Connection

LOUD = Entity(client_id="loud")


@pytest.fixture
def quotas() -> ClientQuotas:
    return ClientQuotas()


def page(quotas: ClientQuotas, now_ms: int = BASE_MS) -> list[str]:
    lines = render(families(quotas, now_ms)).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_every_client_key_switches_its_own_manager_on_and_off(quotas):
    for kind, manager in quotas.managers.items():
        quotas.apply(LOUD, KEY_OF[kind], 5)
        assert [other.kind for other in quotas.managers.values() if other.active] == [kind]
        assert manager.bound("anybody", "loud") == 5
        quotas.apply(LOUD, KEY_OF[kind], None)
        assert not manager.active


def test_an_address_is_limited_elsewhere(quotas):
    quotas.apply(Entity(ip="10.0.0.1"), "connection_creation_rate", 5)
    quotas.apply(Entity(ip=DEFAULT), "connection_creation_rate", None)
    assert not any(manager.active for manager in quotas.managers.values())


def test_a_key_that_limits_no_client_is_the_callers_mistake(quotas):
    with pytest.raises(KeyError):
        quotas.apply(LOUD, "connection_creation_rate", 5)


def test_eleven_thousand_bytes_against_a_thousand_a_second_cost_one_second(quotas):
    quotas.apply(LOUD, "producer_byte_rate", 1_000)
    throttle = quotas.record_produce("ANONYMOUS", "loud", 11_000, BASE_MS)
    assert throttle is not None
    assert (throttle.throttle_ms, throttle.observed, throttle.bound) == (1_000, 1_100, 1_000)
    assert throttle.rule == LOUD
    assert quotas.record_produce("ANONYMOUS", "quiet", 11_000, BASE_MS) is None


def test_a_fetch_that_breaks_its_quota_is_taken_back_and_fits_when_its_time_is_over(quotas):
    quotas.apply(LOUD, "consumer_byte_rate", 1_000)
    assert quotas.fetch_max_bytes("ANONYMOUS", "loud", BASE_MS) == 10_000
    assert quotas.record_fetch("ANONYMOUS", "loud", 10_000, BASE_MS) is None
    throttle = quotas.record_fetch("ANONYMOUS", "loud", 10_000, BASE_MS)
    assert throttle is not None
    assert throttle.throttle_ms == 10_000
    quotas.unrecord_fetch("ANONYMOUS", "loud", 10_000, BASE_MS)
    assert quotas.record_fetch("ANONYMOUS", "loud", 10_000, BASE_MS + 10_000) is None


def test_without_a_limit_a_fetch_may_ask_for_anything(quotas):
    assert quotas.fetch_max_bytes("ANONYMOUS", "loud", BASE_MS) == 2**31 - 1
    quotas.apply(LOUD, "consumer_byte_rate", float(2**62))
    assert quotas.fetch_max_bytes("ANONYMOUS", "loud", BASE_MS) == 2**31 - 1


def test_a_consumer_gets_something_even_if_its_windows_hold_less_than_one_partition():
    quotas = ClientQuotas(Window(2, 1_000))
    quotas.apply(LOUD, "consumer_byte_rate", 2_500)
    assert quotas.fetch_max_bytes("ANONYMOUS", "loud", BASE_MS) == 2_500
    now_ms = BASE_MS
    fetched = 0
    for _ in range(20):
        throttle = quotas.record_fetch("ANONYMOUS", "loud", 2_500, now_ms)
        if throttle is None:
            fetched += 2_500
            now_ms += 1
        else:
            quotas.unrecord_fetch("ANONYMOUS", "loud", 2_500, now_ms)
            now_ms += throttle.throttle_ms
    assert fetched / (now_ms - BASE_MS) * 1_000 == pytest.approx(2_500, rel=0.2)


def test_of_two_broken_quotas_only_the_larger_is_counted_as_a_throttle(quotas):
    quotas.apply(LOUD, "producer_byte_rate", 1)
    quotas.apply(LOUD, "request_percentage", 0.01)
    bandwidth = quotas.record_produce("ANONYMOUS", "loud", 11_000, BASE_MS)
    request = quotas.request.record_handled("ANONYMOUS", "loud", 500_000_000, BASE_MS)
    assert bandwidth is not None and request is not None
    assert request.throttle_ms == 11_000, "as long as the windows, at most"
    throttle = longer(request, bandwidth)
    assert throttle is bandwidth
    quotas.throttle(Connection(), "token", throttle, BASE_MS)
    series = dict(line.rsplit(" ", 1) for line in page(quotas))
    assert series['kafka_server_produce_throttle_time{user="",client_id="loud"}'] == "10990000.0"
    assert series['kafka_server_request_throttle_time{user="",client_id="loud"}'] == "0.0"
    assert series["kafka_server_produce_queue_size"] == "1"
    assert series["kafka_server_request_queue_size"] == "0"


def test_a_held_channel_is_shown_by_its_rule_and_gone_when_it_closes(quotas):
    quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    short, long = Connection("short", "a"), Connection("long", "b")
    for channel, nbytes in ((short, 11_000), (long, 12_000)):
        throttle = quotas.record_produce("ANONYMOUS", channel.client_id, nbytes, BASE_MS)
        assert throttle is not None
        quotas.throttle(channel, channel, throttle, BASE_MS)
    rows = quotas.rows(BASE_MS + 400)
    assert [(row.connection_id, row.remaining_ms) for row in rows] == [("long", 1_600), ("short", 600)]
    assert {row.entity for row in rows} == {Entity(client_id=DEFAULT)}
    assert list(filter(None, rule_use(quotas, BASE_MS))) == [
        RuleUse(Entity(client_id=DEFAULT), "producer_byte_rate", 1_200, 2)
    ]
    quotas.forget(long)
    assert [row.connection_id for row in quotas.rows(BASE_MS)] == ["short"]
    assert quotas.produce.throttled.expired(BASE_MS + 1_000) == [short]


def test_figures_have_kafkas_names_and_the_clients_own(quotas):
    quotas.apply(Entity("alice", "client@#$%"), "producer_byte_rate", 1_000)
    quotas.apply(Entity("alice"), "controller_mutation_rate", 10)
    quotas.record_produce("alice", "client@#$%", 5_000, BASE_MS)
    quotas.mutation.quota_for("alice", "x", BASE_MS, strict=True).record(20, BASE_MS)
    lines = page(quotas)
    assert 'kafka_server_produce_byte_rate{user="alice",client_id="client@#$%"} 500.0' in lines
    assert 'kafka_server_produce_quota_bound{user="alice",client_id="client@#$%"} 1000.0' in lines
    assert 'kafka_server_controllermutation_mutation_rate{user="alice",client_id=""} 2.0' in lines
    assert 'kafka_server_controllermutation_tokens{user="alice",client_id=""} 90.0' in lines
    assert "kafka_server_fetch_queue_size 0" in lines
    assert "kafka_server_request_exempt_request_time 0.0" in lines


def test_idle_sensors_of_every_kind_go_after_an_hour(quotas):
    quotas.apply(LOUD, "producer_byte_rate", 1_000)
    quotas.apply(LOUD, "consumer_byte_rate", 1_000)
    quotas.record_produce("ANONYMOUS", "loud", 1, BASE_MS)
    quotas.record_fetch("ANONYMOUS", "loud", 1, BASE_MS)
    assert run_through(quotas.expire(BASE_MS + 3_600_000)) == 0
    assert run_through(quotas.expire(BASE_MS + 3_600_001)) == 2


def test_the_kinds_that_broker_configuration_limits_have_no_key_of_a_client():
    assert set(QuotaKind) - set(KEY_OF) == {
        *(QuotaKind.LEADER_REPLICATION, QuotaKind.FOLLOWER_REPLICATION, QuotaKind.ALTER_LOG_DIRS_REPLICATION),
        *(QuotaKind.BROKER_PRODUCE, QuotaKind.BROKER_FETCH),
        *(QuotaKind.BROKER_SLOW_FETCH, QuotaKind.BROKER_REQUEST_RATE),
    }
