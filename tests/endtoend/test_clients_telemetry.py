"""Real clients push their metrics without being told to: confluent-kafka (librdkafka) and Kafka's Java
client.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest
import zstandard
from confluent_kafka import Consumer, Producer, TopicPartition
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from benchmarks.install import KAFKA_LIBS
from tests.support.broker_process import BrokerProcess, within
from tests.support.prometheus import parse
from tests.support.telemetry import CONNECTIONS, gauges_answered, gauges_shown, shown, subscribe

pytestmark = pytest.mark.endtoend

INTERVAL_MS = 300
PUSHES = "kafka_server_client_metrics_plugin_export_count"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        subscribe(process, metrics="*", interval_ms=str(INTERVAL_MS))
        yield process


def pushes(broker: BrokerProcess) -> float:
    family = parse(broker.ask("GET", "/metrics"))[PUSHES]
    return sum(family.samples.values())


def gauges_in(payload: bytes) -> dict[str, float]:
    """What a payload of the topic says."""
    data = MetricsData.FromString(zstandard.ZstdDecompressor().decompressobj().decompress(payload))
    return {
        metric.name.replace(".", "_"): float(getattr(point, point.WhichOneof("value")))
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.gauge.data_points
        if not point.attributes
    }


def payloads(broker: BrokerProcess, client_id: str) -> list[bytes]:
    """What the topic has of a client by now, oldest first."""
    consumer = Consumer({"bootstrap.servers": broker.plain, "group.id": "g", "enable.metrics.push": False})
    topic = "__weir_client_telemetry"
    found = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    partitions = [TopicPartition(topic, index, 0) for index in found]
    consumer.assign(partitions)
    try:
        ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions]
        read: list[bytes] = []
        for _ in range(sum(ends)):
            message = consumer.poll(10.0)
            assert message is not None and message.error() is None
            headers = dict(message.headers())
            assert headers["client_instance_id"] == message.key() and headers["compression"] == b"zstd"
            if headers["client_id"] == client_id.encode():
                read.append(message.value())
        return read
    finally:
        consumer.close()


def test_pushed_metrics_reach_the_topic_prometheus_and_rest(
    broker: BrokerProcess,
) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "both"})
    producer.produce("t", b"x" * 100)
    assert producer.flush(10) == 0
    shown_of = within(10, lambda: gauges_shown(broker, "both"), "the first push")
    assert "org_apache_kafka_producer_record_queue_time_max" in shown_of
    answered = gauges_answered(broker, "both")
    time.sleep(1.2)  # the topic is written once a second
    gauges = [gauges_in(payload) for payload in payloads(broker, "both")]
    assert shown_of in gauges and answered in gauges
    del producer


def test_librdkafka_pushes_until_it_is_closed_and_is_forgotten_then(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.plain, "client.id": "rd"})
    producer.produce("t", b"x")
    assert producer.flush(10) == 0
    within(10, lambda: shown(broker, CONNECTIONS, "rd"), "the first push")
    before = pushes(broker)
    within(10, lambda: pushes(broker) >= before + 2, "two more")
    del producer
    within(10, lambda: not shown(broker, CONNECTIONS, "rd"), "the end of the instance")


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("java") is None or not KAFKA_LIBS.exists(),
    reason="needs Java and `python -m benchmarks.install kafka`",
)
def test_the_java_client_pushes_while_it_runs(broker: BrokerProcess) -> None:
    command = [
        *("java", "-Xmx256m", "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.ProducerPerformance"),
        *("--topic", "t", "--num-records", "200", "--record-size", "10", "--throughput", "40"),
        *("--producer-props", f"bootstrap.servers={broker.plain}", "client.id=java"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as java:
        within(20, lambda: shown(broker, CONNECTIONS, "java") == [2.0], "the first push")
        output, _ = java.communicate(timeout=60)
    assert java.returncode == 0 and "telemetry" not in output.lower(), output
    within(10, lambda: not shown(broker, CONNECTIONS, "java"), "the end of the instance")
