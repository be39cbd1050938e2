"""Upstream brokers and gateways that are killed, stall, refuse, or close in the middle of a frame: nothing
that was acknowledged is lost, and clients of other nodes do not notice.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.support import kafka_tools
from tests.support.acknowledged_load import PARTITIONS, AcknowledgedLoad, read_all
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.machine_speed import crowding
from tests.support.real_clients import CLIENTS, Target, create
from tests.support.relay import Relay
from tests.support.small_requests import P99_MS, SmallRequests

pytestmark = kafka_tools.pytestmark

CONFLUENT: Final = CLIENTS[0]
FAST: Final = ("upstream.metadata.max.age.ms=1000", "upstream.socket.connection.setup.timeout.ms=2000")


@pytest.fixture(scope="module")
def relays(cluster: KafkaCluster) -> Iterator[dict[int, Relay]]:
    """One in front of each node's RELAYED listener."""
    with ExitStack() as stack:
        yield {
            node_id: stack.enter_context(Relay(node.ports["relay"], node.ports["RELAYED"]))
            for node_id, node in cluster.nodes.items()
        }


@pytest.fixture
def gateway(cluster: KafkaCluster, relays: dict[int, Relay], tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway behind which every upstream node is a relay."""
    upstream = ",".join(f"127.0.0.1:{relay.port}" for relay in relays.values())
    with GatewayProcess(tmp_path, upstream, *FAST) as running:
        yield running
        for relay in relays.values():
            relay.go_on()


def topic_for(cluster: KafkaCluster, name: str, partitions: int = PARTITIONS) -> str:
    topic = f"{name}-{time.monotonic_ns()}"
    create(Target(cluster.bootstrap()), topic, partitions)
    cluster.wait_in_sync(topic)
    return topic


def on_node(cluster: KafkaCluster, topic: str, node_id: int) -> int:
    """A partition of the topic that this node leads."""
    return next(each for each in range(PARTITIONS) if cluster.leader_of(topic, each).node_id == node_id)


# Nothing acknowledged is lost


@pytest.fixture
def direct_gateway(cluster: KafkaCluster, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway without relays behind it, which soon notices when a node is gone."""
    with GatewayProcess(tmp_path, cluster.bootstrap(), *FAST) as running:
        yield running


LONGER_S: Final = 1.0
"""So much longer than on Kafka itself may a client wait for a broker that restarts."""


@pytest.mark.parametrize("fault", ["rolling restart", "kill -9"])
def test_brokers_that_restart_lose_nothing_and_delay_no_client(
    cluster: KafkaCluster, direct_gateway: GatewayProcess, fault: str
) -> None:
    """The same load directly and through the gateway, at the same time."""
    topics = [topic_for(cluster, each) for each in ("straight", "through")]
    addresses = (cluster.bootstrap(), direct_gateway.bootstrap)
    with ExitStack() as stack:
        straight, through = (
            stack.enter_context(AcknowledgedLoad(*each)) for each in zip(addresses, topics, strict=True)
        )
        for load in (straight, through):
            load.wait_for_more()
        if fault == "rolling restart":
            cluster.roll(*topics)
        else:
            leader = cluster.leader_of(topics[1])
            leader.kill()
            through.wait_for_more(2_000)
            leader.start()
            cluster.wait()
        for load in (straight, through):
            load.wait_for_more()
    for load in (straight, through):
        load.check(cluster.bootstrap())
    cluster.wait_in_sync(*topics)
    print(f"{fault}: {straight.longest_gap_s:.2f} s on Kafka, {through.longest_gap_s:.2f} s at the gateway")
    assert through.longest_gap_s < straight.longest_gap_s + LONGER_S


def test_a_killed_gateway_loses_nothing(cluster: KafkaCluster, gateway: GatewayProcess) -> None:
    topic = topic_for(cluster, "gateway")
    with AcknowledgedLoad(gateway.bootstrap, topic) as load:
        load.wait_for_more()
        for _ in range(3):
            gateway.kill()
            gateway.start()
            load.wait_for_more()
    load.check(cluster.bootstrap())


def test_a_stopped_gateway_answers_what_it_forwarded(cluster: KafkaCluster, gateway: GatewayProcess) -> None:
    topic = topic_for(cluster, "stopped")
    with AcknowledgedLoad(gateway.bootstrap, topic) as load:
        load.wait_for_more()
        assert gateway.stop() == 0
        gateway.start()
        load.wait_for_more()
    load.check(cluster.bootstrap())


def test_a_gateway_and_a_leader_that_are_killed_together_lose_nothing(
    cluster: KafkaCluster, gateway: GatewayProcess
) -> None:
    topic = topic_for(cluster, "both")
    with AcknowledgedLoad(gateway.bootstrap, topic) as load:
        load.wait_for_more()
        leader = cluster.leader_of(topic)
        leader.kill()
        gateway.kill()
        gateway.start(wait=False)
        load.wait_for_more(2_000)
        leader.start()
        cluster.wait()
        load.wait_for_more()
    load.check(cluster.bootstrap())
    cluster.wait_in_sync(topic)


@pytest.mark.parametrize("direction", ["requests", "responses"])
def test_frames_that_are_cut_lose_nothing(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess, direction: str
) -> None:
    """Small frames: inside the size, the header, the body, and between two."""
    topic = topic_for(cluster, "cut")
    with AcknowledgedLoad(gateway.bootstrap, topic) as load:
        load.wait_for_more()
        for after in (0, 1, 2, 3, 4, 5, 9, 40, 333, 1_000):
            for relay in relays.values():
                relay.cut(direction, after)
            within(30, lambda: all(relay.is_cut for relay in relays.values()), f"a cut after {after}")
            load.wait_for_more(200)
    load.check(cluster.bootstrap())


@pytest.mark.parametrize("after", [3, 1_000, 65_536, 500_000, 1_500_000])
def test_large_frames_that_are_cut_come_again_whole(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess, after: int
) -> None:
    """Of two megabytes each, so that they are spliced; cut on their way up and on their way down."""
    topic = topic_for(cluster, "large")
    partition = on_node(cluster, topic, 2)
    values = [bytes([number]) * 2_000_000 for number in range(6)]
    target = Target(gateway.bootstrap)
    relays[2].cut("requests", after)
    written = CONFLUENT.produce(target, topic, values, idempotent=True, partition=partition)
    assert written == list(range(6))
    assert relays[2].is_cut
    relays[2].cut("responses", after)
    read = CONFLUENT.read(target, topic, 6, partitions=PARTITIONS)
    assert read == values
    assert relays[2].is_cut


# Clients of other nodes do not notice


class NotAcknowledgedError(Exception):
    """The producer gave up."""


def produce_one(bootstrap: str, topic: str, partition: int, **settings: Any) -> float:
    """The seconds until the record was acknowledged. Raises NotAcknowledgedError."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, **settings})
    producer.list_topics(topic, timeout=10)
    errors: list[str] = []
    began = time.monotonic()
    producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(str(error)))
    producer.flush(30)
    took = time.monotonic() - began
    if errors != ["None"]:
        raise NotAcknowledgedError(", ".join(errors))
    return took


def test_a_broker_that_never_answers_holds_up_its_own_clients_only(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess
) -> None:
    topic = topic_for(cluster, "stalled")
    silent, other = (on_node(cluster, topic, node_id) for node_id in (2, 3))
    healthy = AdminClient({"bootstrap.servers": gateway.addresses[3], "log_level": 0})
    assert len(healthy.list_topics(timeout=10).brokers) == 3
    producer = Producer(
        {
            "bootstrap.servers": gateway.addresses[3],
            "log_level": 0,
            "linger.ms": 0,
            "message.timeout.ms": 6_000,
            "socket.timeout.ms": 4_000,
            "request.timeout.ms": 3_000,
        }
    )
    acknowledged: dict[int, list[tuple[float, Any]]] = {silent: [], other: []}

    def send(partition: int) -> None:
        producer.produce(
            topic,
            b"x",
            partition=partition,
            on_delivery=lambda error, _: acknowledged[partition].append((time.monotonic(), error)),
        )

    for partition in (silent, other):
        send(partition)
    assert producer.flush(20) == 0
    relays[2].stall()
    began = time.monotonic()
    send(silent)
    for _ in range(20):
        send(other)
        producer.poll(0.05)
    within(5, lambda: producer.poll(0.05) >= 0 and len(acknowledged[other]) == 21, "the other node answers")
    assert {error for _, error in acknowledged[other]} == {None}
    assert len(acknowledged[silent]) == 1
    # As long as on Kafka itself: the client's own message.timeout.ms, and a second.
    within(10, lambda: producer.poll(0.05) >= 0 and len(acknowledged[silent]) == 2, "the client gives up")
    at, error = acknowledged[silent][1]
    assert error is not None
    assert at - began < 6 + 1
    relays[2].go_on()
    assert produce_one(gateway.bootstrap, topic, silent) < 20


def test_connections_that_are_never_answered_do_not_hold_up_the_gateway(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess
) -> None:
    """All nodes accept and never answer: the console does, and clients are served when the nodes are."""
    topic = topic_for(cluster, "silent")
    for relay in relays.values():
        relay.stall()
    waiting = [
        AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 0, "socket.timeout.ms": 1_000})
        for _ in range(20)
    ]
    for admin in waiting[:3]:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
    began = time.monotonic()
    gateway.ask("GET", "/api/v1/throttled-channels")["items"]
    assert time.monotonic() - began < 2
    for relay in relays.values():
        relay.go_on()
    assert produce_one(gateway.bootstrap, topic, 0) < 20


def test_a_node_that_refuses_is_reached_again_when_it_is_back(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess
) -> None:
    topic = topic_for(cluster, "refused")
    partition, other = (on_node(cluster, topic, node_id) for node_id in (2, 3))
    assert produce_one(gateway.bootstrap, topic, partition) < 10
    relays[2].refuse()
    try:
        assert produce_one(gateway.addresses[3], topic, other) < 10
        with pytest.raises(NotAcknowledgedError):
            produce_one(gateway.addresses[3], topic, partition, **{"message.timeout.ms": 2_000})
    finally:
        relays[2].listen()
    assert produce_one(gateway.bootstrap, topic, partition) < 10


def test_a_gateway_that_starts_before_its_cluster_serves_when_the_cluster_does(
    cluster: KafkaCluster, relays: dict[int, Relay], tmp_path: Path
) -> None:
    topic = topic_for(cluster, "late")
    for relay in relays.values():
        relay.refuse()
    upstream = ",".join(f"127.0.0.1:{relay.port}" for relay in relays.values())
    gateway = GatewayProcess(tmp_path, upstream, *FAST)
    try:
        gateway.start(wait=False)
        gateway.wait_for(gateway.console)
    finally:
        for relay in relays.values():
            relay.listen()
    with gateway.already_started():
        assert produce_one(gateway.bootstrap, topic, 0) < 20


FROZEN_S: Final = 40.0
GONE: Final = "cannot reach an upstream node"
BACK: Final = ("an upstream node is back", "an upstream node joined")
"""Joined, if the others no longer named it."""


@pytest.mark.timed
@pytest.mark.parametrize("fault", ["kill -9", "frozen"])
def test_a_node_that_fails_loses_nothing_and_keeps_clients_of_others_not_waiting(
    cluster: KafkaCluster, direct_gateway: GatewayProcess, fault: str
) -> None:
    """Small requests to another node, through the gateway and directly at the same time, while a producer
    writes to all of them.
    """
    gateway = direct_gateway
    topic, quiet = topic_for(cluster, "failing"), topic_for(cluster, "others")
    partition = on_node(cluster, quiet, 3)
    direct = cluster.nodes[3].address("PLAINTEXT")
    victim = cluster.nodes[2]
    before = len(gateway.log_lines)

    def has_line(*words: str) -> bool:
        return any(each in line for line in gateway.log_lines[before:] for each in words)

    with (
        AcknowledgedLoad(gateway.bootstrap, topic) as load,
        SmallRequests(gateway.addresses[3], quiet, partition) as others,
        SmallRequests(direct, quiet, partition) as on_kafka,
    ):
        load.wait_for_more()
        if fault == "kill -9":
            victim.kill()
            within(30, lambda: has_line(GONE), "a line says that the node is gone")
            load.wait_for_more(2_000)
            victim.start()
        else:
            began = time.monotonic()
            with victim.frozen():
                within(30, lambda: has_line(GONE), "a line says that the node is gone")
                load.wait_for_more(2_000)
                time.sleep(max(0.0, began + FROZEN_S - time.monotonic()))
        cluster.wait()
        within(30, lambda: has_line(*BACK), "a line says that the node is back")
        load.wait_for_more()
    load.check(cluster.bootstrap())
    cluster.wait_in_sync(topic, quiet)
    stored = read_all(cluster.bootstrap(), quiet)
    for each in (others, on_kafka):
        each.check(stored)
    print(f"{fault}: p99 {others.p99_ms:.1f} ms of {len(others.waits_ms)}, on Kafka {on_kafka.p99_ms:.1f} ms")
    assert others.p99_ms < P99_MS * crowding()


# The wrong cluster


def test_another_cluster_than_the_expected_one_gets_nothing(cluster: KafkaCluster, tmp_path: Path) -> None:
    gateway = GatewayProcess(
        tmp_path, cluster.bootstrap(), "upstream.cluster.id=AAAAAAAAAAAAAAAAAAAAAA", *FAST
    )
    gateway.start(wait=False)
    with gateway.already_started():
        gateway.wait_for(gateway.bootstrap)
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=3)
        time.sleep(2.5)
        log = [line for line in gateway.log_lines if "is another one" in line]
        assert len(log) == 1, log


def test_every_condition_has_one_line_in_the_log(
    cluster: KafkaCluster, relays: dict[int, Relay], gateway: GatewayProcess
) -> None:
    """A node that is gone for several rounds of the watcher, and comes back."""
    before = len(gateway.log_lines)
    relays[2].refuse()
    try:
        time.sleep(4)
        gone = [
            line
            for line in gateway.log_lines[before:]
            # That events wait for the leader of their topic is another condition.
            if (str(relays[2].port) in line or "node=2" in line) and "cannot write events" not in line
        ]
    finally:
        relays[2].listen()
    assert len(gone) == 1, gone
    middle = len(gateway.log_lines)
    within(10, lambda: len(gateway.log_lines) > middle, "a line says that it is back")
    time.sleep(3)
    back = [line for line in gateway.log_lines[middle:] if str(relays[2].port) in line or "node=2" in line]
    assert len(back) == 1, back
