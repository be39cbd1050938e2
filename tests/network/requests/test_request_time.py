"""The request quota over real connections: charges, reported throttles, and no measurement without a rule.

The broker's clock advances only by the time that the test gives a handler, so every value is exact: ten
milliseconds are one percent of a second, and a rule of 2 % admits 200 ms in the window of ten seconds.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker.api.requests.outcome import Outcome, Response, in_slices
from broker.common.slices import Slices
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.network.requests.request_time import MAX_UNRECORDED_NS
from broker.network.requests.routes import Route
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from broker.quotas.kinds import QuotaKind
from tests.support.produce import PRODUCE_VERSION, create_topic, produce_request_of
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

CLIENT = "busy"


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def limit(broker: RunningBroker, key: str, value: float | None, client_id: str = CLIENT) -> None:
    rule = QuotaAlteration((("client-id", client_id),), (QuotaOp(key, value),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    assert outcome.ok


def route_of(broker: RunningBroker, key: ApiKey, version: int) -> Route:
    routes = broker.server.socket_server.listeners[0].routes
    route = routes.get(key << 16 | version) or routes.build(key << 16 | version)
    assert route is not None
    return route


def take(
    broker: RunningBroker, clock: MockClock, key: ApiKey, version: int, ms: float, whose: str = CLIENT
) -> None:
    """Set the duration of requests of `whose`."""
    route = route_of(broker, key, version)
    handle = route.handle

    def slow(message: Any, context: Any, of: Any) -> Any:
        if context.client_id == whose:
            clock.jump(ms / 1000)
        return handle(message, context, of)

    route.handle, route.fast_path = slow, None


def charged_ms(broker: RunningBroker, client_id: str = CLIENT) -> float:
    """Return the time charged to a client, in ms."""
    sensor, now_ms = broker.server.quotas.request.find("ANONYMOUS", client_id), broker.server.clock.ms()
    if sensor is None:
        return 0.0
    return round(sensor.observed(now_ms) * sensor.rate.window_size_ms(now_ms) / 100, 6)


async def is_answered_now(client: WireClient) -> bool:
    with trio.move_on_after(1_000) as scope:
        await client.send(MetadataRequest([]), 9)
        await trio.testing.wait_all_tasks_blocked(0.02)
        try:
            return bool(client.stream.socket._sock.recv(1, 2)) and not scope.cancelled_caught  # type: ignore[attr-defined]
        except BlockingIOError:
            return False


@pytest.mark.parametrize(
    ("took_ms", "throttle_ms"),
    [(199, 0), (200, 0), (201, 50), (220, 1_000), (221, 1_050), (419, 10_950), (420, 11_000), (421, 11_000)],
)
async def test_a_throttle_is_reported_and_at_most_as_long_as_the_windows(
    broker: RunningBroker, mock_clock: MockClock, took_ms: int, throttle_ms: int
) -> None:
    await reports(broker, mock_clock, took_ms, throttle_ms)


@pytest.mark.parametrize(("took_ms", "throttle_ms"), [(219, 950), (220, 1_000), (221, 1_000), (3_000, 1_000)])
async def test_by_kafkas_rule_a_throttle_is_at_most_one_window_long(
    tmp_path: Path, mock_clock: MockClock, took_ms: int, throttle_ms: int
) -> None:
    async with running_broker(tmp_path, "quota.bandwidth.algorithm=rate") as broker:
        await reports(broker, mock_clock, took_ms, throttle_ms)


async def reports(broker: RunningBroker, mock_clock: MockClock, took_ms: int, throttle_ms: int) -> None:
    """A request that takes `took_ms` of the 200 that are allowed at once is throttled for `throttle_ms`."""
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, ApiKey.METADATA, 9, took_ms)
    client = await broker.connect(CLIENT)
    answer = await client.ask(MetadataRequest([]), 9)
    assert answer.throttle_time_ms == throttle_ms
    assert charged_ms(broker) == took_ms
    rows = broker.server.quotas.rows(broker.server.clock.ms())
    assert [(row.quota_type, row.remaining_ms) for row in rows] == (
        [(QuotaKind.REQUEST, throttle_ms)] if throttle_ms else []
    )


@pytest.mark.parametrize(("upstream_ms", "reported_ms"), [(49, 50), (50, 50), (51, 51)])
async def test_a_longer_time_in_the_answer_stays_and_is_not_waited_for(
    broker: RunningBroker, mock_clock: MockClock, upstream_ms: int, reported_ms: int
) -> None:
    await limit(broker, "request_percentage", 2)

    def handle(_message: Any, _context: Any, _of: Any) -> Response:
        mock_clock.jump(0.201)
        return Response(MetadataResponse(upstream_ms))

    route = route_of(broker, ApiKey.METADATA, 9)
    route.handle = handle
    client = await broker.connect(CLIENT)
    assert (await client.ask(MetadataRequest([]), 9)).throttle_time_ms == reported_ms
    (row,) = broker.server.quotas.rows(broker.server.clock.ms())
    assert row.remaining_ms == 50


async def test_the_connection_opens_again_on_its_millisecond(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, ApiKey.PRODUCE, PRODUCE_VERSION, 201)
    client = await broker.connect(CLIENT)
    answer = await client.ask(produce_request_of(500, CLIENT), PRODUCE_VERSION)
    assert answer.throttle_time_ms == 50
    assert not await is_answered_now(client)
    mock_clock.jump(0.049)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert len(broker.server.quotas.request.throttled) == 1
    mock_clock.jump(0.001)
    await client.receive(3, 9)


@pytest.mark.parametrize(
    ("took_ms", "muted_ms"),
    [(199, 0), (200, 0), (201, 50), (220, 1_000), (419, 10_950), (420, 11_000), (3_000, 11_000)],
)
async def test_a_produce_without_acks_is_charged_and_mutes_its_connection(
    broker: RunningBroker, mock_clock: MockClock, took_ms: int, muted_ms: int
) -> None:
    """No response tells the throttle, so the broker does not judge whether the client waits."""
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, ApiKey.PRODUCE, PRODUCE_VERSION, took_ms)
    client = await broker.connect(CLIENT)
    await client.send(produce_request_of(500, CLIENT, acks=0), PRODUCE_VERSION)
    await trio.testing.wait_all_tasks_blocked(0.02)
    quotas = broker.server.quotas
    assert (charged_ms(broker), quotas.request.exempt.measure(broker.server.clock.ms())) == (took_ms, 0)
    assert [row.remaining_ms for row in quotas.rows(broker.server.clock.ms())] == [muted_ms][: bool(muted_ms)]
    assert quotas.throttle_compliance.next_deadline() is None
    assert await is_answered_now(client) is not bool(muted_ms)
    if muted_ms:
        mock_clock.jump((muted_ms - 1) / 1000)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(quotas.request.throttled) == 1
        mock_clock.jump(0.001)
        await client.receive(3, 9)


async def test_the_longer_of_two_throttles_mutes_a_produce_without_acks(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, "request_percentage", 2)
    await limit(broker, "producer_byte_rate", 40)
    take(broker, mock_clock, ApiKey.PRODUCE, PRODUCE_VERSION, 201)
    client = await broker.connect(CLIENT)
    await client.send(produce_request_of(500, CLIENT, acks=0), PRODUCE_VERSION)
    await trio.testing.wait_all_tasks_blocked(0.02)
    (row,) = broker.server.quotas.rows(broker.server.clock.ms())
    assert row.quota_type is QuotaKind.PRODUCE and row.remaining_ms > 50


async def test_each_client_is_charged_its_own_time_however_requests_come_together(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, "request_percentage", 1_000)
    take(broker, mock_clock, ApiKey.PRODUCE, PRODUCE_VERSION, 100)
    clients = [await broker.connect(name) for name in (CLIENT, "other", CLIENT, "other")]
    for client in clients:
        await client.send(produce_request_of(500, client.client_id or ""), PRODUCE_VERSION)
    for client in clients:
        await client.receive(0, PRODUCE_VERSION)
    assert (charged_ms(broker), charged_ms(broker, "other")) == (200, 0)


async def test_every_slice_of_a_request_is_charged(broker: RunningBroker, mock_clock: MockClock) -> None:
    await limit(broker, "request_percentage", 1_000)
    client = await broker.connect(CLIENT)

    def handle(*_: Any) -> Outcome:
        return in_slices(slices())

    def slices() -> Slices[Outcome]:
        for _ in range(3):
            mock_clock.jump(0.1)
            yield None
        mock_clock.jump(0.05)
        return Response(MetadataResponse())

    route_of(broker, ApiKey.METADATA, 9).handle = handle
    await client.ask(MetadataRequest([]), 9)
    assert charged_ms(broker) == 350


class SlowSocket:
    """Writes several buffers in 0.1 s."""

    def __init__(self, sock: Any, clock: MockClock) -> None:
        self._sock = sock
        self._clock = clock

    def sendmsg(self, *args: Any) -> int:
        self._clock.jump(0.1)
        return self._sock.sendmsg(*args)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


async def test_writing_the_answer_is_charged_to_its_client(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, "request_percentage", 1_000)
    client, other = await broker.connect(CLIENT), await broker.connect("other")
    for channel in broker.server.socket_server.channels():
        channel.sock = SlowSocket(channel.sock, mock_clock)  # type: ignore[assignment]
    encode = route_of(broker, ApiKey.METADATA, 9).encode
    route_of(broker, ApiKey.METADATA, 9).encode = lambda reply, number: [*encode(reply, number), b""]
    await client.ask(MetadataRequest([]), 9)
    assert (charged_ms(broker), charged_ms(broker, "other")) == (100, 0)
    await other.ask(MetadataRequest([]), 9)
    assert (charged_ms(broker), charged_ms(broker, "other")) == (100, 100)


async def test_waiting_is_not_charged(broker: RunningBroker, mock_clock: MockClock) -> None:
    await limit(broker, "request_percentage", 1_000)
    take(broker, mock_clock, ApiKey.FETCH, 12, 50)
    client = await broker.connect(CLIENT)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic="events", partitions=[partition])]
    await client.send(FetchRequest(max_wait_ms=700, min_bytes=1, topics=topics, session_epoch=-1), 12)
    await trio.testing.wait_all_tasks_blocked(0.02)
    mock_clock.jump(0.7)
    await client.receive(1, 12)
    assert charged_ms(broker) == 50


@pytest.mark.parametrize(
    ("took_ms", "throttle_ms", "kind"),
    [(219, 1_000, QuotaKind.PRODUCE), (220, 1_000, QuotaKind.REQUEST), (0, 1_000, QuotaKind.PRODUCE)],
)
async def test_the_longer_wait_counts_and_of_equal_ones_the_request_quotas(
    broker: RunningBroker, mock_clock: MockClock, took_ms: int, throttle_ms: int, kind: QuotaKind
) -> None:
    await limit(broker, "request_percentage", 2)
    await limit(broker, "producer_byte_rate", 1_000)
    take(broker, mock_clock, ApiKey.PRODUCE, PRODUCE_VERSION, took_ms)
    client = await broker.connect(CLIENT)
    answer = await client.ask(produce_request_of(11_000, CLIENT), PRODUCE_VERSION)
    assert answer.throttle_time_ms == throttle_ms
    assert [row.quota_type for row in broker.server.quotas.rows(broker.server.clock.ms())] == [kind]


@pytest.mark.parametrize(
    ("partitions", "took_ms", "throttle_ms", "kind"),
    [
        (1, 220, 1_000, QuotaKind.REQUEST),
        (25, 0, 1_500, QuotaKind.CONTROLLER_MUTATION),
        (28, 220, 3_000, QuotaKind.CONTROLLER_MUTATION),
        (23, 220, 1_000, QuotaKind.REQUEST),
    ],
)
async def test_of_a_mutations_wait_and_a_requests_the_longer_is_reported_and_kept(
    broker: RunningBroker,
    mock_clock: MockClock,
    partitions: int,
    took_ms: int,
    throttle_ms: int,
    kind: QuotaKind,
) -> None:
    """Eleven windows of 2 save up 22 partitions; 2 % let 200 ms pass."""
    await limit(broker, "controller_mutation_rate", 2)
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, ApiKey.CREATE_TOPICS, 5, took_ms)
    client = await broker.connect(CLIENT)
    answer = await client.ask(create_topic("made", partitions), 5)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, throttle_ms)
    rows = broker.server.quotas.rows(broker.server.clock.ms())
    assert [(row.quota_type, row.remaining_ms) for row in rows] == [(kind, throttle_ms)]


async def test_responses_are_cached_while_they_are_timed(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    client = await broker.connect("anybody")
    route = route_of(broker, ApiKey.METADATA, 9)
    kept = []
    for rule in (None, 1_000.0, None):
        await limit(broker, "request_percentage", rule)
        for _ in range(3):
            await client.ask(MetadataRequest([]), 9)
        kept.append(route.metrics.cached)
    assert kept == [2, 5, 8]  # a changed rule clears no response


@pytest.mark.parametrize(
    ("unrecorded_ns", "recorded_ms", "throttle_ms"),
    [
        (MAX_UNRECORDED_NS - 1, 0, 0),
        (MAX_UNRECORDED_NS, 0.1, 0),
        (200_000_000, 200, 0),
        (220_000_000, 220, 1_000),
    ],
)
async def test_a_client_over_its_limit_gets_no_cached_response(
    broker: RunningBroker, mock_clock: MockClock, unrecorded_ns: int, recorded_ms: float, throttle_ms: int
) -> None:
    """What cached responses took is recorded when it is MAX_UNRECORDED_NS; 2 % let 200 ms pass."""
    await limit(broker, "request_percentage", 2)
    client = await broker.connect(CLIENT)
    await client.ask(MetadataRequest([]), 9)
    (channel,) = [each for each in broker.server.socket_server.channels() if each.client_id == CLIENT]
    channel.network_ns += unrecorded_ns
    before = route_of(broker, ApiKey.METADATA, 9).metrics.cached
    assert (await client.ask(MetadataRequest([]), 9)).throttle_time_ms == throttle_ms
    assert route_of(broker, ApiKey.METADATA, 9).metrics.cached == before + (throttle_ms == 0)
    assert charged_ms(broker) == pytest.approx(recorded_ms)


async def test_a_closed_connection_leaves_no_cached_response_unrecorded(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    await limit(broker, "request_percentage", 2)
    client = await broker.connect(CLIENT)
    for _ in range(2):
        await client.ask(MetadataRequest([]), 9)
    (channel,) = [each for each in broker.server.socket_server.channels() if each.client_id == CLIENT]
    channel.network_ns += MAX_UNRECORDED_NS - 1
    await client.stream.aclose()
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert charged_ms(broker) == pytest.approx((MAX_UNRECORDED_NS - 1) / 1e6)


async def test_a_rule_from_before_the_start_is_kept(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as first:
        await limit(first, "request_percentage", 2)
    async with running_broker(tmp_path) as second:
        take(second, mock_clock, ApiKey.METADATA, 9, 220)
        client = await second.connect(CLIENT)
        assert (await client.ask(MetadataRequest([]), 9)).throttle_time_ms == 1_000


@pytest.mark.parametrize(
    ("named", "is_exempt"),
    [("", False), ("inter.broker.listener.name=INTERNAL", True)],
    ids=["default", "named"],
)
async def test_only_a_listener_that_is_named_for_brokers_is_exempt(
    tmp_path: Path, mock_clock: MockClock, named: str, is_exempt: bool
) -> None:
    """Without the name one of two listeners is the inter-broker one by its protocol, and clients use it."""
    listeners = [
        "listeners=INTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map=INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    ]
    async with running_broker(tmp_path, *listeners, *([named] if named else [])) as broker:
        await limit(broker, "request_percentage", 2)
        time = broker.server.socket_server.handlers._request_time
        assert time is not None
        assert set(time._exempt) == ({"INTERNAL"} if is_exempt else set())
