"""Consumers that name no rack, before three brokers in three racks: with `gateway.client.racks` they read
from the replicas in the rack of their address.
"""

import asyncio
import json
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from broker.common.errors import ErrorCode
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from broker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.client_programs import go_program
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.machine_speed import crowding
from tests.support.prometheus import parse
from tests.support.real_clients import CLIENTS, TIMEOUT_S, Client, Target, create
from tests.support.real_clients import kafka as kafka_python
from tests.support.wire import OPENED, WireClient

pytestmark = [
    *kafka_tools.pytestmark,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <s:pytest.PytestUnraisableExceptionWarning"),
]

RACKS: Final = {"127.0.0.1": "rack-1", "127.0.0.2": "rack-2", "127.0.0.3": "rack-3"}
FROM: Final = {"confluent": "127.0.0.1", "kafka-python": "127.0.0.2", "aiokafka": "127.0.0.3"}
"""librdkafka and Java connect from the address that the system gives."""

LOADING: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
FOLLOWS: Final = ("confluent", "kafka-python")
"""aiokafka 0.14 ignores where it is sent unless it has named a rack: with one it would get no records."""

ELSEWHERE: Final = "127.0.0.4"
TOPIC: Final = "racked"
PARTITIONS: Final = 3
GO_TOPIC: Final = "racked-go"
RECORDS: Final = 3_000
LATE: Final = 300
LATE_WITHIN_MS: Final = 3_000
"""A replica has a record after its leader, and learns that it is committed with the next Fetch."""

VALUE: Final = b"0123456789" * 1_000
OWN_SHARE: Final = 0.95


def fill(cluster: KafkaCluster, topic: str) -> None:
    """Make a topic with a leader on each node, and write RECORDS to it."""
    create(Target(cluster.bootstrap()), topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, VALUE, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    cluster.wait_in_sync(topic)
    assert {cluster.leader_of(topic, each).node_id for each in range(PARTITIONS)} == {1, 2, 3}


@pytest.fixture(scope="module")
def gateway(cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Before a topic of 30 MB with a leader on each node, which was written past the gateway."""
    fill(cluster, TOPIC)
    racks = ",".join(f"{address}:{rack}" for address, rack in RACKS.items())
    with GatewayProcess(
        tmp_path_factory.mktemp("racks"), cluster.bootstrap(), f"gateway.client.racks={racks}"
    ) as running:
        yield running


def connect_from(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Let kafka-python and aiokafka connect from this address, as if they ran on another machine."""
    python_socket = kafka_python.net.KafkaNetSocket
    new_socket = python_socket.socket
    create_connection = asyncio.BaseEventLoop.create_connection

    def bound(*arguments: Any, **named: Any) -> socket.socket:
        sock: socket.socket = new_socket(*arguments, **named)
        sock.bind((source, 0))
        return sock

    async def connected(loop: Any, factory: Any, host: str, port: int, **named: Any) -> Any:
        return await create_connection(loop, factory, host, port, **{**named, "local_addr": (source, 0)})

    monkeypatch.setattr(python_socket, "socket", bound)
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", connected)


def bytes_out(gateway: GatewayProcess, client_rack: str) -> dict[str, int]:
    """Bytes of responses to clients of a rack, by the rack of the node."""
    rows = gateway.ask("GET", "/api/v1/upstream")["racks"]
    return {row["node_rack"]: row["bytes_out"] for row in rows if row["client_rack"] == client_rack}


class Read:
    """What clients of a rack have received since this was made."""

    def __init__(self, gateway: GatewayProcess, client_rack: str) -> None:
        self._gateway = gateway
        self._rack = client_rack
        self._before = bytes_out(gateway, client_rack)

    def by_rack(self) -> dict[str, int]:
        now = bytes_out(self._gateway, self._rack)
        return {rack: count - self._before.get(rack, 0) for rack, count in now.items()}

    def total(self) -> int:
        return sum(self.by_rack().values())

    def check_own(self) -> None:
        """All records, and 95 % of the bytes from the own rack."""
        found = self.by_rack()
        print(f"own rack: {found[self._rack] / sum(found.values()):.4f}")
        assert sum(found.values()) >= RECORDS * len(VALUE)
        assert found[self._rack] >= OWN_SHARE * sum(found.values()), found

    def check_leaders(self) -> None:
        """A third of the records from each rack."""
        found = self.by_rack()
        assert all(found[rack] >= RECORDS * len(VALUE) / PARTITIONS for rack in RACKS.values()), found


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_consumer_without_a_rack_reads_from_that_of_its_address_if_it_follows(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    source = FROM[client.name]
    if client.name != "confluent":
        connect_from(monkeypatch, source)
    read = Read(gateway, RACKS[source])
    values = client.read(Target(gateway.bootstrap), TOPIC, RECORDS, partitions=PARTITIONS)
    assert (len(values), set(values)) == (RECORDS, {VALUE})
    if client.name in FOLLOWS:
        read.check_own()
    else:
        read.check_leaders()


GO_CLIENTS: Final = {"franz": "127.0.0.2", "sarama": "127.0.0.3"}


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
@pytest.mark.parametrize("client", GO_CLIENTS)
def test_a_go_consumer_reads_from_the_rack_of_its_address_and_does_not_stall(
    gateway: GatewayProcess, cluster: KafkaCluster, tmp_path: Path, client: str
) -> None:
    """Records that are written while it reads come soon, from the replicas too."""
    topic, source = f"{GO_TOPIC}-{client}", GO_CLIENTS[client]
    fill(cluster, topic)
    read = Read(gateway, RACKS[source])
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(racked, client, tmp_path, gateway.bootstrap, topic, source)
        within(300, lambda: ending.done() or read.total() >= RECORDS * len(VALUE), "the first records")
        producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "linger.ms": 0})
        for number in range(LATE):
            producer.produce(topic, VALUE, b"late", partition=number % PARTITIONS)
            producer.poll(0.02)
        assert producer.flush(TIMEOUT_S) == 0
        output = ending.result()
    print(f"{client}: {output}")
    assert output["read"] == RECORDS + LATE
    assert output["latest_ms"] <= LATE_WITHIN_MS * crowding()
    read.check_own()


def racked(client: str, directory: Path, bootstrap: str, topic: str, source: str) -> Any:
    count = RECORDS + LATE
    if client == "franz":
        more = {"PREFIX": f"{topic}-", "TOPIC": topic, "SOURCE": source, "RECORDS": str(count)}
        return go_program("franz", directory)("racked", bootstrap, environment=more)
    where = {
        "bootstrap": bootstrap,
        "prefix": f"{topic}-",
        "topic": topic,
        "source": source,
        "records": count,
    }
    return go_program("go_clients", directory)("sarama", "racked", json.dumps(where))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_reads_from_the_rack_of_its_address(gateway: GatewayProcess, protocol: str) -> None:
    read = Read(gateway, RACKS["127.0.0.1"])
    status, output, complained = kafka_tools.call(
        kafka_tools.CONSUMER,
        "--bootstrap-server",
        gateway.bootstrap,
        "--topic",
        TOPIC,
        "--from-beginning",
        "--max-messages",
        str(RECORDS),
        "--timeout-ms",
        "60000",
        "--formatter",
        "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
        "--command-property",
        f"group.protocol={protocol}",
    )
    assert status == 0, output + complained
    assert f"Processed a total of {RECORDS} messages" in output + complained
    read.check_own()


def test_a_consumer_that_names_a_rack_keeps_it(gateway: GatewayProcess) -> None:
    read = Read(gateway, RACKS["127.0.0.1"])
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "own-rack",
            "client.rack": "rack-3",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    left = RECORDS
    while left:
        left -= len(consumer.consume(left, timeout=TIMEOUT_S))
    consumer.close()
    found = read.by_rack()
    assert found["rack-3"] >= OWN_SHARE * sum(found.values()), found


def test_a_consumer_of_another_address_reads_from_the_leaders(
    gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_from(monkeypatch, ELSEWHERE)
    read = Read(gateway, "")
    client = next(each for each in CLIENTS if each.name == "kafka-python")
    assert len(client.read(Target(gateway.bootstrap), TOPIC, RECORDS, partitions=PARTITIONS)) == RECORDS
    read.check_leaders()


def test_prometheus_has_the_same_bytes(gateway: GatewayProcess) -> None:
    AdminClient({"bootstrap.servers": gateway.bootstrap}).list_topics(timeout=TIMEOUT_S)
    before = bytes_out(gateway, "rack-1")
    page = parse(gateway.ask("GET", "/metrics"))["weir_gateway_rack_bytes_out_total"]
    after = bytes_out(gateway, "rack-1")
    assert sum(before.values()) > 0
    for node_rack, count in before.items():
        assert count <= page.value(client_rack="rack-1", node_rack=node_rack) <= after[node_rack]


async def connected(gateway: GatewayProcess, source: str, node_id: int) -> WireClient:
    host, _, port = gateway.addresses[node_id].rpartition(":")
    stream = await trio.open_tcp_stream(host, int(port), local_address=source)
    OPENED.append(stream)
    return WireClient(stream, "suite")


async def coordinator(gateway: GatewayProcess, group: str, source: str) -> WireClient:
    """A connection to the coordinator of a group, from this address."""
    asking = await connected(gateway, source, 1)
    with trio.fail_after(TIMEOUT_S):
        while True:
            found = (await asking.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)).coordinators[0]
            if not found.error_code:
                return await connected(gateway, source, found.node_id)
            await trio.sleep(0.1)


async def join(client: WireClient, heartbeat: ShareGroupHeartbeatRequest) -> None:
    with trio.fail_after(TIMEOUT_S):
        while True:
            answer = await client.ask(heartbeat, 1)
            if not answer.error_code:
                return
            assert answer.error_code in LOADING, answer
            await trio.sleep(0.1)


async def test_members_of_new_groups_have_the_rack_of_their_address(gateway: GatewayProcess) -> None:
    consumer = Consumer(
        {"bootstrap.servers": gateway.bootstrap, "group.id": "members", "group.protocol": "consumer"}
    )
    consumer.subscribe([TOPIC])
    try:
        within(TIMEOUT_S, lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment")
        client = await coordinator(gateway, "members", ELSEWHERE)
        (group,) = (await client.ask(ConsumerGroupDescribeRequest(["members"]), 1)).groups
        assert [member.rack_id for member in group.members] == ["rack-1"]
    finally:
        consumer.close()


async def test_members_of_share_groups_have_it_too(gateway: GatewayProcess) -> None:
    client = await coordinator(gateway, "sharing", "127.0.0.2")
    await client.ask(ApiVersionsRequest("apache-kafka-java", "4.4.0"), 3)
    for member_id, rack in (("AAAAAAAAAAAAAAAAAAAAAQ", None), ("AAAAAAAAAAAAAAAAAAAAAg", "own")):
        await join(client, ShareGroupHeartbeatRequest("sharing", member_id, 0, rack, [TOPIC]))
    (group,) = (await client.ask(ShareGroupDescribeRequest(["sharing"]), 1)).groups
    assert sorted(str(member.rack_id) for member in group.members) == ["own", "rack-2"]
