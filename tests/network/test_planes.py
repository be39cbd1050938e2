"""Listeners with their own queue and handlers: the APIs of a controller, and its isolation."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.config.listeners import Plane
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest
from tests.support.hostile import is_closed_soon, request, until
from tests.support.live import alter, alter_through, task_names
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect

SETTINGS = (
    "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,PLANE://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PLANE:PLAINTEXT",
    "process.roles=broker,controller",
    "controller.listener.names=CONTROLLER",
    "control.plane.listener.name=PLANE",
    "num.io.threads=2",
    "num.network.threads=2",
)
BROKERS, CONTROLLERS = 1, 2
ENVELOPE = 58


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, *SETTINGS) as running:
        yield running


async def connect_to(broker: RunningBroker, listener: str) -> WireClient:
    return await connect(port_of(broker, listener))


def port_of(broker: RunningBroker, listener: str) -> int:
    (found,) = [each for each in broker.server.socket_server.listeners if each.name == listener]
    return found.acceptor.address[1]


def names(plane: str) -> list[str]:
    return [name for name in task_names(f"{plane}-kafka-") if name[-1].isdigit()]


async def test_a_controller_listener_announces_what_administrators_need(broker: RunningBroker) -> None:
    """KIP-291."""
    controller = await connect_to(broker, "CONTROLLER")
    answer = await controller.ask(ApiVersionsRequest(), 0)
    assert [each.api_key for each in answer.api_keys] == [
        *range(17, 21),
        *range(29, 34),
        *range(36, 42),
        *range(43, 47),
        *range(49, 52),
        *(55, 57, 60, 64, 80, 81, 94),
    ]
    own = await controller.send(ApiVersionsRequest(), 0)
    assert (await controller.receive(ApiKey.API_VERSIONS, 0))[0] == own
    everything = await (await connect_to(broker, "PLAINTEXT")).ask(ApiVersionsRequest(), 0)
    assert len(everything.api_keys) > len(answer.api_keys)


@pytest.mark.parametrize(
    ("request_", "version"), [(MetadataRequest(), 9), (produce_request(batch_of(b"x")), PRODUCE_VERSION)]
)
async def test_a_controller_listener_serves_no_clients(
    broker: RunningBroker, request_: object, version: int
) -> None:
    controller = await connect_to(broker, "CONTROLLER")
    await controller.send(request_, version)
    assert await controller.is_closed()


async def test_topics_and_settings_are_changed_through_a_controller_listener(broker: RunningBroker) -> None:
    controller = await connect_to(broker, "CONTROLLER")
    assert (await controller.ask(create_topic(), 5)).topics[0].error_code == 0
    assert "events" in broker.server.control.image.topics
    assert await alter_through(controller, {"num.io.threads": "3"}) == (0, None)


@pytest.mark.parametrize(
    ("listener", "endpoint_type", "error"),
    [
        ("PLAINTEXT", BROKERS, 0),
        ("PLAINTEXT", CONTROLLERS, 114),
        ("CONTROLLER", BROKERS, 114),
        ("CONTROLLER", CONTROLLERS, 0),
    ],
)
async def test_each_kind_of_listener_describes_its_own_kind(
    broker: RunningBroker, listener: str, endpoint_type: int, error: int
) -> None:
    """KIP-919."""
    client = await connect_to(broker, listener)
    answer = await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert answer.error_code == error
    if not error:
        assert answer.endpoint_type == endpoint_type
        assert [each.port for each in answer.brokers] == [port_of(broker, listener)]


async def test_clients_are_told_of_the_data_plane_only(broker: RunningBroker) -> None:
    assert broker.started.bootstrap == (f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}",)


@pytest.mark.parametrize(("role", "creates"), [("viewer", False), ("editor", True), ("admin", True)])
async def test_the_start_knows_whether_clients_create_the_topic_of_their_first_record(
    tmp_path: Path, role: str, creates: bool
) -> None:
    async with running_broker(tmp_path, f"wire.role={role}") as broker:
        assert broker.started.server.endpoint.creates_topics is creates


async def test_each_plane_has_tasks_of_its_own(broker: RunningBroker) -> None:
    """The control plane (KIP-291) has one processor, one handler and a queue of 20."""
    assert names("data-plane") == [
        "data-plane-kafka-network-thread-1-PLAINTEXT-PLAINTEXT-0",
        "data-plane-kafka-network-thread-1-PLAINTEXT-PLAINTEXT-1",
        "data-plane-kafka-request-handler-0",
        "data-plane-kafka-request-handler-1",
        f"data-plane-kafka-socket-acceptor-PLAINTEXT-PLAINTEXT-{port_of(broker, 'PLAINTEXT')}",
    ]
    assert names("controller") == [
        "controller-kafka-network-thread-1-CONTROLLER-PLAINTEXT-2",
        "controller-kafka-network-thread-1-CONTROLLER-PLAINTEXT-3",
        "controller-kafka-request-handler-0",
        "controller-kafka-request-handler-1",
        f"controller-kafka-socket-acceptor-CONTROLLER-PLAINTEXT-{port_of(broker, 'CONTROLLER')}",
    ]
    assert names("control-plane") == [
        "control-plane-kafka-network-thread-1-PLANE-PLAINTEXT-4",
        "control-plane-kafka-request-handler-0",
        f"control-plane-kafka-socket-acceptor-PLANE-PLAINTEXT-{port_of(broker, 'PLANE')}",
    ]
    capacities = {name: plane.requests.capacity for name, plane in broker.server.socket_server.planes.items()}
    assert capacities == {Plane.DATA: 500, Plane.CONTROLLER: 500, Plane.CONTROL: 20}


async def test_threads_follow_their_keys_except_those_of_the_control_plane(broker: RunningBroker) -> None:
    await alter(broker, num_io_threads="4", num_network_threads="1")
    await wait_all_tasks_blocked()
    counts = {each.value: len(names(each.value)) for each in Plane}
    assert counts == {"data-plane": 1 + 4 + 1, "controller": 1 + 4 + 1, "control-plane": 1 + 1 + 1}


async def test_handlers_that_are_all_busy_hold_up_no_other_plane(broker: RunningBroker) -> None:
    busy = 0
    going_on = trio.Event()

    async def slow(_message: object, _context: object, _broker: object) -> Outcome:
        nonlocal busy
        busy += 1
        await going_on.wait()
        return Response(DescribeClusterResponse())

    clients = [await connect_to(broker, "PLAINTEXT") for _ in range(3)]
    await clients[0].ask(DescribeClusterRequest(), 0)
    server = broker.server.socket_server
    for route in server.listeners[0].routes.all():
        route.handle = slow
    server.clear_caches()
    for client in clients:
        await client.send(DescribeClusterRequest(), 0)
    try:
        await until(lambda: busy == 2 and server.requests.depth() == 1)
        for listener in ("CONTROLLER", "PLANE"):
            other = await connect_to(broker, listener)
            with trio.fail_after(WITHIN_S):
                assert (await other.ask(create_topic(listener), 5)).topics[0].error_code == 0
    finally:
        going_on.set()
    for client in clients:
        await client.receive(ApiKey.DESCRIBE_CLUSTER, 0)


async def test_a_fetch_that_waits_on_one_plane_is_woken_from_another(broker: RunningBroker) -> None:
    reader = await connect_to(broker, "PLANE")
    assert (await reader.ask(create_topic(), 5)).topics[0].error_code == 0
    topic = FetchTopic("events", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)])
    await reader.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[topic]), 11)
    await until(lambda: broker.server.fetches.delayed == 1)
    writer = await connect_to(broker, "PLAINTEXT")
    await writer.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
    with trio.fail_after(WITHIN_S):
        _, answer = await reader.receive(ApiKey.FETCH, 11)
    assert bytes(answer.responses[0].partitions[0].records)


async def test_an_answer_of_any_plane_can_wait_for_the_disk(broker: RunningBroker) -> None:
    writer = await connect_to(broker, "PLANE")
    assert (await writer.ask(create_topic(), 5)).topics[0].error_code == 0
    await alter(broker, log_flush_interval_messages="1")
    with trio.fail_after(WITHIN_S):
        answer = await writer.ask(produce_request(batch_of(b"x")), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    log = broker.server.partitions.by_name["events"].log(0)
    assert log is not None and log.recovery_point == 1


async def test_all_planes_drain(broker: RunningBroker) -> None:
    for listener in ("PLAINTEXT", "CONTROLLER", "PLANE"):
        client = await connect_to(broker, listener)
        assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0
    broker.stop.set()
    with trio.fail_after(WITHIN_S):
        await broker.started.stopped.wait()
    assert names("controller") == names("control-plane") == names("data-plane") == []


@pytest.mark.parametrize("listener", ["PLAINTEXT", "PLANE", "CONTROLLER"])
async def test_no_listener_takes_an_envelope(broker: RunningBroker, listener: str) -> None:
    """The purpose of a privileged listener. Nothing is forwarded to a broker that is alone, and
    where forwarding is not enabled Kafka closes the connection too.
    """
    client = await connect_to(broker, listener)
    await client.stream.send_all(request(ENVELOPE, 0))
    assert await is_closed_soon(client)
