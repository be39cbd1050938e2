"""The gateway before Kafka 3.9.1, the last release before 4.0, and through an upgrade from it.

Kafka 4 does not serve the first versions of Produce and Fetch any more: their frames are written by hand
here, and kafka-python sends them if it is told that its broker is old. The jars of 3.9.1 come with Maven.
"""

import gc
import shutil
import socket
import struct
import threading
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.install import KAFKA_LIBS
from broker.gateway.api_versions import INTERNAL
from broker.protocol import codec
from broker.protocol.api_key import NAMES, ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster, KafkaNode
from tests.upstream.jars import libs_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    *kafka_tools.pytestmark,
    pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven for the jars of Kafka 3.9.1"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

OLD: Final = "3.9.1"
TIMEOUT_S: Final = 30
CLIENT: Final = "old"
LIMIT: Final = 100_000
"""Bytes per second."""

BEYOND: Final = LIMIT * 11
"""Bytes of one message that its client repays after one more second than the window of ten."""

READ_FROM: Final = {
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.SASL_HANDSHAKE: 1,
}
"""What the gateway reads whole, from the version on in which Kafka 4 has it; and SaslHandshake."""

Versions = dict[int, tuple[int, int]]


@pytest.fixture(scope="module")
def old_libs() -> Path:
    return libs_of(OLD)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory, old_libs: Path) -> Iterator[KafkaCluster]:
    # Records of the oldest versions have no time, which retention takes for a long time ago.
    keep = "log.retention.ms=-1"
    with KafkaCluster(tmp_path_factory.mktemp("old"), 1, keep, libs=old_libs) as running:
        create(running.bootstrap(), "events")
        yield running
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module", params=["upstream", "gateway"])
def gateway(
    request: pytest.FixtureRequest, old: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """The gateway with each value of gateway.authentication."""
    authentication = f"gateway.authentication={request.param}"
    directory = tmp_path_factory.mktemp(request.param)
    with GatewayProcess(directory, old.bootstrap(), authentication, nodes=1) as running:
        yield running


def create(bootstrap: str, topic: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(TIMEOUT_S)


class Talk:
    """One connection that sends frames of any form."""

    def __init__(self, address: str, client: str = CLIENT) -> None:
        self._client = client
        host, _, port = address.rpartition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def ask(self, api_key: int, version: int, body: bytes) -> bytes:
        """The response behind its correlation id. Raises EOFError if the connection closes."""
        self.send(api_key, version, body)
        return self.receive()

    def send(self, api_key: int, version: int, body: bytes) -> None:
        head = struct.pack(">hhih", api_key, version, 7, len(self._client)) + self._client.encode()
        self._sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)
        assert answer[:4] == struct.pack(">i", 7)
        return answer[4:]

    def _exactly(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            try:
                more = self._sock.recv(count - len(got))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError
            got += more
        return bytes(got)


def announced(address: str, version: int = 3) -> Versions:
    """What ApiVersions says at an address."""
    request = codec.encode_request(ApiKey.API_VERSIONS, version)(ApiVersionsRequest("suite", "1"), 7, CLIENT)
    behind = b"".join(bytes(part) for part in request)[4 + 10 + len(CLIENT) :]
    with Talk(address) as talk:
        answer = codec.decode_response(ApiKey.API_VERSIONS, version)(talk.ask(18, version, behind), 0)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def message_set(value: bytes, magic: int) -> bytes:
    """One message in a format of before Kafka 0.11."""
    message = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1_000) if magic else b"")
    message += struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">I", zlib.crc32(message)) + message
    return struct.pack(">qi", 0, len(message)) + message


def produce_body(version: int, value: bytes, acks: int = 1) -> bytes:
    records = message_set(value, int(version == 2))
    body = struct.pack(">hii", acks, 30_000, 1) + string("events") + struct.pack(">ii", 1, 0)
    return body + struct.pack(">i", len(records)) + records


def produced(version: int, answer: bytes) -> tuple[int, int, int]:
    """Error code, offset and throttle time, -1 where there is none."""
    at = 4 + 2 + len("events") + 4
    _, error, offset = struct.unpack_from(">ihq", answer, at)
    at += 14 + (8 if version >= 2 else 0)
    throttle = struct.unpack_from(">i", answer, at)[0] if version else -1
    assert len(answer) == at + (4 if version else 0)
    return error, offset, throttle


def fetch_body(version: int, offset: int, most: int = 10_000_000) -> bytes:
    body = struct.pack(">iii", -1, 1_000, 1) + (struct.pack(">i", most) if version >= 3 else b"")
    return body + struct.pack(">i", 1) + string("events") + struct.pack(">iiqi", 1, 0, offset, most)


def fetched(version: int, answer: bytes) -> tuple[int, bytes, int]:
    """Error code, records and throttle time, -1 where there is none."""
    throttle = struct.unpack_from(">i", answer)[0] if version else -1
    at = (4 if version else 0) + 4 + 2 + len("events") + 4
    _, error, _, size = struct.unpack_from(">ihqi", answer, at)
    assert len(answer) == at + 18 + size
    return error, answer[at + 18 :], throttle


def test_every_version_that_the_cluster_serves_is_announced(old: KafkaCluster, tmp_path: Path) -> None:
    direct = announced(old.bootstrap())
    assert direct[ApiKey.PRODUCE][0] == direct[ApiKey.FETCH][0] == 0
    with GatewayProcess(tmp_path, old.bootstrap(), nodes=1) as gateway:
        expected = {
            key: (max(first, READ_FROM.get(ApiKey(key), 0)), last)
            for key, (first, last) in direct.items()
            if key not in INTERNAL
        }
        expected[ApiKey.FETCH] = 0, 15
        for address in (gateway.bootstrap, gateway.addresses[1]):
            for version in (0, 3, 4, 5):
                found = announced(address, version)
                assert {key: found[key] for key in expected} == expected | {
                    # What the gateway answers itself.
                    key: found[key]
                    for key in (
                        ApiKey.API_VERSIONS,
                        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
                        ApiKey.PUSH_TELEMETRY,
                    )
                    if key in expected
                } | {key: found[key] for key in (48, 49)}
                more = {NAMES[key] for key in found.keys() - expected.keys()}
                assert more <= {"GetTelemetrySubscriptions", "PushTelemetry", "ListConfigResources"}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_of_the_oldest_versions_come_and_go_as_they_are(
    old: KafkaCluster, gateway: GatewayProcess, version: int
) -> None:
    for size in (10, 20_000, 300_000):
        value = f"{version} of {size} ".encode().ljust(size, b"x")
        with Talk(gateway.bootstrap) as talk, Talk(old.bootstrap()) as direct:
            for acks in (1, -1):
                error, offset, throttle = produced(
                    version, talk.ask(0, version, produce_body(version, value, acks))
                )
                assert (error, throttle) == (0, -1 if version == 0 else 0)
            talk.send(0, version, produce_body(version, value, 0))
            for reads in range(4):
                answer = talk.ask(1, reads, fetch_body(reads, offset))
                assert answer == direct.ask(1, reads, fetch_body(reads, offset))
                error, records, throttle = fetched(reads, answer)
                assert error == 0 and value in records
                assert throttle == (-1 if reads == 0 else 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_oldest_produce_is_held_to_its_limit(gateway: GatewayProcess, version: int) -> None:
    """Version 0 is not told: its connection is not read until the time is over."""
    client = f"producer-{version}"
    limit(gateway, client, "producer_byte_rate")
    with Talk(gateway.bootstrap, client) as talk:
        body = produce_body(version, b"")
        body = produce_body(version, bytes(BEYOND - len(body) - 10 - len(client)))
        began = time.monotonic()
        error, offset, throttle = produced(version, talk.ask(0, version, body))
        told = time.monotonic() - began
        assert (error, throttle) == (0, -1 if version == 0 else 1_000)
        assert fetched(0, talk.ask(1, 0, fetch_body(0, offset, 100)))[0] == 0
        held = time.monotonic() - began
    print(f"Produce {version}: answered after {told:.3f} s, the next request after {held:.3f} s")
    assert told < 0.9 and 0.95 < held < 3


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_oldest_fetch_is_held_to_its_limit(gateway: GatewayProcess, version: int) -> None:
    client = f"consumer-{version}"
    limit(gateway, client, "consumer_byte_rate")
    with Talk(gateway.bootstrap, client) as talk:
        error, offset, _ = produced(0, talk.ask(0, 0, produce_body(0, bytes(BEYOND))))
        assert error == 0
        began = time.monotonic()
        error, records, throttle = fetched(version, talk.ask(1, version, fetch_body(version, offset)))
        told = time.monotonic() - began
        assert error == 0 and len(records) > BEYOND
        assert throttle == -1 if version == 0 else 1_000 <= throttle < 1_100
        assert produced(0, talk.ask(0, 0, produce_body(0, b"x")))[0] == 0
        held = time.monotonic() - began
    print(f"Fetch {version}: answered after {told:.3f} s, the next request after {held:.3f} s")
    assert told < 0.9 and 0.95 < held < 3


def limit(gateway: GatewayProcess, client: str, key: str) -> None:
    entries = [{"entity": {"client-id": client}, "ops": [{"key": key, "value": LIMIT}]}]
    gateway.ask("PATCH", "/api/v1/client-quotas", {"entries": entries})


@pytest.mark.parametrize("release", [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 2)])
def test_a_client_of_those_days_produces_and_consumes(
    gateway: GatewayProcess, release: tuple[int, ...]
) -> None:
    topic = "days-" + "-".join(map(str, (*release, time.monotonic_ns())))
    create(gateway.bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=gateway.bootstrap, api_version=release, acks="all")
    sent = [producer.send(topic, f"{number}".encode(), partition=0) for number in range(500)]
    producer.flush(TIMEOUT_S)
    assert [each.get(TIMEOUT_S).offset for each in sent] == list(range(500))
    producer.close()
    group = f"{topic}-group" if release >= (0, 9) else None
    consumer = KafkaConsumer(
        bootstrap_servers=gateway.bootstrap,
        api_version=release,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic])
    values: list[bytes] = []

    def read() -> bool:
        for records in consumer.poll(1_000).values():
            values.extend(record.value for record in records)
        return len(values) >= 500

    within(TIMEOUT_S, read, "all records")
    assert values == [f"{number}".encode() for number in range(500)]
    if group:
        consumer.commit()
    consumer.close()


def test_a_closed_version_is_closed_as_by_the_broker_itself(tmp_path: Path, cluster: KafkaCluster) -> None:
    """Kafka 4.4 announces Produce from 0 and serves it from 3."""
    with GatewayProcess(tmp_path, cluster.bootstrap()) as gateway:
        for address in (next(iter(cluster.nodes.values())).address("PLAINTEXT"), gateway.bootstrap):
            for key, body in ((0, produce_body(0, b"x")), (1, fetch_body(0, 0))):
                with Talk(address) as talk, pytest.raises(EOFError):
                    talk.ask(key, 0, body)


@pytest.mark.parametrize("scope", ["gateway", "broker", "cluster"])
def test_an_upgrade_of_the_brokers_is_seen_port_by_port(tmp_path: Path, old_libs: Path, scope: str) -> None:
    """Three nodes of 3.9.1 become 4.4 one after the other, while clients go on."""
    with KafkaCluster(tmp_path, 3, libs=old_libs) as cluster:
        create(cluster.bootstrap(), "events", 3)
        settings = (f"quota.scope={scope}",)
        with (
            GatewayProcess(tmp_path, cluster.bootstrap(), *settings) as gateway,
            Load(gateway.bootstrap) as load,
        ):
            check_ports(cluster, gateway, {1: 0, 2: 0, 3: 0})
            expected = dict.fromkeys(cluster.nodes, 0)
            for node in cluster.nodes.values():
                node.stop()
                node.libs = KAFKA_LIBS
                node.start()
                cluster.wait()
                cluster.wait_in_sync("events")
                expected[node.node_id] = 4
                check_ports(cluster, gateway, expected)
                before = load.read
                within(TIMEOUT_S, lambda: load.read > before + 20, "records after the upgrade")  # noqa: B023
        assert not load.lost()


def check_ports(cluster: KafkaCluster, gateway: GatewayProcess, first_fetch: dict[int, int]) -> None:
    """Each node's port says what the node behind it serves, and each bootstrap connection what one does."""
    for node_id, first in first_fetch.items():
        within(TIMEOUT_S, lambda: is_served_as(cluster.nodes[node_id], gateway, first), "the node's versions")  # noqa: B023
    wanted = set(first_fetch.values())
    within(
        TIMEOUT_S,
        lambda: {announced(gateway.bootstrap)[ApiKey.FETCH][0] for _ in range(6)} == wanted,
        f"bootstrap connections to nodes that serve Fetch from {wanted}",
    )


def is_served_as(node: KafkaNode, gateway: GatewayProcess, first_fetch: int) -> bool:
    try:
        direct, through = announced(node.address("PLAINTEXT")), announced(gateway.addresses[node.node_id], 5)
    except (EOFError, OSError):
        return False
    assert direct[ApiKey.FETCH][0] == first_fetch
    assert through[ApiKey.FETCH] == (first_fetch, min(15, direct[ApiKey.FETCH][1]))
    return (
        through[ApiKey.PRODUCE] == direct[ApiKey.PRODUCE]
        and through[ApiKey.METADATA] == direct[ApiKey.METADATA]
    )


class Load:
    """A producer and a consumer that go on until the end of the block."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ends = threading.Event()
        self._acked: set[bytes] = set()
        self._values: set[bytes] = set()
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    @property
    def read(self) -> int:
        return len(self._values)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def lost(self) -> set[bytes]:
        """The acknowledged records that have not been read."""
        return self._acked - self._values

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all", "log_level": 0})
        number = 0
        while not self._ends.wait(0.02):
            value = f"{number}".encode()
            number += 1
            producer.produce("events", value, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(TIMEOUT_S)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._acked.add(message.value())

    def _consume(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "upgrade",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.subscribe(["events"])
        deadline = float("inf")
        # After the end, whatever has been acknowledged arrives.
        while time.monotonic() < deadline:
            if self._ends.is_set():
                deadline = min(deadline, time.monotonic() + TIMEOUT_S)
                if not self._threads[0].is_alive() and not self.lost():
                    break
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    self._values.add(message.value())
        consumer.close()
