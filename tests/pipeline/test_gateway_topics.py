"""What a gateway writes to the event topics of an Apache Kafka cluster is what the pipeline reads there."""

import shutil

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer

from benchmarks.install import KAFKA_LIBS
from pipeline.gold.throttling import THROTTLING
from pipeline.otlp.tables import TABLES
from pipeline.streaming import Stream
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess, set_rate
from tests.support.greedy_load import GreedyLoad
from tests.support.kafka_cluster import KafkaCluster

GREEDY = "greedy"
RATE = 100_000


@pytest.mark.endtoend
@pytest.mark.skipif(
    shutil.which("java") is None or not KAFKA_LIBS.exists(),
    reason="needs Java and `python -m benchmarks.install kafka`",
)
def test_throttles_and_pushes_at_a_gateway_become_rows(spark, warehouse, tmp_path):
    directory = tmp_path / "gateway"
    directory.mkdir()
    with (
        KafkaCluster(tmp_path) as cluster,
        GatewayProcess(directory, cluster.bootstrap(), nodes=1) as gateway,
    ):
        asked = {"metrics": ["*"], "interval.ms": 300}
        gateway.ask("PUT", "/api/v1/client-metrics/all", asked)
        set_rate(gateway, GREEDY, RATE)
        with GreedyLoad("watched", RATE, 1, GREEDY) as load:
            load.start(0, gateway.bootstrap)
            within(60, lambda: load.delivered[0] > 12 * RATE, "records beyond the limit")
            producer = Producer({"bootstrap.servers": gateway.bootstrap, "client.id": "measured"})
            producer.produce("watched", b"x")
            assert producer.flush(30) == 0
            within(30, lambda: _has_pushed(gateway), "its metrics are pushed")
            del producer
        # A gateway that stops writes the events that it still has.
        assert gateway.stop() == 0
        for _ in Stream(warehouse, cluster.bootstrap(), {}, 10_000).once():
            pass
    throttles = warehouse.read(THROTTLING).where(f"client_id = '{GREEDY}'").collect()
    assert sum(row["throttles"] for row in throttles) > 0
    assert {(row["kind"], row["bound"], row["principal"]) for row in throttles} == {
        ("produce", float(RATE), "ANONYMOUS")
    }
    gauges = warehouse.read(TABLES["gauge"]).where("client_id = 'measured'").collect()
    assert {row["software_name"] for row in gauges} == {"confluent-kafka-python"}


def _has_pushed(gateway):
    rows = gateway.ask("GET", "/api/v1/client-instances?search=measured")["items"]
    return [row for row in rows if row["pushes"] > 0]
