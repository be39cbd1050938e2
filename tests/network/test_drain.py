"""Shutdown: requests in flight are answered, delayed requests are completed, and no client delays it for
long.
"""

import logging
import random
import socket
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.outcome import Outcome, Response
from broker.config.load import load
from broker.network.processor import Accepted
from broker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.quotas.entity import Entity
from broker.server.app import Started, run_broker
from broker.server.broker import BrokerServer
from tests.support.hostile import until
from tests.support.kafka_tools import free_port
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient, connect


def fetch(max_wait_ms: int, most: int = 1_000) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=most)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=most,
        topics=[FetchTopic("events", partitions=[partition])],
    )


async def connected(broker: RunningBroker, client_id: str = "tester") -> WireClient:
    """Return a client of a broker that has the topic."""
    client = await broker.connect(client_id)
    assert (await client.ask(create_topic(), 5)).topics[0].error_code in (0, 36)
    return client


async def stops(broker: RunningBroker) -> None:
    """The broker stops, and not because the drain timed out."""
    broker.stop.set()
    with trio.fail_after(WITHIN_S):
        await broker.started.stopped.wait()


async def test_a_fetch_that_waits_is_answered_empty_and_then_the_connection_ends(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.send(fetch(60_000), 11)
        await until(lambda: broker.server.fetches.delayed == 1)
        await stops(broker)
        _, answer = await client.receive(1, 11)
        assert answer.error_code == 0
        assert await client.is_closed()


async def test_requests_behind_one_in_hand_do_not_reset_the_connection(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.send(fetch(60_000), 11)
        await until(lambda: broker.server.fetches.delayed == 1)
        await client.send(produce_request(batch_of(b"x")), PRODUCE_VERSION)
        await wait_all_tasks_blocked(0.02)
        await stops(broker)
        await client.receive(1, 11)
        assert await client.stream.receive_some(1) == b""


async def test_a_client_that_sends_more_after_the_end_reads_its_answer(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """The kernel would reset the connection, and drop what of the answer it has not sent."""
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        await client.ask(produce_request(batch_of(bytes(100_000))), PRODUCE_VERSION)
        await client.send(fetch(0, most=150_000), 11)
        (channel,) = broker.server.socket_server.channels()
        await until(lambda: channel.bytes_out > 100_000)
        broker.stop.set()
        await until(lambda: channel.closed)
        await client.stream.send_all(b"more")
        await wait_all_tasks_blocked(0.02)
        _, answer = await client.receive(1, 11)
        assert len(answer.responses[0].partitions[0].records) > 100_000
        assert await client.stream.receive_some(1) == b""
        assert not broker.started.stopped.is_set()
        await client.stream.aclose()
        await broker.started.stopped.wait()
        assert trio.current_time() == 0


async def test_a_client_that_does_not_close_holds_up_the_stop_for_half_a_second(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        broker.stop.set()
        assert await client.stream.receive_some(1) == b""
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(0.499)
        await wait_all_tasks_blocked(0.02)
        assert not broker.started.stopped.is_set()
        mock_clock.jump(0.001)
        await broker.started.stopped.wait()


async def test_a_connection_without_requests_ends_before_those_that_wait(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "shutdown.drain.timeout.ms=3000") as broker:
        idle, slow = await connected(broker), await connected(broker)
        for _ in range(16):
            await slow.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
        await slow.send(fetch(0, most=16_000_000), 11)
        await wait_all_tasks_blocked(0.1)
        broker.stop.set()
        assert await idle.stream.receive_some(1) == b""
        assert not broker.started.stopped.is_set()
        mock_clock.jump(3)
        await broker.started.stopped.wait()


async def test_a_connection_that_is_accepted_during_a_drain_ends(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        slow = await connected(broker)
        for _ in range(16):
            await slow.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
        await slow.send(fetch(0, most=16_000_000), 11)
        await wait_all_tasks_blocked(0.1)
        (listener,) = broker.server.socket_server.listeners
        (processor, *_) = [each for each in listener.processors if list(each.selector)]
        ours, theirs = socket.socketpair()
        with ours, theirs:
            broker.stop.set()
            await wait_all_tasks_blocked(0.02)
            gate = listener.acceptor.gate
            broker.server.socket_server.gate.quotas.enter(gate.quota, "127.0.0.1", 0)
            processor.new_connections.send_nowait(Accepted(theirs, ("127.0.0.1", 1)))
            processor.selector.wakeup()
            await until(lambda: theirs.fileno() < 0)
        await slow.receive(1, 11)
        await broker.started.stopped.wait()


async def test_a_member_that_waits_is_sent_to_look_for_its_coordinator(tmp_path: Path) -> None:
    async with running_broker(tmp_path, "group.initial.rebalance.delay.ms=60000") as broker:
        client = await connected(broker)
        await client.ask(create_topic("__consumer_offsets"), 5)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        await client.send(JoinGroupRequest("group", 10_000, 60_000, "", None, "consumer", protocols), 3)
        await wait_all_tasks_blocked(0.05)
        await stops(broker)
        _, answer = await client.receive(11, 3)
        assert answer.error_code in (15, 16)
        assert await client.is_closed()


async def test_requests_in_hand_are_answered_and_their_records_found_again(tmp_path: Path) -> None:
    """A hundred clients whose requests have been sent at the moment of the stop: an answer is a promise."""
    async with running_broker(tmp_path) as broker:
        await connected(broker)
        clients = [await broker.connect() for _ in range(100)]
        await until(lambda: len(list(broker.server.socket_server.channels())) == 101)
        for number, client in enumerate(clients):
            await client.send(produce_request(batch_of(b"%d" % number)), PRODUCE_VERSION)
            if number == 60:
                broker.stop.set()
        await stops(broker)
        promised = 0
        for client in clients:
            try:
                _, answer = await client.receive(0, PRODUCE_VERSION)
            except (EOFError, trio.BrokenResourceError):
                continue
            assert answer.responses[0].partition_responses[0].error_code == 0
            promised += 1
    async with running_broker(tmp_path) as broker:
        log = broker.server.partitions.log("events", 0)
        assert log is not None and log.high_watermark >= promised


async def test_no_connection_is_accepted_any_more(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        port = broker.port
        await connected(broker)
        await stops(broker)
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await trio.open_tcp_stream("127.0.0.1", port)


async def test_channels_that_are_held_for_a_quota_do_not_hold_up_the_stop(tmp_path: Path) -> None:
    """They have their answers; what they send next is not in hand."""
    async with running_broker(tmp_path) as broker:
        await connected(broker)
        broker.server.quotas.apply(Entity(client_id="greedy"), "producer_byte_rate", 1_000)
        for acks in (0, 1) * 25:
            greedy = await broker.connect("greedy")
            await greedy.send(produce_request_of(40_000, "greedy", acks=acks), PRODUCE_VERSION)
        await until(lambda: len(broker.server.views.quotas.throttled()) == 50)
        await stops(broker)


async def test_a_client_that_does_not_read_holds_up_the_stop_until_the_deadline(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, "shutdown.drain.timeout.ms=3000") as broker:
        client = await connected(broker)
        for _ in range(16):
            await client.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
        await client.send(fetch(0, most=16_000_000), 11)
        await wait_all_tasks_blocked(0.1)
        caplog.clear()
        caplog.set_level(logging.WARNING)
        broker.stop.set()
        await wait_all_tasks_blocked(0.02)
        mock_clock.jump(2.999)
        await wait_all_tasks_blocked(0.02)
        assert not broker.started.stopped.is_set()
        mock_clock.jump(0.001)
        await broker.started.stopped.wait()
    assert [record.getMessage() for record in caplog.records] == [
        "the drain timed out with requests in progress"
    ]


async def test_a_client_that_reads_again_gets_all_of_its_answer(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await connected(broker)
        for _ in range(16):
            await client.ask(produce_request(batch_of(bytes(1_000_000))), PRODUCE_VERSION)
        await client.send(fetch(0, most=16_000_000), 11)
        await wait_all_tasks_blocked(0.1)
        broker.stop.set()
        await wait_all_tasks_blocked(0.02)
        _, answer = await client.receive(1, 11)
        assert len(answer.responses[0].partitions[0].records) == 16_000_000
        with trio.fail_after(WITHIN_S):
            await broker.started.stopped.wait()


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(5))
async def test_a_broker_that_is_cancelled_at_any_moment_has_kept_its_promises(
    tmp_path: Path, seed: int
) -> None:
    """Without a drain: nothing hangs, nothing is left open, and what was acknowledged is found again."""
    rng = random.Random(seed)
    promised = 0

    async def produce(port: int, number: int) -> None:
        nonlocal promised
        client = await connect(port, f"client-{number}")
        try:
            while True:
                answer = await client.ask(produce_request(batch_of(b"%d" % number)), PRODUCE_VERSION)
                assert answer.responses[0].partition_responses[0].error_code == 0
                promised += 1
        finally:
            await trio.aclose_forcefully(client.stream)

    settings = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path}", "console.listener="]
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            started: Started = await nursery.start(run_broker, load(None, settings, {}), trio.Event())
            port = int(started.bootstrap[0].rpartition(":")[2])
            maker = await connect(port)
            await maker.ask(create_topic(), 5)
            await maker.stream.aclose()
            for number in range(10):
                nursery.start_soon(produce, port, number)
            for _ in range(rng.randrange(20, 300)):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    async with running_broker(tmp_path) as broker:
        log = broker.server.partitions.log("events", 0)
        assert log is not None and log.high_watermark >= promised


async def test_an_idle_broker_stops_at_once_with_many_connections(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(200):
            await broker.connect()
        await wait_all_tasks_blocked(0.02)
        broker.stop.set()
        await broker.started.stopped.wait()
        assert trio.current_time() == 0


async def status_of(port: int, path: str) -> int:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        return int((await stream.receive_some(12)).split()[1])


async def test_a_broker_that_drains_is_alive_and_not_ready(tmp_path: Path) -> None:
    going_on = trio.Event()

    async def slow(_message: object, _context: object, _broker: object) -> Outcome:
        await going_on.wait()
        return Response(DescribeClusterResponse(cluster_id="late"))

    async with running_broker(tmp_path, "console.listener=127.0.0.1:0") as broker:
        assert broker.started.console is not None
        port = int(broker.started.console.address.rstrip("/").rpartition(":")[2])
        client = await broker.connect()
        await client.ask(DescribeClusterRequest(), 0)
        server = broker.server.socket_server
        server.clear_caches()
        (route,) = [
            each for each in server.listeners[0].routes.all() if each.metrics.name == "DescribeCluster"
        ]
        route.handle = slow
        await client.send(DescribeClusterRequest(), 0)
        assert await status_of(port, "/readyz") == 200
        broker.stop.set()
        await wait_all_tasks_blocked(0.01)
        assert (await status_of(port, "/readyz"), await status_of(port, "/healthz")) == (503, 200)
        going_on.set()
        _, answer = await client.receive(60, 0)
        assert answer.cluster_id == "late"
        await broker.started.stopped.wait()
        with pytest.raises(OSError):
            await trio.open_tcp_stream("127.0.0.1", port)


async def test_a_broker_is_ready_once_it_knows_all_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway with quota.scope=cluster reads them from the log of all gateways."""
    reads, has_read = trio.Event(), trio.Event()

    async def metadata_ready(_server: BrokerServer) -> None:
        reads.set()
        await has_read.wait()

    monkeypatch.setattr(BrokerServer, "metadata_ready", metadata_ready)
    port = free_port()

    async def look() -> None:
        await reads.wait()
        assert (await status_of(port, "/readyz"), await status_of(port, "/healthz")) == (503, 200)
        has_read.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        async with running_broker(tmp_path, f"console.listener=127.0.0.1:{port}"):
            assert await status_of(port, "/readyz") == 200
