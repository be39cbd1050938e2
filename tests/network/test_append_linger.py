"""The response to a heartbeat that changed its group waits, to the millisecond of the mock clock.

Only its own connection waits with it.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.produce import create_topic
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

HEARTBEAT = ConsumerGroupHeartbeatRequest.API_KEY
VERSION = 1
LINGER_MS = 5
"""The default of `group.coordinator.append.linger.ms`."""


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        found = await maker.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
        assert found.coordinators[0].error_code == 0
        yield running


def heartbeat(epoch: int, topics: list[str] | None = None) -> ConsumerGroupHeartbeatRequest:
    joins = epoch == 0
    return ConsumerGroupHeartbeatRequest(
        "readers",
        "member",
        epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=topics,
        topic_partitions=[] if joins else None,
    )


async def has_bytes(client: WireClient) -> bool:
    await trio.testing.wait_all_tasks_blocked(0.02)
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_a_client_that_changes_its_mind_at_once_has_no_answer_yet(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """As librdkafka does: it subscribes to other topics and unsubscribes before the first response."""
    client, other = await broker.connect(), await broker.connect()
    await client.send(heartbeat(0, ["events"]), VERSION)
    assert not await has_bytes(client)
    mock_clock.jump(LINGER_MS / 1_000)
    _, joined = await client.receive(HEARTBEAT, VERSION)
    assert (joined.error_code, joined.member_epoch) == (0, 2)

    await client.send(heartbeat(2, ["none"]), VERSION)
    await client.send(heartbeat(-1), VERSION)
    assert not await has_bytes(client)
    refused = await other.ask(heartbeat(7), VERSION)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    mock_clock.jump((LINGER_MS - 1) / 1_000)
    assert not await has_bytes(client)

    mock_clock.jump(0.001)
    _, revoked = await client.receive(HEARTBEAT, VERSION)
    assert (revoked.error_code, revoked.assignment.topic_partitions) == (0, [])
    assert not await has_bytes(client)
    mock_clock.jump(LINGER_MS / 1_000)
    _, left = await client.receive(HEARTBEAT, VERSION)
    assert (left.error_code, left.member_epoch) == (0, -1)


async def test_shutdown_sends_the_response_that_waits(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect()
    await client.send(heartbeat(0, ["events"]), VERSION)
    assert not await has_bytes(client)
    broker.server.release_delayed()
    _, joined = await client.receive(HEARTBEAT, VERSION)
    assert (joined.error_code, joined.member_epoch) == (0, 2)


async def test_a_connection_that_is_closed_meanwhile_gets_nothing(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client, other = await broker.connect(), await broker.connect()
    await client.send(heartbeat(0, ["events"]), VERSION)
    assert not await has_bytes(client)
    await client.stream.aclose()
    mock_clock.jump(LINGER_MS / 1_000)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert broker.server.delayed.linger.responses.delayed == 0
    assert (await other.ask(heartbeat(7), VERSION)).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("linger_ms", [-1, 0])
async def test_a_response_does_not_wait_if_it_need_not(
    tmp_path: Path, mock_clock: MockClock, linger_ms: int
) -> None:
    """-1 is Kafka's default: as short as the load allows, which is no time here."""
    async with running_broker(tmp_path, f"group.coordinator.append.linger.ms={linger_ms}") as broker:
        maker = await broker.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        found = await maker.ask(FindCoordinatorRequest(coordinator_keys=["readers"]), 4)
        assert found.coordinators[0].error_code == 0
        before = trio.current_time()
        joined = await maker.ask(heartbeat(0, ["events"]), VERSION)
        assert (joined.error_code, joined.member_epoch, trio.current_time()) == (0, 2, before)
