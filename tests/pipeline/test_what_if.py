"""What if: the simulated records, and the same answer as the broker's own simulation."""

import json
import random
from datetime import date

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
pytest.importorskip("deltalake", reason="deltalake is not installed: make .venv/dev")

from broker.common.clock import BASE_MS
from broker.common.strict_yaml import BadFileError
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.engine import TooManyEventsError, run_scenario
from broker.simulation.report import in_json
from broker.simulation.scenario_file import read_limits, read_scenario
from broker.simulation.summary import summary_of
from pipeline import silver, what_if
from pipeline.formats import REQUESTS
from pipeline.run import Pipeline
from pipeline.tables import Warehouse
from tests.pipeline.events import DAY, raw, record, request, rows_of
from webui.insights import replay

HELD = """
quotas:
- {entity: {user: alice}, limits: {producer_byte_rate: 1000}}
- {entity: {user: ANONYMOUS}, limits: {producer_byte_rate: 900}}
"""

MANY = """
quotas:
- {entity: {user: u0}, limits: {producer_byte_rate: 3000, consumer_byte_rate: 5000}}
- {entity: {user: u1, client-id: c0}, limits: {producer_byte_rate: 700}}
- {entity: {user: u2, client-id: null}, limits: {producer_byte_rate: 900, request_percentage: 5}}
- {entity: {client-id: c3}, limits: {producer_byte_rate: 2000}}
- {entity: {user: null}, limits: {consumer_byte_rate: 4000}}
- {entity: {client-id: null}, limits: {producer_byte_rate: 1500}}
- {entity: {user: u3}, limits: {producer_byte_rate: 10}, shadow: true}
"""
"""Entities of every kind; that of u0 is shared by all its client ids, that of c3 by all their users."""


@pytest.fixture
def quotas(tmp_path):
    def write(text):
        path = tmp_path / "quotas.yaml"
        path.write_text(text)
        return path

    return write


def simulated(folder, lines, quotas):
    """Simulate these lines like `weir simulate`."""
    (folder / "load.jsonl").write_text("".join(f"{line}\n" for line in lines))
    scenario = folder / "what-if.yaml"
    scenario.write_text(json.dumps({"recorded": "load.jsonl", "quotas": str(quotas)}))
    return run_scenario(read_scenario(scenario))


def silver_requests(spark, rows):
    return silver.valid_rows(silver.parse_events(raw(spark, rows), REQUESTS))


def test_the_seconds_of_clients_at_one_broker_are_simulated(spark):
    rows = [
        record(REQUESTS, 0, request(1, bytes_in=7)),
        record(REQUESTS, 1, request(3, bytes_out=8, api="FetchConsumer")),
        record(REQUESTS, 2, b"not json"),
        record(REQUESTS, 3, request(2, api="Metadata", bytes_in=9)),
        record(REQUESTS, 4, request(2), node="2"),
        record(REQUESTS, 5, request(2, source="others")),
        record(REQUESTS, 6, request(-12 * 3600 - 1)),
    ]
    found = what_if.recorded(silver_requests(spark, rows), DAY, DAY, 1)
    seconds = rows_of(found, "kind", "offset", "nbytes")
    assert seconds == [("fetch", 1, 8), ("produce", 0, 7), (None, 3, None)]


def test_of_several_clusters_one_is_simulated(spark):
    rows = [
        record(REQUESTS, 0, request(1), cluster="x"),
        record(REQUESTS, 0, request(2), cluster="y"),
        record(REQUESTS, 1, request(3)),
        record(REQUESTS, 1, request(4), cluster="z", node="2"),
    ]
    requests = silver_requests(spark, rows)
    assert what_if.clusters_of(requests, DAY, DAY, 1) == ["x", "y"]
    assert what_if.clusters_of(requests, "2025-11-22", "2025-11-22", 1) == []
    (found,) = what_if.recorded(requests, DAY, DAY, 1, "y").collect()
    assert found["time_ms"] == request(2)["time_ms"]
    assert what_if.recorded(requests, DAY, DAY, 1).count() == 3


def test_the_answer_is_that_of_weir_simulate(spark, tmp_path, quotas):
    """Byte by byte, for entities of every kind, users and client ids that share a limit or have none."""
    dice = random.Random(7)
    values = [
        request(
            dice.randrange(120),
            v=dice.choice((1, 2)),
            principal=f"u{dice.randrange(5)}",
            client_id=f"c{dice.randrange(4)}",
            api=dice.choice(("Produce", "Produce", "FetchConsumer", "Metadata")),
            requests=dice.randrange(20),
            bytes_in=dice.choice((0, 700, 9_000)),
            bytes_out=dice.choice((0, 700, 9_000)),
        )
        for _ in range(1_500)
    ]
    values += [request(-5, api="Metadata"), request(130, api="Metadata"), request(9, source="others")]
    dice.shuffle(values)
    rows = [record(REQUESTS, number, value) for number, value in enumerate(values)]
    file = quotas(MANY)
    in_order = sorted(range(len(values)), key=lambda at: (values[at]["time_ms"], at))
    whole = summary_of(simulated(tmp_path, [json.dumps(values[at]) for at in in_order], file))
    load = what_if.recorded(silver_requests(spark, rows), DAY, DAY, 1)
    assert in_json(what_if.simulate(load, read_limits(file))) == in_json(whole)
    throttled = {str(row.entity) for row in whole.rules if row.totals.throttles}
    assert throttled == {
        *("user u0", "user u1 client-id c0", "user u2 default client-id"),
        *("client-id c3", "default user", "default client-id"),
    }
    with pytest.raises(TooManyEventsError):
        what_if.simulate(load, read_limits(file), max_events=50)


def test_a_load_without_clients_is_no_error_and_one_without_records_has_no_answer(spark):
    requests = silver_requests(
        spark,
        [record(REQUESTS, 0, request(1, api="Metadata")), record(REQUESTS, 1, request(2, requests=0))],
    )
    summary = what_if.simulate(what_if.recorded(requests, DAY, DAY, 1), ())
    assert (summary.duration_us, summary.groups) == (1_000_000, ())
    assert what_if.simulate(what_if.recorded(requests, DAY, DAY, 2), ()) is None


def test_records_without_bytes_are_refused(spark):
    rows = [record(REQUESTS, at, request(1, bytes_in=None)) for at in range(2)]
    with pytest.raises(BadFileError, match="2 recorded seconds have no bytes"):
        what_if.simulate(what_if.recorded(silver_requests(spark, rows), DAY, DAY, 1), ())


def test_the_console_s_program_plays_the_same_without_spark(spark, tmp_path, quotas):
    """webui.insights.replay filters and orders like Spark."""
    dice = random.Random(7)
    values = [request(dice.randrange(300), bytes_in=dice.choice([1, 700, 9_000])) for _ in range(200)]
    values += [request(at, api="FetchConsumer", bytes_out=at) for at in range(0, 300, 7)]
    values += [request(at, source="others") for at in (3, 4)] + [request(-12 * 3600 - 1)]
    # As another writer leaves out what it does not know.
    values += [request(at, bytes_in=9_000, principal=None, client_id=None) for at in range(9)]
    values += [b"not json", request(5, requests=-1), request(-90_000)]
    rows = [record(REQUESTS, number, value) for number, value in enumerate(values)]
    rows += [record(REQUESTS, len(rows), request(9), node="2")]
    warehouse = Warehouse(spark, str(tmp_path / "warehouse"))
    Pipeline(warehouse).add(raw(spark, rows))
    file = quotas(HELD)
    load = what_if.recorded(warehouse.read(silver.TABLES[REQUESTS]), DAY, DAY, 1)
    by_spark = in_json(what_if.simulate(load, read_limits(file)))
    day = date.fromisoformat(DAY)
    lines = replay.recorded(tmp_path / "warehouse", day, day, 1).lines()
    assert in_json(summary_of(simulated(tmp_path, lines, file))) == by_spark
    assert [rule["throttles"] > 0 for rule in json.loads(by_spark)["rules"]] == [True, True]


@pytest.mark.parametrize("seed", range(5))
def test_throttles_agree_with_the_brokers_own_quotas(tmp_path, quotas, seed):
    dice = random.Random(seed)
    sizes = [dice.choice([0, 300, 900, 2_500, 20_000]) for _ in range(120)]
    load = [
        json.dumps(request(at, requests=1, bytes_in=size, bytes_out=0))
        for at, size in enumerate(sizes)
        if size or not at
    ]
    outcome = simulated(tmp_path, load, quotas(HELD))
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
