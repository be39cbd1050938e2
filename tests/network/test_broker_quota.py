"""The broker's own quota over real connections and a mock clock: all clients share it, each client that
exceeds it is throttled, and it changes at run time.

11,000 bytes under 1,000 B/s: the window has ten whole seconds, so the rate is 1,100 B/s, and one second
repays the excess.
"""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.log import disk
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.support.live import ALL_BROKERS, alter, alter_through, takes_effect
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def produce(client: WireClient, size: int) -> int:
    """Return the throttle time of the response, in ms."""
    answer = await client.ask(produce_request_of(size, client.client_id, acks=1), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


async def fetch(client: WireClient, offset: int = 0, max_bytes: int = 1_000_000) -> FetchResponse:
    partitions = [FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic("events", partitions=partitions)],
    )
    answer = await client.ask(request, 11)
    assert isinstance(answer, FetchResponse)
    return answer


def fetched(answer: FetchResponse) -> int:
    return sum(len(part.records or b"") for topic in answer.responses for part in topic.partitions)


async def fill(broker: RunningBroker, value_bytes: int) -> None:
    client = await broker.connect("filler")
    answer = await client.ask(produce_request(batch_of(b"x" * value_bytes)), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0


def has_bytes(client: WireClient) -> bool:
    try:
        return bool(client.stream.socket._sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def is_read(client: WireClient) -> bool:
    """Return whether another request of this connection is answered without delay."""
    await client.send(MetadataRequest([MetadataRequestTopic(name="events")]), 9)
    await trio.testing.wait_all_tasks_blocked(0.02)
    return has_bytes(client)


@takes_effect("broker.quota.enabled", "broker.quota.produce.bytes")
async def test_all_producers_share_the_limit_and_it_is_changed_while_the_broker_runs(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    one, two = await broker.connect("one"), await broker.connect("two")
    await alter(broker, broker_quota_produce_bytes="1000")
    assert await produce(one, 50_000) == 0  # it is not enabled
    await alter(broker, broker_quota_enabled="true")
    assert await produce(one, 10_000) == 0
    assert await produce(two, 1_000) == 1_000
    (row,) = broker.server.views.quotas.throttled()
    assert (row.client_id, row.quota_type, row.entity) == ("two", QuotaKind.BROKER_PRODUCE, ())
    assert row.tags == (("broker quota", "produce bytes"),)
    assert (row.observed, row.bound, row.throttle_ms) == (1_100, 1_000, 1_000)
    assert await is_read(one)
    assert not await is_read(two)
    mock_clock.jump(0.999)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert not has_bytes(two)
    mock_clock.jump(0.001)
    await two.receive(3, 9)


async def test_the_longer_of_the_clients_and_the_brokers_throttle_is_reported_and_applied(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, broker_quota_produce_bytes="1000", broker_quota_enabled="true")
    for client_id, limit in (("strict", 500), ("equal", 1_000), ("loose", 5_000)):
        broker.server.quotas.apply(Entity(client_id=client_id), "producer_byte_rate", limit)
    strict = await broker.connect("strict")
    assert await produce(strict, 10_001) == 10_002  # 1,000.1 B/s against its own 500
    assert [row.quota_type for row in broker.server.views.quotas.throttled()] == [QuotaKind.PRODUCE]
    loose = await broker.connect("loose")
    assert await produce(loose, 999) == 1_000  # its own is not broken, and all together sent 11,000
    kinds = {row.client_id: row.quota_type for row in broker.server.views.quotas.throttled()}
    assert kinds == {"strict": QuotaKind.PRODUCE, "loose": QuotaKind.BROKER_PRODUCE}


async def test_a_repeated_produce_request_counts_as_the_first_does(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """The second and later ones of a shape take the short way through the handler."""
    await alter(broker, broker_quota_produce_bytes="1000", broker_quota_enabled="true")
    client = await broker.connect("one")
    assert [await produce(client, 2_500) for _ in range(5)] == [0, 0, 0, 0, 2_500]


@takes_effect("broker.quota.fetch.bytes")
async def test_all_consumers_share_the_limit_and_an_answer_over_it_is_empty(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    for _ in range(4):
        await fill(broker, 3_000)
    await alter(broker, broker_quota_fetch_bytes="1000", broker_quota_enabled="true")
    clients = [await broker.connect(f"reader{number}") for number in range(4)]
    answers = [await fetch(client) for client in clients]
    sizes = [fetched(answer) for answer in answers]
    # One batch each, for a fetch is cut to a second's worth, but for its first batch.
    assert sizes[:3] == [sizes[0]] * 3
    assert 3_000 < sizes[0] < 3_100
    assert sizes[3] == 0
    assert answers[2].throttle_time_ms == 0
    (row,) = broker.server.views.quotas.throttled()
    assert (row.quota_type, row.tags) == (QuotaKind.BROKER_FETCH, (("broker quota", "fetch bytes"),))
    assert row.observed > 1_200
    assert answers[3].throttle_time_ms == round(row.observed * 10) - 10_000
    # What was not sent is not counted: the same fetch waits as long again.
    mock_clock.jump(answers[3].throttle_time_ms / 1000)
    used = {each.kind: each for each in broker.server.quotas.broker.use(broker.server.clock.ms())}
    assert used[QuotaKind.BROKER_FETCH].observed < 1_000


async def test_a_fetch_that_repeats_itself_counts_too(broker: RunningBroker, mock_clock: MockClock) -> None:
    await fill(broker, 6_000)
    client = await broker.connect("reader")
    for _ in range(3):
        assert fetched(await fetch(client)) > 6_000
    await alter(broker, broker_quota_fetch_bytes="1000", broker_quota_enabled="true")
    assert fetched(await fetch(client)) > 6_000
    assert fetched(await fetch(client)) == 0


@takes_effect("broker.quota.slow.fetch.bytes")
async def test_only_a_fetch_that_the_page_cache_cannot_answer_counts_as_slow(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(broker, 6_000)
    await alter(broker, broker_quota_slow_fetch_bytes="1000", broker_quota_enabled="true")
    client = await broker.connect("reader")
    monkeypatch.setattr(disk, "is_cached", lambda _file, _position: True)
    for _ in range(3):
        assert fetched(await fetch(client)) > 6_000
    monkeypatch.setattr(disk, "is_cached", lambda _file, position: position == 0)
    assert fetched(await fetch(client)) > 6_000
    answer = await fetch(client)
    assert fetched(answer) == 0
    (row,) = broker.server.views.quotas.throttled()
    assert row.quota_type is QuotaKind.BROKER_SLOW_FETCH
    assert row.observed > 1_200  # two of the five
    assert answer.throttle_time_ms == round(row.observed * 10) - 10_000


@pytest.mark.parametrize("tells", [True, False])
async def test_where_the_file_system_does_not_say_a_closed_segment_counts_as_slow(
    broker: RunningBroker, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    await alter(broker, log_segment_bytes="1048576")
    for _ in range(2):
        await fill(broker, 750_000)
    await alter(broker, broker_quota_slow_fetch_bytes="250000", broker_quota_enabled="true")
    monkeypatch.setattr(disk, "is_cached", lambda _file, _position: True if tells else None)
    client = await broker.connect("reader")
    for offset in (0, 1):
        assert fetched(await fetch(client, offset)) > 3_000
    used = {each.kind: each.observed for each in broker.server.quotas.broker.use(broker.server.clock.ms())}
    slow = used[QuotaKind.BROKER_SLOW_FETCH]
    assert used[QuotaKind.BROKER_FETCH] > 600
    assert slow == (0 if tells else used[QuotaKind.BROKER_FETCH] / 2)


@takes_effect("broker.quota.request.rate")
async def test_requests_of_all_clients_share_the_request_rate(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, broker_quota_request_rate="0.3", broker_quota_enabled="true")
    one, two = await broker.connect("one"), await broker.connect("two")
    assert await produce(one, 300) == 0
    assert (await fetch(two)).throttle_time_ms == 0
    assert await produce(one, 300) == 0
    # Four in ten seconds are 0.4 a second: (0.4 - 0.3) / 0.3 of ten seconds.
    assert (await fetch(two)).throttle_time_ms == 3_333
    (row,) = broker.server.views.quotas.throttled()
    assert row.quota_type is QuotaKind.BROKER_REQUEST_RATE
    # Other requests do not count.
    assert await is_read(one)


@takes_effect(
    "broker.quota.white.list.user", "broker.quota.white.list.client.id", "broker.quota.white.list.listener"
)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("broker_quota_white_list_user", "bob,ANONYMOUS"),
        ("broker_quota_white_list_client_id", "other,greedy"),
        ("broker_quota_white_list_listener", "PLAINTEXT"),
    ],
)
async def test_a_client_that_is_on_a_white_list_is_let_through_and_counts_for_nothing(
    broker: RunningBroker, mock_clock: MockClock, key: str, value: str
) -> None:
    await alter(broker, broker_quota_produce_bytes="1", broker_quota_enabled="true", **{key: value})
    greedy = await broker.connect("greedy")
    assert await produce(greedy, 90_000) == 0
    await alter(broker, **{key: None})
    assert await produce(greedy, 1_000) == 11_000  # as long as all windows together


async def test_a_client_of_automqs_own_is_exempt(broker: RunningBroker, mock_clock: MockClock) -> None:
    await alter(broker, broker_quota_produce_bytes="1", broker_quota_enabled="true")
    assert await produce(await broker.connect("__automq_client_x"), 90_000) == 0


async def test_a_raised_limit_lets_go_earlier_and_a_disabled_one_at_once(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, broker_quota_produce_bytes="1000", broker_quota_enabled="true")
    client = await broker.connect("one")
    assert await produce(client, 20_000) == 10_000
    await alter(broker, broker_quota_produce_bytes="1600")
    (row,) = broker.server.views.quotas.throttled()
    assert row.remaining_ms == 2_500  # 20,000 bytes at 1,600 a second, ten seconds of which were quiet
    assert not await is_read(client)
    await alter(broker, broker_quota_enabled="false")
    await client.receive(3, 9)
    assert broker.server.views.quotas.throttled() == []


async def test_a_default_for_all_brokers_holds_and_a_value_for_one_wins(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await alter(broker, ALL_BROKERS, broker_quota_produce_bytes="1000", broker_quota_enabled="true")
    client = await broker.connect("one")
    assert await produce(client, 11_000) == 1_000
    await alter(broker, broker_quota_enabled="false")
    await client.ask(MetadataRequest([]), 9)
    assert await produce(client, 50_000) == 0


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("broker.quota.produce.bytes", "0", "a number from 1 on"),
        ("broker.quota.produce.bytes", "0.99", "a number from 1 on"),
        ("broker.quota.fetch.bytes", "-1", "a number from 1 on"),
        ("broker.quota.slow.fetch.bytes", "fast", "a number from 1 on"),
        ("broker.quota.request.rate", "0.009", "a number from 0.01 on"),
        ("broker.quota.enabled", "yes", "true or false"),
        ("broker.quota.white.list.user", "a,,b", "a list of names"),
        ("cluster.quota.topic.count", "-1", "a whole number from 0 to 9223372036854775807"),
    ],
)
async def test_a_value_out_of_range_is_refused_with_what_is_allowed(
    broker: RunningBroker, mock_clock: MockClock, key: str, value: str, allowed: str
) -> None:
    code, message = await alter_through(broker.clients[0], {key: value})
    assert code != 0
    assert message is not None and allowed in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("broker.quota.produce.bytes", "1"),
        ("broker.quota.request.rate", "0.01"),
        ("broker.quota.fetch.bytes", "1.7976931348623157e+308"),
        ("cluster.quota.topic.count", "0"),
        ("broker.quota.white.list.user", ""),
    ],
)
async def test_a_value_at_the_end_of_its_range_is_taken(
    broker: RunningBroker, mock_clock: MockClock, key: str, value: str
) -> None:
    assert await alter_through(broker.clients[0], {key: value}) == (0, None)


async def test_limits_of_the_file_hold_from_the_start(tmp_path: Path, mock_clock: MockClock) -> None:
    settings = ("broker.quota.enabled=true", "broker.quota.produce.bytes=1000")
    async with running_broker(tmp_path, *settings) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        assert await produce(await running.connect("one"), 11_000) == 1_000
