"""num.network.threads and num.io.threads at run time: by half to double at a time, without losing requests in
flight.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.support.hostile import until
from tests.support.live import alter, alter_through, takes_effect, task_names
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

HANDLER = "data-plane-kafka-request-handler-"
NETWORK = "data-plane-kafka-network-thread-1-PLAINTEXT-PLAINTEXT-"
EXPIRY = "-idle-expiry"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "num.io.threads=5", "num.network.threads=3") as running:
        yield running


def handlers() -> list[int]:
    return sorted(int(name.removeprefix(HANDLER)) for name in task_names(HANDLER) if name[-1].isdigit())


def processors() -> list[str]:
    return [name.removeprefix(NETWORK) for name in task_names(NETWORK) if name[-1].isdigit()]


async def is_served(client: WireClient) -> bool:
    return bool((await client.ask(ApiVersionsRequest(), 0)).api_keys)


@pytest.mark.parametrize("key", ["num.io.threads", "num.network.threads"])
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (5, 1, "be at least half the current value 5"),
        (5, 2, None),
        (5, 10, None),
        (5, 11, "not be greater than double the current value 5"),
        (1, 1, None),
        (1, 2, None),
        (1, 3, "not be greater than double the current value 1"),
    ],
)
async def test_from_half_rounded_down_to_double(
    tmp_path: Path, key: str, old: int, new: int, words: str | None
) -> None:
    """The value is refused, not clamped, with Kafka's message."""
    async with running_broker(tmp_path, f"{key}={old}") as broker:
        client = await broker.connect()
        error = await alter_through(client, {key: str(new)})
        if words is None:
            assert error == (0, None)
            config = broker.server.control.config.network
        else:
            assert error == (
                42,
                f"Dynamic thread count update validation failed for {key}={new}, value should {words}",
            )
            config = broker.server.config.network
        sizes = {"num.io.threads": config.num_io_threads, "num.network.threads": config.num_network_threads}
        assert sizes[key] == (new if words is None else old)


@pytest.mark.parametrize("count", ["0", "-1", "none"])
async def test_no_threads_at_all_are_refused(broker: RunningBroker, count: str) -> None:
    client = await broker.connect()
    code, words = await alter_through(client, {"num.io.threads": count})
    assert (code, words) == (
        42,
        f"Invalid value {count} for configuration num.io.threads: must be a whole number from 1 to 256",
    )


@takes_effect("num.io.threads")
async def test_handlers_become_more_and_fewer_and_requests_are_served_all_along(
    broker: RunningBroker,
) -> None:
    client = await broker.connect()
    assert handlers() == [0, 1, 2, 3, 4]
    for count in (10, 5, 2, 1, 2):
        await alter(broker, num_io_threads=str(count))
        assert await is_served(client)
        await wait_all_tasks_blocked()
        assert len(handlers()) == count


async def test_a_handler_that_is_no_longer_wanted_finishes_what_it_has_in_hand(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = trio.Event()
    begun = 0

    async def slow(_message: object, _context: object, _broker: object) -> Outcome:
        nonlocal begun
        begun += 1
        await going_on.wait()
        return Response(DescribeClusterResponse(cluster_id="late"))

    first = await broker.connect()
    await first.ask(DescribeClusterRequest(), 0)
    route = next(
        r
        for r in broker.server.socket_server.listeners[0].routes.all()
        if r.metrics.name == "DescribeCluster"
    )
    route.handle = slow
    broker.server.socket_server.clear_caches()
    clients = [await broker.connect() for _ in range(4)]
    for client in clients:
        await client.send(DescribeClusterRequest(), 0)
    await until(lambda: begun == 4)

    broker.server.socket_server.handlers.resize(2)
    await wait_all_tasks_blocked()
    running = handlers()
    served = await is_served(first)
    going_on.set()
    # Four were busy, and the fifth leads.
    assert (len(running), served) == (5, True)
    for client in clients:
        _, answer = await client.receive(60, 0)
        assert answer.cluster_id == "late"
    await wait_all_tasks_blocked()
    assert len(handlers()) == 2
    assert await is_served(first)


async def test_a_handler_that_was_to_go_and_is_wanted_again_stays(broker: RunningBroker) -> None:
    pool = broker.server.socket_server.handlers
    pool.resize(1)
    pool.resize(5)
    await wait_all_tasks_blocked()
    assert handlers() == [0, 1, 2, 3, 4]
    assert await is_served(await broker.connect())


@takes_effect("num.network.threads")
async def test_processors_become_more_and_new_connections_are_dealt_to_all(broker: RunningBroker) -> None:
    assert processors() == ["0", "1", "2"]
    await alter(broker, num_network_threads="5")
    await wait_all_tasks_blocked()
    assert processors() == ["0", "1", "2", "3", "4"]
    for client in [await broker.connect() for _ in range(10)]:
        assert await is_served(client)
    listener = broker.server.socket_server.listeners[0]
    assert [len(each.selector.channels) for each in listener.processors] == [2, 2, 2, 2, 2]


async def test_a_processor_that_goes_answers_what_it_has_and_closes_its_connections(
    broker: RunningBroker,
) -> None:
    clients = [await broker.connect() for _ in range(3)]
    for client in clients:
        assert await is_served(client)
    listener = broker.server.socket_server.listeners[0]
    (staying,) = listener.processors[0].selector.channels.values()
    stays = next(each for each in clients if each.stream.socket.getsockname()[1] == staying.port)
    assert await alter_through(clients[2], {"num.network.threads": "1"}) == (0, None)
    for client in clients:
        if client is not stays:
            assert await client.is_closed()
            await trio.aclose_forcefully(client.stream)  # the processor waits for it, for a moment
    assert await is_served(stays)
    await wait_all_tasks_blocked(0.02)
    assert processors() == ["0"] and len(task_names(NETWORK)) == 4
    assert len(broker.server.socket_server.responders) == 1
    for client in [await broker.connect() for _ in range(3)]:
        assert await is_served(client)


async def test_the_answer_of_a_processor_that_is_gone_is_dropped_silently(broker: RunningBroker) -> None:
    """DynamicBrokerReconfigurationTest.testThreadPoolResize."""
    begun, going_on = trio.Event(), trio.Event()

    async def slow(_message: object, _context: object, _broker: object) -> Outcome:
        begun.set()
        await going_on.wait()
        return Response(DescribeClusterResponse())

    clients = [await broker.connect() for _ in range(3)]
    for client in clients:
        await client.ask(DescribeClusterRequest(), 0)
    server = broker.server.socket_server
    listener = server.listeners[0]
    next(r for r in listener.routes.all() if r.metrics.name == "DescribeCluster").handle = slow
    server.clear_caches()
    (leaving,) = listener.processors[2].selector.channels.values()
    client = next(each for each in clients if each.stream.socket.getsockname()[1] == leaving.port)
    await client.send(DescribeClusterRequest(), 0)
    await begun.wait()
    listener.drain_seconds = 0.05
    await alter(broker, num_network_threads="2")
    assert await client.is_closed()
    going_on.set()
    await wait_all_tasks_blocked()
    assert server.handlers.size == 5 and leaving.closed
    (rest,) = [each for each in clients if each is not client][:1]
    assert await is_served(rest)


async def test_one_listener_can_have_another_number(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path,
        "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "num.network.threads=2",
        "listener.name.other.num.network.threads=3",
    ) as broker:
        counts = {each.name: len(each.processors) for each in broker.server.socket_server.listeners}
        assert counts == {"PLAINTEXT": 2, "OTHER": 3}
        client = await broker.connect()
        key = "listener.name.other.num.network.threads"
        assert await alter_through(client, {key: "6"}) == (0, None)
        code, words = await alter_through(client, {key: "13"})
        assert code == 42 and words is not None and "double the current value 6" in words
        assert await alter_through(client, {"num.network.threads": "4"}, "") == (0, None)
        counts = {each.name: len(each.processors) for each in broker.server.socket_server.listeners}
        assert counts == {"PLAINTEXT": 4, "OTHER": 6}
