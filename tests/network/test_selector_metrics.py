"""The totals of a processor equal the activity of its clients."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.network.server_metrics import MAX_CLIENTS, SelectorTotals, client_software, totals_of
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.produce import batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        yield running


def totals(broker: RunningBroker) -> SelectorTotals:
    (processor,) = broker.server.socket_server.processors()
    return totals_of(processor, broker.server.clock.ns())


async def test_requests_and_answers_are_counted_whole(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    for _ in range(3):
        await client.ask(ApiVersionsRequest("x", "1"), 3)  # two of them from the cache
    counted = totals(broker)
    assert (counted.opened, counted.closed, counted.received, counted.sent) == (1, 0, 3, 3)
    (channel,) = broker.server.socket_server.channels()
    assert (counted.bytes_in, counted.bytes_out) == (channel.bytes_in, channel.bytes_out)
    assert counted.bytes_in == 3 * (4 + 10 + len(client.client_id or "") + 1 + 2 + 2 + 1)


@pytest.mark.parametrize("mode", ["kafka", "automq"])
async def test_requests_that_came_together_are_all_received_and_sent(tmp_path: Path, mode: str) -> None:
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as broker:
        client = await broker.connect()
        await client.ask(create_topic(), 5)
        for acks in (1, 0, 1):
            await client.send(produce_request(batch_of(b"one"), acks=acks), 9)
        await client.send(ApiVersionsRequest("x", "1"), 3)
        for key, version in ((0, 9), (0, 9), (18, 3)):
            await client.receive(key, version)
        counted = totals(broker)
        assert (counted.received, counted.sent) == (5, 4)
        metrics = broker.server.socket_server.metrics.by_name
        assert (metrics["Produce"].requests, metrics["ApiVersions"].requests) == (3, 1)


async def test_totals_keep_the_bytes_of_closed_connections(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(2):
        client = await broker.connect()
        await client.ask(ApiVersionsRequest("x", "1"), 3)
        before = totals(broker)
        await trio.aclose_forcefully(client.stream)
        await wait_all_tasks_blocked(0.02)
    after = totals(broker)
    assert (after.opened, after.closed) == (2, 2)
    assert after[5:9] == before[5:9] and after.received == after.sent == 2


async def test_a_pending_response_is_not_sent_yet(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    await client.ask(create_topic(), 5)
    topics = [FetchTopic("events", partitions=[FetchPartition(0, partition_max_bytes=1_000)])]
    wait = FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1_000, session_epoch=-1, topics=topics
    )
    await client.send(wait, 11)
    await wait_all_tasks_blocked(0.02)
    assert (totals(broker).received, totals(broker).sent) == (2, 1)
    await trio.aclose_forcefully(client.stream)
    await wait_all_tasks_blocked(0.02)
    assert (totals(broker).received, totals(broker).sent) == (2, 1)


async def test_a_request_without_a_response_is_never_sent(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect()
    await client.ask(create_topic(), 5)
    await client.send(produce_request(batch_of(b"one"), acks=0), 9)
    await client.ask(ApiVersionsRequest("x", "1"), 3)
    assert (totals(broker).received, totals(broker).sent) == (3, 2)


async def test_waiting_and_being_busy_make_up_the_whole_time(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    first = totals(broker)
    mock_clock.jump(3)
    await wait_all_tasks_blocked(0.02)
    later = totals(broker)
    assert later.waiting_ns - first.waiting_ns == 3_000_000_000
    assert later.busy_ns == first.busy_ns
    await broker.connect()
    await wait_all_tasks_blocked(0.02)
    assert totals(broker).polls > later.polls


async def test_logins_are_counted_by_how_they_ended(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(
        tmp_path,
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
    ) as broker:
        for password, version in ((b"secret", 2), (b"secret", 0), (b"wrong", 2)):
            client = await broker.connect()
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            await client.ask(SaslAuthenticateRequest(b"\0alice\0" + password), version)
        mock_clock.jump(1)  # lets the failed one go
        await wait_all_tasks_blocked(0.02)
        counted = totals(broker)
        assert (counted.logins, counted.failed_logins, counted.logins_without_reauth) == (2, 1, 1)


async def test_connections_are_distinguished_by_their_software(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for name in ("java", "java", "franz"):
        client = await broker.connect()
        await client.ask(ApiVersionsRequest(name, "4.1"), 3)
    await broker.connect()
    await wait_all_tasks_blocked(0.02)
    (processor,) = broker.server.socket_server.processors()
    assert client_software(processor) == {
        ("java", "4.1"): 2,
        ("franz", "4.1"): 1,
        ("unknown", "unknown"): 1,
    }


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_no_more_than_a_hundred_kinds_of_software_are_distinguished(
    broker: RunningBroker, more: int, mock_clock: MockClock
) -> None:
    for number in range(MAX_CLIENTS + more):
        client = await broker.connect()
        await client.ask(ApiVersionsRequest(f"kind-{number}", "1"), 3)
    known = await broker.connect()
    await known.ask(ApiVersionsRequest("kind-0", "1"), 3)
    (processor,) = broker.server.socket_server.processors()
    found = client_software(processor)
    assert len(found) == min(MAX_CLIENTS + more, MAX_CLIENTS)
    assert found["kind-0", "1"] == 2
