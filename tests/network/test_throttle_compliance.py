"""Clients that wait as told, and those that do not, over real connections and a mock clock.
tests/quotas/test_throttle_compliance.py tests the rules.

Under 1,000 B/s by Kafka's rule a first request of 30,000 bytes costs 20 seconds, of which each response
requests one, and a request sent within them costs one more.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.quotas.entity import Entity
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.prometheus import parse
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import connection_rows
from tests.support.wire import WireClient

CLIENT = "talker"


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(
        tmp_path, "quota.bandwidth.algorithm=rate", "quota.max.throttle.ms=1000"
    ) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        running.server.quotas.apply(Entity(client_id=CLIENT), "producer_byte_rate", 1_000)
        yield running


async def advance(clock: MockClock, ms: int) -> None:
    """A ten-millionth of a second more, since sums of fractions may be short of the time waited."""
    clock.jump(ms / 1000 + 1e-7)
    await wait_all_tasks_blocked(0.01)


async def send(client: WireClient, size: int = 1_000, acks: int = 1) -> None:
    await client.send(produce_request_of(size, CLIENT, acks=acks), PRODUCE_VERSION)
    await wait_all_tasks_blocked(0.01)


async def throttled_ms(client: WireClient) -> int:
    _, answer = await client.receive(0, PRODUCE_VERSION)
    return int(answer.throttle_time_ms)


def is_answered(client: WireClient) -> bool:
    """Return whether the broker has written bytes that are still unread."""
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def verdicts(broker: RunningBroker) -> tuple[set[bool | None], set[bool | None]]:
    """As the rows of its held connections and of its open ones say."""
    views = broker.server.views
    return (
        {row.obeys for row in views.quotas.throttled()},
        {row.obeys for row in connection_rows(views) if row.client_id == CLIENT},
    )


async def play(broker: RunningBroker, clock: MockClock, sends_at_ms: int, rounds: int) -> WireClient:
    """Each request so long after the answer before it, which says to wait a second."""
    client = await broker.connect(CLIENT)
    await send(client, 30_000)
    for _ in range(rounds):
        assert await throttled_ms(client) == 1_000
        passed_ms = 0
        for moment_ms in sorted({250, 980, 1_000, sends_at_ms}):
            await advance(clock, moment_ms - passed_ms)
            if moment_ms == sends_at_ms:
                await send(client)
            passed_ms = moment_ms
    return client


async def test_a_client_that_sends_in_spite_of_its_throttle_is_shown_so(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await play(broker, mock_clock, sends_at_ms=500, rounds=1)
    assert verdicts(broker) == ({None}, {None})
    await play(broker, mock_clock, sends_at_ms=500, rounds=1)
    assert verdicts(broker) == ({False}, {False})


async def test_a_client_that_waits_is_shown_so(broker: RunningBroker, mock_clock: MockClock) -> None:
    await play(broker, mock_clock, sends_at_ms=1_000, rounds=2)
    assert verdicts(broker) == ({True}, {True})


async def test_a_client_that_sends_a_millisecond_after_each_answer_is_seen_when_nothing_else_is_on_its_way(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """The fourth and fifth throttles are 25 ms longer than was told; no throttle is ever shorter."""
    client = await broker.connect(CLIENT)
    await send(client, 30_000)
    held_ms = []
    for _ in range(8):
        assert await throttled_ms(client) == 1_000
        await advance(mock_clock, 1)
        await send(client)
        for step_ms in (249, 250, 480, 20):
            assert not is_answered(client)
            await advance(mock_clock, step_ms)
        held_ms.append(1_000)
        for step_ms in (20, 5):
            if not is_answered(client):
                await advance(mock_clock, step_ms)
                held_ms[-1] += step_ms
    assert held_ms == [1_000, 1_000, 1_000, 1_025, 1_025, 1_000, 1_000, 1_000]
    assert verdicts(broker) == ({False}, {False})


async def test_a_client_that_keeps_requests_on_their_way_and_waits_is_seen_to_send_when_it_is_free(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """Three at once to begin with, then one whenever the told time is over."""
    client = await broker.connect(CLIENT)
    await send(client, 30_000)
    await send(client)
    await send(client)
    for _ in range(8):
        assert await throttled_ms(client) == 1_000
        for step_ms in (250, 730, 20):
            await advance(mock_clock, step_ms)
        await send(client)
        for step_ms in (20, 5):
            if not is_answered(client):
                await advance(mock_clock, step_ms)
    assert verdicts(broker) == ({True}, {True})


async def test_a_client_that_is_not_answered_cannot_know(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """acks=0: the connection is muted, and no response carries a throttle time."""
    client = await broker.connect(CLIENT)
    await send(client, 30_000, acks=0)
    for _ in range(4):
        for step_ms in (250, 250, 480, 20):
            await advance(mock_clock, step_ms)
            await send(client, acks=0)
    assert verdicts(broker) == ({None}, {None})


async def test_a_limit_that_is_raised_ends_the_watch(broker: RunningBroker, mock_clock: MockClock) -> None:
    client = await broker.connect(CLIENT)
    for limit in (1_000_000, 1_000, 1_000_000, 1_000):
        await send(client, 30_000)
        assert (await throttled_ms(client) > 0) is (limit == 1_000_000)
        broker.server.quotas.apply(Entity(client_id=CLIENT), "producer_byte_rate", limit)
        for _ in range(10):
            await advance(mock_clock, 100)
    assert verdicts(broker) == (set(), {None})


async def test_a_connection_that_closes_while_it_is_watched_leaves_nothing(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect(CLIENT)
    await send(client, 30_000)
    await trio.aclose_forcefully(client.stream)
    await wait_all_tasks_blocked(0.01)
    await advance(mock_clock, 2_000)
    assert verdicts(broker) == (set(), set())
    assert broker.server.quotas.throttle_compliance.next_deadline() is None


async def test_metrics_count_what_each_client_did(broker: RunningBroker, mock_clock: MockClock) -> None:
    await play(broker, mock_clock, sends_at_ms=500, rounds=2)
    page = parse(broker.server.prometheus.page())
    counts = page["kafka_server_throttle_compliance_total"]
    assert counts.value(user="ANONYMOUS", client_id=CLIENT, outcome="sent_early") == 2
    assert counts.value(user="ANONYMOUS", client_id=CLIENT, outcome="waited") == 0
    verdicts = page["kafka_server_throttled_clients"]
    assert [verdicts.value(obeys=word) for word in ("yes", "no", "unknown")] == [0, 1, 0]
