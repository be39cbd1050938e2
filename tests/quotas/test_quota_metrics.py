"""Quota metrics: Kafka's names, and the values of the enforcing sensors, for a limited number of entities."""

import random
import re
from typing import Any

import pytest

from broker.common.clock import BASE_MS
from broker.metrics.families import label_name, render
from broker.quotas.client_quotas import ClientQuotas, rule_use, rule_use_of
from broker.quotas.connection_metrics import families as connection_families
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.guarded_callback import GuardedCallback
from broker.quotas.quota_metrics import families
from tests.quotas.callbacks import Scripted
from tests.quotas.scene import Connection
from tests.support.connecting import connect_from
from tests.support.prometheus import Family, parse

LOUD = Entity(client_id="loud")
LABELS = {"user": "", "client_id": "loud"}


def page_of(quotas: ClientQuotas, now_ms: int = BASE_MS, most: int = 1_000) -> dict[str, Family]:
    return parse(render(families(quotas, now_ms, most)).decode())


def clients_of(family: Family) -> list[str]:
    return [dict(labels)["client_id"] for _, labels in family.samples]


@pytest.fixture
def quotas() -> ClientQuotas:
    return ClientQuotas(paced=False)


def throttle(quotas: ClientQuotas, given: Any, now_ms: int = BASE_MS) -> None:
    assert given is not None
    quotas.throttle(Connection(), object(), given, now_ms)


def test_every_kind_has_kafkas_names_and_the_numbers_of_its_sensor(quotas: ClientQuotas) -> None:
    limits = {
        "producer_byte_rate": 1_000.0,
        "consumer_byte_rate": 2_000.0,
        "request_percentage": 2.0,
        "controller_mutation_rate": 5.0,
    }
    for key, value in limits.items():
        quotas.apply(LOUD, key, value)
    throttle(quotas, quotas.record_produce("alice", "loud", 11_000, BASE_MS))
    throttle(quotas, quotas.record_fetch("alice", "loud", 25_000, BASE_MS))
    throttle(quotas, quotas.request.record_handled("alice", "loud", 250_000_000, BASE_MS))
    quotas.request.record_exempt(100_000_000, BASE_MS)
    mutation = quotas.mutation.quota_for("alice", "loud", BASE_MS, strict=False)
    mutation.record(60, BASE_MS)  # the bucket starts with 55
    throttle(quotas, mutation.throttle(BASE_MS))
    page = page_of(quotas)
    for name, value in {
        "produce_byte_rate": 1_100,  # over ten whole seconds
        "produce_throttle_time": 1_000,
        "produce_quota_bound": 1_000,
        "fetch_byte_rate": 2_500,
        "fetch_throttle_time": 2_500,
        "fetch_quota_bound": 2_000,
        "request_request_time": 2.5,
        "request_throttle_time": 1_000,  # a window at most
        "request_quota_bound": 2,
        "controllermutation_mutation_rate": 6,
        "controllermutation_tokens": -5,
        "controllermutation_throttle_time": 1_000,
        "controllermutation_quota_bound": 5,
    }.items():
        assert page[f"kafka_server_{name}"].value(**LABELS) == value, name
        assert page[f"kafka_server_{name}"].kind == "gauge"
    assert page["kafka_server_request_exempt_request_time"].value() == 1
    for kind in ("produce", "fetch", "request", "controllermutation"):
        assert page[f"kafka_server_{kind}_queue_size"].value() == 1


def test_whoever_looks_changes_no_verdict_and_sees_what_the_sensor_says(quotas: ClientQuotas) -> None:
    """Send the same requests, once with a scrape between any two of them."""
    unseen = ClientQuotas(paced=False)
    for each in (quotas, unseen):
        each.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    chance, now_ms = random.Random(7), BASE_MS
    for _ in range(400):
        now_ms += chance.randrange(1_500)
        client, nbytes = chance.choice("abc"), chance.randrange(3_000)
        verdicts = [each.record_produce("ANONYMOUS", client, nbytes, now_ms) for each in (quotas, unseen)]
        assert verdicts[0] == verdicts[1]
        now_ms += chance.randrange(500)
        shown = page_of(quotas, now_ms)["kafka_server_produce_byte_rate"]
        sensor = quotas.produce.find("ANONYMOUS", client)
        assert sensor is not None
        assert shown.value(user="", client_id=client) == sensor.observed(now_ms)


@pytest.mark.parametrize(("later_ms", "mean"), [(0, 1_000), (59_999, 1_000), (60_000, 0), (3_600_000, 0)])
def test_the_time_of_throttles_falls_to_0_a_minute_after_the_last(
    quotas: ClientQuotas, later_ms: int, mean: float
) -> None:
    quotas.apply(LOUD, "producer_byte_rate", 1_000)
    throttle(quotas, quotas.record_produce("alice", "loud", 11_000, BASE_MS))
    assert page_of(quotas, BASE_MS + later_ms)["kafka_server_produce_throttle_time"].value(**LABELS) == mean


def test_a_client_that_was_never_throttled_has_0_and_no_limit_is_no_series(quotas: ClientQuotas) -> None:
    quotas.apply(LOUD, "producer_byte_rate", 1_000)
    quotas.record_produce("alice", "quiet", 5, BASE_MS)
    page = page_of(quotas)
    assert page["kafka_server_produce_throttle_time"].value(user="", client_id="quiet") == 0
    assert page["kafka_server_produce_byte_rate"].value(user="", client_id="quiet") == 0.5
    assert page["kafka_server_produce_quota_bound"].samples == {}


def test_nothing_is_measured_and_nothing_shown_while_there_is_no_rule(quotas: ClientQuotas) -> None:
    quotas.record_produce("alice", "loud", 5, BASE_MS)
    page = page_of(quotas)
    assert page["kafka_server_produce_byte_rate"].samples == {}
    assert page["weir_quota_entities_left_out"].value(quota="produce") == 0


@pytest.mark.parametrize(
    ("most", "shown", "left_out"),
    [(0, "", 4), (1, "d", 3), (3, "dcb", 1), (4, "dcba", 0), (5, "dcba", 0)],
)
def test_those_that_use_most_are_shown_and_the_others_counted(
    quotas: ClientQuotas, most: int, shown: str, left_out: int
) -> None:
    quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    for client, nbytes in {"b": 20, "d": 40, "a": 10, "c": 30}.items():
        quotas.record_produce("alice", client, nbytes, BASE_MS)
    page = page_of(quotas, most=most)
    for name in ("byte_rate", "throttle_time", "quota_bound"):
        assert clients_of(page[f"kafka_server_produce_{name}"]) == list(shown)
    assert page["weir_quota_entities_left_out"].value(quota="produce") == left_out
    assert page["weir_quota_entities_left_out"].value(quota="fetch") == 0


def test_a_client_that_stops_makes_way_for_one_that_continues(quotas: ClientQuotas) -> None:
    quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    quotas.record_produce("alice", "yesterday", 1_000_000, BASE_MS)
    now_ms = BASE_MS + 11_000
    quotas.record_produce("alice", "today", 1, now_ms)
    assert clients_of(page_of(quotas, now_ms, most=1)["kafka_server_produce_byte_rate"]) == ["today"]


HOSTILE = (
    '"',
    "\\",
    '\\"',
    "\\n",
    "a\nb",
    "",
    "}",
    '",user="root"} 1\nx{a="',
    "\u2028",
    "naïve",
    "\x00",
    "x" * 5_000,
)


@pytest.mark.parametrize("client_id", HOSTILE)
def test_a_hostile_client_id_is_one_label_of_one_series(quotas: ClientQuotas, client_id: str) -> None:
    quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    quotas.record_produce("alice", client_id, 70, BASE_MS)
    family = page_of(quotas)["kafka_server_produce_byte_rate"]
    ((_, labels),) = family.samples
    written = dict(labels)["client_id"]
    assert re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), written) == client_id
    assert dict(labels)["user"] == "" and list(family.samples.values()) == [7]


def test_two_sensors_of_the_same_labels_are_one_series_with_the_larger_figure(quotas: ClientQuotas) -> None:
    """Alice with an empty client id, from a rule by client id, and alice as a whole."""
    quotas.apply(Entity("alice", DEFAULT), "producer_byte_rate", 1_000)
    quotas.record_produce("alice", "", 50, BASE_MS)
    quotas.apply(Entity("alice", DEFAULT), "producer_byte_rate", None)
    quotas.apply(Entity("alice"), "producer_byte_rate", 1_000)
    quotas.record_produce("alice", "", 90, BASE_MS)
    assert page_of(quotas)["kafka_server_produce_byte_rate"].samples == {
        ("", frozenset({("user", "alice"), ("client_id", "")})): 9
    }


def test_the_tags_of_a_callback_are_the_labels() -> None:
    callback = Scripted()
    quotas = ClientQuotas(callback=GuardedCallback(callback, "acme:Groups", lambda: 0))
    callback.broken["tags"] = lambda: {"quota-group": "red", "2nd": 'a"b', "": "c"}
    quotas.record_produce("red-1", "loud", 70, BASE_MS)
    family = page_of(quotas)["kafka_server_produce_byte_rate"]
    assert family.value(quota_group="red", _2nd='a\\"b', _="c") == 7


def test_tags_that_prometheus_spells_alike_are_one_series() -> None:
    callback = Scripted()
    quotas = ClientQuotas(callback=GuardedCallback(callback, "acme:Groups", lambda: 0))
    for nbytes, tags in ((10, {"a-b": "x"}), (30, {"a.b": "x"}), (20, {"a-b": "y", "a.b": "x"})):
        callback.broken["tags"] = lambda tags=tags: tags
        quotas.record_produce("red-1", "loud", nbytes, BASE_MS)
    family = page_of(quotas)["kafka_server_produce_byte_rate"]
    assert family.samples == {("", frozenset({("a_b", "x")})): 3}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("group", "group"),
        ("client-id", "client_id"),
        ("2nd", "_2nd"),
        ("", "_"),
        ("größe", "gr__e"),
        ("a:b", "a_b"),
    ],
)
def test_invalid_label_names_get_underscores(text: str, name: str) -> None:
    assert label_name(text) == name


@pytest.mark.parametrize(
    ("most", "shown"), [(2, ["10.0.0.3", "10.0.0.2"]), (3, ["10.0.0.3", "10.0.0.2", "10.0.0.1"])]
)
def test_the_addresses_that_connect_most_are_shown_and_the_others_counted(
    most: int, shown: list[str]
) -> None:
    quotas = ConnectionQuotas()
    listener = quotas.add_listener("PLAINTEXT")
    quotas.set_ip_rate(DEFAULT, 100)
    for times in (1, 2, 3):
        for _ in range(times):
            connect_from(quotas, listener, f"10.0.0.{times}", BASE_MS)
    page = parse(render(connection_families({"broker": quotas}, BASE_MS, most)).decode())
    rates = page["kafka_server_socket_server_metrics_connection_accept_rate"].samples
    assert [dict(labels)["ip"] for _, labels in rates if "ip" in dict(labels)] == shown
    assert page["weir_quota_addresses_left_out"].value() == 3 - most
    throttled = page["kafka_server_socket_server_metrics_ip_connection_accept_throttle_time"]
    assert throttled.value(listener="PLAINTEXT") == 0


def test_thousands_of_sensors_are_looked_through_with_pauses(quotas: ClientQuotas) -> None:
    quotas.apply(Entity(client_id=DEFAULT), "producer_byte_rate", 1_000)
    for number in range(100):
        quotas.record_produce("ANONYMOUS", f"client-{number}", 1, BASE_MS)
    uses = list(rule_use(quotas, BASE_MS))
    assert uses.count(None) == 100 and len(uses) - uses.count(None) == 1
    steps = list(families(quotas, BASE_MS))
    assert steps.count(None) == 200


def test_the_use_of_one_rule_is_that_of_the_table(quotas: ClientQuotas) -> None:
    rules = [Entity("alice"), Entity(DEFAULT), Entity("alice", "app"), Entity(client_id=DEFAULT)]
    for rule in rules:
        quotas.apply(rule, "producer_byte_rate", 1_000)
    quotas.apply(Entity("alice"), "consumer_byte_rate", 1_000)
    for number, (user, client_id) in enumerate(
        [("alice", "app"), ("alice", "x"), ("bob", "x"), ("carol", "x")]
    ):
        throttle = quotas.record_produce(user, client_id, 11_000 + number, BASE_MS)
        assert throttle is not None
        channel = Connection(id=str(number), principal=user, client_id=client_id)
        quotas.throttle(channel, channel, throttle, BASE_MS)
    quotas.record_fetch("alice", "x", 500, BASE_MS)
    table = [use for use in rule_use(quotas, BASE_MS) if use is not None]
    assert [use.throttled for use in table] == [1, 1, 2, 0]
    for rule in rules:
        assert list(rule_use_of(quotas, rule, BASE_MS)) == [use for use in table if use.entity == rule]
