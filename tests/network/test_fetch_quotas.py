"""Delayed fetches and quotas over real connections: two consumers under one rule, on the mock clock.

2 % of a thread are 200 ms in the window of ten seconds; 10 kB/s are 100 kB in it.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import Outcome
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol.api_key import ApiKey
from broker.protocol.client_id import client_id_and_body
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.quotas.bandwidth import RateQuotaManager
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

VERSION = 11
FETCH = ApiKey.FETCH
SHARED = Entity(user="ANONYMOUS")
RATE = 10_000
BATCH = batch_of(b"b" * 30_000)
WAITS_S = [0.5, 9.0, 10.9, 11.0, 30.0]
SESSIONS = pytest.mark.parametrize("in_session", [False, True], ids=["alone", "in a session"])


class Consumer:
    """Fetches partition 0 of the topic that it is called after, from offset 0 on."""

    def __init__(self, client: WireClient, *, in_session: bool = False) -> None:
        self.client = client
        self.in_session = in_session
        self.size = 0
        self._id, self._epoch = 0, 0 if in_session else -1

    async def send(self, max_wait_ms: int = 0) -> None:
        partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)
        named = [FetchTopic(self.client.client_id or "", partitions=[partition])]
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1_000_000,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=named if self._epoch <= 0 else [],
        )
        await self.client.send(message, VERSION)

    async def receive(self) -> tuple[int, int]:
        """(throttle, bytes of records) of the answer."""
        _, answer = await self.client.receive(FETCH, VERSION)
        assert answer.error_code == 0
        if self.in_session:
            self._id, self._epoch = answer.session_id, self._epoch + 1 if answer.session_id else 0
        records = sum(len(each.records) for topic in answer.responses for each in topic.partitions)
        return int(answer.throttle_time_ms), records

    async def fetch(self) -> tuple[int, int]:
        await self.send()
        return await self.receive()

    async def wait(self, broker: RunningBroker) -> None:
        """Send a fetch, and return once it is delayed."""
        await self.send(60_000)
        while not broker.server.fetches.delayed:
            await wait_all_tasks_blocked(0.001)


# Every test asks for the mock clock itself: a fixture's clock does not become the run's.
@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path) as running:
        maker = await running.connect("maker")
        for name in ("busy", "idle"):
            assert (await maker.ask(create_topic(name), 5)).topics[0].error_code == 0
        await maker.ask(produce_request(BATCH, "busy"), PRODUCE_VERSION)
        yield running


async def consumer(broker: RunningBroker, name: str, *, in_session: bool = False) -> Consumer:
    made = Consumer(await broker.connect(name), in_session=in_session)
    if in_session:
        await made.fetch()
    return made


async def append(broker: RunningBroker, size: int = 100) -> bytearray:
    """Append a record for `idle`."""
    records = batch_of(b"i" * size)
    await broker.clients[0].ask(produce_request(records, "idle"), PRODUCE_VERSION)
    return records


def bytes_out(broker: RunningBroker, topic: str) -> int:
    log = broker.server.partitions.log(topic, 0)
    assert log is not None
    return log.metrics.bytes_out


async def limit(broker: RunningBroker, key: str, value: float | None, **entity: str) -> None:
    """Set a rule of the client `busy`, or of another entity."""
    of = tuple(entity.items()) or (("client-id", "busy"),)
    rule = QuotaAlteration(of, (QuotaOp(key, value),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    assert outcome.ok


def take(broker: RunningBroker, clock: MockClock, ms: float, whose: str = "busy") -> None:
    """Set the time that a fetch of this client occupies the handler."""
    routes = broker.server.socket_server.listeners[0].routes
    route = routes.get(FETCH << 16 | VERSION) or routes.build(FETCH << 16 | VERSION)
    assert route is not None
    handle = route.handle

    if route.fast_path is not None:
        route.fast_path = SlowFastPath(route.fast_path, clock, ms, whose)
        return

    def slow(message: Any, context: Any, of: Any) -> Any:
        if context.client_id == whose:
            clock.jump(ms / 1_000)
        return handle(message, context, of)

    route.handle = slow


class SlowFastPath:
    """A fast path that takes time before each request of one client, also those that it does not serve."""

    def __init__(self, inner: FastPath, clock: MockClock, ms: float, whose: str) -> None:
        self._inner = inner
        self._clock = clock
        self._ms = ms
        self._whose = whose

    def serve(self, frame: Any, context: Any) -> Outcome | None:
        if client_id_and_body(frame, flexible=False)[0] == self._whose:
            self._clock.jump(self._ms / 1_000)
        return self._inner.serve(frame, context)

    def forget(self) -> None:
        self._inner.forget()


def used(broker: RunningBroker, kind: QuotaKind) -> float:
    sensor = broker.server.quotas.managers[kind].find("ANONYMOUS", None)
    return 0.0 if sensor is None else sensor.observed(broker.server.clock.ms())


@SESSIONS
@pytest.mark.parametrize("wait_s", WAITS_S)
async def test_under_a_byte_rate_the_wait_of_one_is_neither_its_own_debt_nor_its_neighbours_credit(
    broker: RunningBroker, mock_clock: MockClock, wait_s: float, in_session: bool
) -> None:
    busy, idle = await consumer(broker, "busy"), await consumer(broker, "idle", in_session=in_session)
    await busy.send()
    size = len(await busy.client.receive_frame()) + 4
    broker.server.quotas.apply(SHARED, "consumer_byte_rate", RATE)
    true = RateQuotaManager(QuotaKind.FETCH, paced=True)
    true.set_bound("ANONYMOUS", None, RATE)

    def truly(size: int) -> int:
        now_ms = broker.server.clock.ms()
        throttle = true.record("ANONYMOUS", None, size, now_ms)
        if throttle is None:
            return 0
        true.unrecord("ANONYMOUS", None, size, now_ms)
        return throttle.throttle_ms

    await idle.wait(broker)
    passed_ms, throttled = 0, 0
    while True:
        throttle_ms, got = await busy.fetch()
        assert (throttle_ms, got) == ((expected := truly(size)), 0 if expected else len(BATCH))
        throttled += throttle_ms > 0
        next_ms = throttle_ms or 50
        if passed_ms + next_ms > wait_s * 1_000:
            break
        passed_ms += next_ms
        mock_clock.jump(next_ms / 1_000)
        await wait_all_tasks_blocked(0.001)
    assert throttled
    mock_clock.jump(wait_s - passed_ms / 1_000)
    await wait_all_tasks_blocked(0.001)
    records = await append(broker)
    throttle_ms, got = await idle.receive()
    assert throttle_ms == truly(len(records) + (size - len(BATCH)))  # both topics have names of four letters
    assert got == (0 if throttle_ms else len(records))
    sensor = true.find("ANONYMOUS", None)
    assert sensor is not None
    assert used(broker, QuotaKind.FETCH) == sensor.observed(broker.server.clock.ms()) > 0


@SESSIONS
@pytest.mark.parametrize("wait_s", WAITS_S)
async def test_under_a_request_quota_only_what_was_spent_counts_and_what_is_over_is_held_back(
    broker: RunningBroker, mock_clock: MockClock, wait_s: float, in_session: bool
) -> None:
    busy, idle = await consumer(broker, "busy"), await consumer(broker, "idle", in_session=in_session)
    mock_clock.jump(1.0)
    await limit(broker, "request_percentage", 2, user="ANONYMOUS")
    await idle.wait(broker)
    mock_clock.jump(wait_s)
    await wait_all_tasks_blocked(0.001)
    assert used(broker, QuotaKind.REQUEST) == 0, "waiting is not charged"
    # The neighbour takes 210 ms of the 200.
    take(broker, mock_clock, 210, "busy")
    before = bytes_out(broker, "busy")
    assert await busy.fetch() == (500, 0)
    assert bytes_out(broker, "busy") == before
    await append(broker)
    throttle_ms, got = await idle.receive()
    assert (throttle_ms, got) == (10_500, 0), "the answer of one under a rule that is broken is throttled too"
    mock_clock.jump(12.0)
    await wait_all_tasks_blocked(0.001)
    throttle_ms, got = await idle.fetch()
    assert (throttle_ms, got > 0) == (0, True)
    assert used(broker, QuotaKind.REQUEST) == 0


@pytest.mark.parametrize(
    ("took_ms", "throttle_ms", "throttled"), [(199, 0, False), (200, 0, False), (201, 50, True)]
)
async def test_records_are_held_back_above_the_bound_only(
    broker: RunningBroker, mock_clock: MockClock, took_ms: int, throttle_ms: int, throttled: bool
) -> None:
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, took_ms)
    busy = await consumer(broker, "busy")
    assert await busy.fetch() == (throttle_ms, 0 if throttled else len(BATCH))
    assert bytes_out(broker, "busy") == (0 if throttled else len(BATCH))


@pytest.mark.parametrize("in_session", [False, True])
async def test_a_cached_fetch_is_delayed_too(
    broker: RunningBroker, mock_clock: MockClock, in_session: bool
) -> None:
    busy = await consumer(broker, "busy", in_session=in_session)
    for _ in range(3):
        assert (await busy.fetch())[1] == len(BATCH) or in_session
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, 300)
    assert await busy.fetch() == (5_000, 0)


@pytest.mark.parametrize(
    ("seconds", "took_ms", "throttle_ms", "kind"),
    [
        (13.0, 230, 2_770, QuotaKind.FETCH),
        (11.0, 201, 799, QuotaKind.FETCH),
        (10.5, 300, 5_000, QuotaKind.REQUEST),
        (10.25, 209, 450, QuotaKind.REQUEST),
    ],
)
async def test_of_two_broken_quotas_the_larger_alone_is_reported_and_noted(
    broker: RunningBroker,
    mock_clock: MockClock,
    seconds: float,
    took_ms: int,
    throttle_ms: int,
    kind: QuotaKind,
) -> None:
    """Two fetches are what the byte rate allows in `seconds`; ten and the handling have been seen."""
    busy = await consumer(broker, "busy")
    await busy.send()
    size = len(await busy.client.receive_frame()) + 4
    broker.server.quotas.apply(Entity(client_id="busy"), "consumer_byte_rate", 2 * size / seconds)
    assert (await busy.fetch())[1] == len(BATCH)
    sent = bytes_out(broker, "busy")
    await limit(broker, "request_percentage", 2)
    take(broker, mock_clock, took_ms)
    assert await busy.fetch() == (throttle_ms, 0)
    assert bytes_out(broker, "busy") == sent
    now_ms = broker.server.clock.ms()
    assert [row.quota_type for row in broker.server.quotas.rows(now_ms)] == [kind]
    noted = {}
    for each in (QuotaKind.FETCH, QuotaKind.REQUEST):
        sensor = broker.server.quotas.managers[each].find("ANONYMOUS", "busy")
        noted[each] = 0 if sensor is None else sensor.throttles
    assert noted == {each: int(each is kind) for each in noted}
    of_bytes = broker.server.quotas.fetch.find("ANONYMOUS", "busy")
    assert of_bytes is not None
    in_sight = of_bytes.observed(now_ms) * of_bytes.rate.window_size_ms(now_ms) / 1_000
    assert round(in_sight) == size, "recorded for the first, and taken back once for the second"


@SESSIONS
async def test_a_consumer_whose_every_fetch_breaks_the_request_quota_gets_records(
    broker: RunningBroker, mock_clock: MockClock, in_session: bool
) -> None:
    busy = await consumer(broker, "busy")
    await limit(broker, "request_percentage", 0.1)
    take(broker, mock_clock, 30)
    got = []
    for _ in range(3):
        throttle_ms, size = await busy.fetch()
        got.append((throttle_ms, size > 0))
        mock_clock.jump(11.0)
        await wait_all_tasks_blocked(0.001)
    # Withheld for the eleven seconds that the quota looks back.
    assert got == [(11_000, False), (11_000, True), (10_970, False)]


async def test_a_replica_is_not_charged(broker: RunningBroker, mock_clock: MockClock) -> None:
    await limit(broker, "request_percentage", 2, user="ANONYMOUS")
    take(broker, mock_clock, 300, "replica")
    client = await broker.connect("replica")
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)
    for topic, code in (("busy", 0), ("gone", 3)):
        message = FetchRequest(
            replica_id=2,
            min_bytes=1,
            max_bytes=1_000_000,
            session_epoch=-1,
            topics=[FetchTopic(topic, partitions=[partition])],
        )
        answer: Any = await client.ask(message, VERSION)
        assert (answer.throttle_time_ms, answer.responses[0].partitions[0].error_code) == (0, code)
    assert used(broker, QuotaKind.REQUEST) == 0
    exempt, now_ms = broker.server.quotas.request.exempt, broker.server.clock.ms()
    assert round(exempt.measure(now_ms) * exempt.window_size_ms(now_ms) / 100, 6) == 600
