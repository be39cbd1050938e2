"""From real clients' pushes to rows: Prometheus, the REST API and Spark agree with librdkafka and the Java
client.
"""

import shutil
import subprocess
import time
from collections import defaultdict

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer

from benchmarks.install import KAFKA_LIBS
from pipeline import silver
from pipeline.formats import TELEMETRY
from pipeline.gold import client_metrics
from pipeline.otlp.tables import TABLES
from pipeline.streaming import Stream
from tests.support.broker_process import BrokerProcess, within
from tests.support.telemetry import CONNECTIONS, gauges_answered, gauges_shown, shown, subscribe

CONNECTIONS_SAID = "org.apache.kafka.producer.connection.creation.total"


@pytest.fixture
def broker(tmp_path):
    with BrokerProcess(tmp_path / "data") as process:
        subscribe(process, metrics="*", interval_ms="300")
        yield process


@pytest.mark.endtoend
def test_prometheus_rest_and_spark_agree_with_the_pushes(spark, warehouse, broker):
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "rd"})
    producer.produce("t", b"x" * 100)
    assert producer.flush(10) == 0
    prometheus = within(20, lambda: gauges_shown(broker, "rd"), "the first push")
    rest = gauges_answered(broker, "rd")
    connections = {}
    if shutil.which("java") and KAFKA_LIBS.exists():
        connections["java"] = _java(broker)
    connections["rd"] = shown(broker, CONNECTIONS, "rd")
    time.sleep(1.2)  # the topic is written once a second
    for _ in Stream(warehouse, broker.plain, {}, 10_000).once():
        pass
    del producer

    pushed = defaultdict(dict)
    gauges = warehouse.read(TABLES["gauge"]).where("client_id = 'rd' AND size(Attributes) = 0").collect()
    for row in gauges:
        pushed[row["partition"], row["offset"]][row["MetricName"].replace(".", "_")] = row["Value"]
    assert prometheus in pushed.values() and rest in pushed.values()
    assert {(row["principal"], row["address"], row["software_name"], row["node"]) for row in gauges} == {
        ("ANONYMOUS", "127.0.0.1", "confluent-kafka-python", 1)
    }
    # Deltas, added up by the broker in memory and by Spark over the minutes.
    minutes = warehouse.read(client_metrics.TABLE).where(f"metric = '{CONNECTIONS_SAID}'")
    increases = {
        row["client_id"]: [row["total"]]
        for row in minutes.groupBy("client_id").agg({"increase": "sum"}).toDF("client_id", "total").collect()
    }
    assert increases == connections
    # The Java client, including Spark's own, pushes NaN for every average without a sample.
    if warehouse.exists(silver.QUARANTINE):
        aside = warehouse.read(silver.QUARANTINE).where(f"topic = '{TELEMETRY}'").collect()
        assert {row["reason"] for row in aside} <= {"Value is not a number"}
        assert not {(row["partition"], row["offset"]) for row in aside} & pushed.keys()


def _java(broker):
    """Return the connections that Kafka's own producer reports."""
    command = [
        *("java", "-Xmx256m", "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", "t", "--num-records", "200", "--record-size", "10", "--throughput", "40"),
        *("--producer-props", f"bootstrap.servers={broker.plain}", "client.id=java"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as java:
        within(40, lambda: shown(broker, CONNECTIONS, "java") == [2.0], "both connections")
        java.communicate(timeout=60)
    assert java.returncode == 0
    return [2.0]
