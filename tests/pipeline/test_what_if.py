"""What if: the simulated records, and the use of the broker's own arithmetic."""

import json
import random
from datetime import date

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
pytest.importorskip("deltalake", reason="deltalake is not installed: make .venv/dev")

from broker.clock import BASE_MS
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.report import in_json
from broker.strict_yaml import BadFileError
from pipeline import what_if
from pipeline.formats import REQUESTS
from pipeline.run import Pipeline
from pipeline.sources import EVENTS, dated
from pipeline.tables import Warehouse
from tests.pipeline.events import DAY, raw, record, request
from webui.insights import replay

HELD = "quotas: [{entity: {user: alice}, limits: {producer_byte_rate: 1000}}]"
FREE = "quotas: [{entity: {user: alice}, limits: {producer_byte_rate: 1000000}}]"


@pytest.fixture
def quotas(tmp_path):
    def write(text):
        path = tmp_path / "quotas.yaml"
        path.write_text(text)
        return path

    return write


def test_a_clients_seconds_at_one_broker_are_played_in_the_order_of_time(spark):
    in_time = [request(at, bytes_in=at) for at in (1, 2, 3)]
    rows = [
        record(REQUESTS, 0, in_time[2]),
        record(REQUESTS, 1, in_time[0]),
        record(REQUESTS, 2, b"not json"),
        record(REQUESTS, 3, in_time[1]),
        record(REQUESTS, 4, request(2), node="2"),
        record(REQUESTS, 5, request(2, source="others")),
        record(REQUESTS, 6, request(-12 * 3600 - 1)),
    ]
    found = what_if.recorded(raw(spark, rows), DAY, DAY, 1).collect()
    assert [json.loads(row["line"]) for row in found] == in_time


def test_of_several_clusters_one_is_played(spark):
    rows = [
        record(REQUESTS, 0, request(1), cluster="x"),
        record(REQUESTS, 0, request(2), cluster="y"),
        record(REQUESTS, 1, request(3)),
        record(REQUESTS, 1, request(4), cluster="z", node="2"),
    ]
    events = dated(raw(spark, rows))
    assert what_if.clusters_of(events, DAY, DAY, 1) == ["x", "y"]
    assert what_if.clusters_of(events, "2025-11-22", "2025-11-22", 1) == []
    (found,) = what_if.recorded(events, DAY, DAY, 1, "y").collect()
    assert json.loads(found["line"]) == request(2)
    assert what_if.recorded(events, DAY, DAY, 1).count() == 3


def test_the_console_s_program_plays_the_same_without_spark(spark, tmp_path):
    """webui.insights.replay filters and orders like Spark."""
    dice = random.Random(7)
    values = [request(dice.randrange(300), bytes_in=dice.choice([1, 700, 9_000])) for _ in range(200)]
    values += [request(at, api="FetchConsumer", bytes_out=at) for at in range(0, 300, 7)]
    values += [request(at, source="others") for at in (3, 4)] + [request(-12 * 3600 - 1)]
    values += [b"not json", request(5, requests=-1), request(-90_000)]
    rows = [record(REQUESTS, number, value) for number, value in enumerate(values)]
    rows += [record(REQUESTS, len(rows), request(9), node="2")]
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    Pipeline(warehouse).add(raw(spark, rows))
    by_spark = what_if.recorded(warehouse.read(EVENTS), DAY, DAY, 1).collect()
    load = replay.recorded(tmp_path / "warehouse", date.fromisoformat(DAY), date.fromisoformat(DAY), 1)
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text(HELD)
    report = in_json(what_if.simulate_recorded((row["line"] for row in by_spark), quotas))
    assert in_json(what_if.simulate_recorded(load.lines(), quotas)) == report
    assert json.loads(report)["rules"][0]["throttles"]


def lines():
    """Return a minute of 2 kB a second."""
    return [json.dumps(request(at, requests=2, bytes_in=2_000)) for at in range(60)]


def rule_told(outcome):
    (rule,) = json.loads(in_json(outcome, None))["rules"]
    return rule


def test_a_quota_below_the_use_limits_to_its_value_and_one_above_throttles_no_client(quotas):
    rule = rule_told(what_if.simulate_recorded(lines(), quotas(HELD)))
    # A thousand bytes a second for a minute, and the request that violated the limit.
    assert (rule["offered_bytes"], rule["accepted_bytes"]) == (120_000, 61_000)
    free = rule_told(what_if.simulate_recorded(lines(), quotas(FREE)))
    assert (free["accepted_bytes"], free["throttles"]) == (120_000, 0)


@pytest.mark.parametrize("seed", range(5))
def test_throttles_agree_with_the_brokers_own_quotas(quotas, seed):
    dice = random.Random(seed)
    sizes = [dice.choice([0, 300, 900, 2_500, 20_000]) for _ in range(120)]
    load = [
        json.dumps(request(at, requests=1, bytes_in=size, bytes_out=0))
        for at, size in enumerate(sizes)
        if size or not at
    ]
    limits = "limits: {producer_byte_rate: 1000}"
    outcome = what_if.simulate_recorded(load, quotas(f"quotas: [{{entity: {{user: alice}}, {limits}}}]"))
    own = ClientQuotas()
    own.apply(Entity(user="alice"), "producer_byte_rate", 1_000)
    free_us, result = 0, []
    for at, size in enumerate(sizes):
        sent_us = max(at * 1_000_000, free_us)
        if sent_us >= outcome.scenario.duration_us or not (size or not at):
            continue
        throttle = own.record_produce("alice", "a", size, BASE_MS + sent_us // 1_000)
        result += [throttle.throttle_ms] if throttle else []
        free_us = sent_us + outcome.scenario.latency_us + (throttle.throttle_ms * 1_000 if throttle else 0)
    (client,) = outcome.clients
    totals = client.connection.throttles[QuotaKind.PRODUCE]
    assert (totals.count, totals.total_ms, totals.longest_ms) == (len(result), sum(result), max(result))
    assert len(result) > 5


def test_a_quota_file_that_cannot_be_meant_is_refused(quotas):
    with pytest.raises(BadFileError, match="producer_bytes"):
        what_if.simulate_recorded(lines(), quotas(HELD.replace("producer_byte_rate", "producer_bytes")))
