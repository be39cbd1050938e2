"""Callbacks of delayed requests: bounded in number, one batch per turn, and before new requests."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.callbacks import LATER, TOGETHER, Callbacks
from broker.api.requests.context import RequestContext
from broker.api.requests.delayed_operations import AT_ONCE
from broker.api.requests.outcome import NO_RESPONSE, Delayed, Outcome
from broker.network.handling.handler_pool import BATCH
from broker.network.requests.request_channel import Request
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.metadata import MetadataRequest
from broker.server.compiled import COMPILED
from tests.support.hostile import until
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, leave, running_broker
from tests.support.wire import WireClient

MANY = 2 * AT_ONCE + 10


class Pool:
    """A stand-in for the handler pool behind a callback queue."""

    def __init__(self) -> None:
        self.concluded: list[RequestContext] = []
        self.rested = 0

    def conclude(self, context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
        self.concluded.append(context)

    def rest(self) -> None:
        self.rested += 1


@pytest.mark.parametrize(("posted", "early"), [(2, 0), (3, 0), (4, 1)])
def test_the_queue_never_holds_more_than_its_capacity(posted: int, early: int) -> None:
    callbacks, pool = Callbacks(3), Pool()
    callbacks.serve(pool.conclude, pool.rest)
    contexts = [RequestContext() for _ in range(posted)]
    for context in contexts:
        callbacks.post(context, lambda: NO_RESPONSE)
    assert pool.concluded == contexts[:early], "the oldest, and no more than must be"
    assert [context for context, _ in callbacks.queue] == contexts[early:]
    assert callbacks.peak == min(posted, 3)


@pytest.mark.parametrize(("together", "later"), [(TOGETHER - 1, 0), (TOGETHER, 0), (TOGETHER + 1, 1)])
def test_callbacks_that_are_posted_together_wait_for_later_turns(together: int, later: int) -> None:
    callbacks, pool = Callbacks(500), Pool()
    callbacks.serve(pool.conclude, pool.rest)
    contexts = [RequestContext() for _ in range(together)]
    callbacks.post_together([(context, lambda: NO_RESPONSE) for context in contexts])
    assert (len(callbacks.queue), pool.rested) == ((0, 1) if later else (together, 0))
    callbacks.queue_later(together)
    assert [context for context, _ in callbacks.queue] == contexts
    assert pool.rested == later


def test_each_turn_queues_a_few_as_far_as_there_is_space() -> None:
    callbacks, pool = Callbacks(50), Pool()
    callbacks.serve(pool.conclude, pool.rest)
    contexts = [RequestContext() for _ in range(100)]
    callbacks.post_together([(context, lambda: NO_RESPONSE) for context in contexts])
    callbacks.queue_later(40)
    assert (len(callbacks.queue), pool.rested) == (40, 2)
    callbacks.queue_later(40)
    assert (len(callbacks.queue), pool.rested) == (50, 3)
    callbacks.queue_later(40)
    assert (len(callbacks.queue), pool.rested, pool.concluded) == (50, 4, [])
    taken = [callbacks.queue.popleft()[0] for _ in range(50)]
    callbacks.queue_later(50)
    taken += [callbacks.queue.popleft()[0] for _ in range(50)]
    assert (taken, pool.rested) == (contexts, 4)


@pytest.mark.parametrize("more", [-1, 0, 1, TOGETHER + 1])
def test_so_many_wait_for_later_turns_and_the_oldest_is_concluded_for_each_beyond(more: int) -> None:
    callbacks, pool = Callbacks(3), Pool()
    callbacks.serve(pool.conclude, pool.rest)
    assert callbacks.later_capacity == LATER * 3
    contexts = [RequestContext() for _ in range(LATER * 3 + more)]
    first = TOGETHER + 1
    for some in (contexts[:first], contexts[first:]):
        callbacks.post_together([(context, lambda: NO_RESPONSE) for context in some])
    early = max(more, 0)
    assert pool.concluded == contexts[:early]
    assert (callbacks.later, callbacks.blocked) == (len(contexts) - early, early)
    taken = []
    while callbacks.later:
        callbacks.queue_later(3)
        taken += [callbacks.queue.popleft()[0] for _ in range(len(callbacks.queue))]
    assert taken == contexts[early:], "each once, in order"


async def test_the_members_of_a_large_group_are_answered_a_turn_at_a_time(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, "queued.max.requests=500") as broker:
        clients = [await broker.connect() for _ in range(MANY)]
        await clients[0].ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        turns = Turns(broker.server.socket_server.handlers)
        for number, client in enumerate(clients):
            protocols = [JoinGroupRequestProtocol("range", b"")]
            await client.send(
                JoinGroupRequest("g", 60_000, 60_000, "", f"i{number}", "consumer", protocols), 7
            )
        await until(lambda: broker.server.callbacks.peak or _joined(broker) == MANY, 5)
        mock_clock.jump(3)
        await wait_all_tasks_blocked()
        mock_clock.jump(60)
        for client in clients:
            _, answer = await client.receive(ApiKey.JOIN_GROUP, 7)
            assert (answer.error_code, answer.generation_id) == (0, 1)
    assert sum(turns.sizes) == MANY and max(turns.sizes) == BATCH


def _joined(broker: RunningBroker) -> int:
    coordinator = broker.server.delayed.groups.groups.coordinator
    group = coordinator.classic.described("g", missing_is_error=False)
    return len(group.members)


@pytest.fixture
async def broker(tmp_path: Path, mock_clock: MockClock) -> AsyncIterator[RunningBroker]:
    async with running_broker(tmp_path, "queued.max.requests=500") as running:
        maker = await running.connect("maker")
        assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
        yield running


async def waiting_fetches(broker: RunningBroker, count: int) -> list[WireClient]:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000)
    fetch = FetchRequest(max_wait_ms=30_000, min_bytes=1, max_bytes=1_000)
    fetch.topics = [FetchTopic("events", partitions=[partition])]
    clients = [await broker.connect() for _ in range(count)]
    for client in clients:
        await client.send(fetch, 11)
    await until(lambda: broker.server.fetches.delayed == count, 5)
    return clients


class Turns:
    """How many callbacks each turn of the pool concluded, and what each answer waited for before it."""

    def __init__(self, pool: object) -> None:
        self.sizes: list[int] = []
        self._now = 0
        if COMPILED:
            pytest.skip("a method of a compiled class cannot be replaced")
        deliver, call_back = pool._deliver, pool._call_back  # type: ignore[attr-defined]

        def counted(context: RequestContext, outcome_of: Callable[[], Outcome]) -> None:
            self._now += 1
            call_back(context, outcome_of)

        def turn() -> None:
            self._now = 0
            deliver()
            self.sizes.append(self._now)

        pool._call_back, pool._deliver = counted, turn  # type: ignore[attr-defined]


async def test_fetches_that_expire_together_are_answered_a_turn_at_a_time(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = await waiting_fetches(broker, MANY)
    turns = Turns(broker.server.socket_server.handlers)
    mock_clock.jump(30)
    for client in clients:
        _, answer = await client.receive(1, 11)
        assert answer.error_code == 0
    assert sum(turns.sizes) == MANY and max(turns.sizes) == AT_ONCE


async def test_fetches_that_one_append_makes_ready_are_answered_a_turn_at_a_time(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = await waiting_fetches(broker, MANY)
    turns = Turns(broker.server.socket_server.handlers)
    producer = await broker.connect()
    answer = await producer.ask(produce_request(batch_of(b"news")), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0
    for client in clients:
        _, answer = await client.receive(1, 11)
        assert len(answer.responses[0].partitions[0].records) > 0
    assert sum(turns.sizes) == MANY and max(turns.sizes) == AT_ONCE
    assert broker.server.fetches.delayed == 0


async def test_whoever_asks_meanwhile_is_answered_between_two_turns(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    clients = await waiting_fetches(broker, 5 * AT_ONCE)
    polite = await broker.connect("polite")
    order: list[str] = []
    pool = broker.server.socket_server.handlers
    if COMPILED:
        pytest.skip("a method of a compiled class cannot be replaced")
    conclude = pool._conclude

    def note(request: Request, outcome: Outcome) -> None:
        order.append(request.route.metrics.name)
        conclude(request, outcome)

    pool._conclude = note  # type: ignore[method-assign]
    mock_clock.jump(30)
    await polite.send(MetadataRequest([]), 9)
    await polite.receive(3, 9)
    for client in clients:
        await client.receive(1, 11)
    assert order.index("Metadata") <= 3 * AT_ONCE


async def test_more_answers_than_the_queue_holds_all_arrive(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path, "queued.max.requests=10") as broker:
        maker = await broker.connect("maker")
        await maker.ask(create_topic(), 5)
        clients = await waiting_fetches(broker, 50)
        mock_clock.jump(30)
        for client in clients:
            await client.receive(1, 11)
        assert broker.server.callbacks.peak == 10


async def test_the_time_of_a_callback_is_local_time_and_the_wait_before_it_is_not(
    broker: RunningBroker, mock_clock: MockClock
) -> None:
    """KafkaRequestHandlerTest, with a handler of 2 ms and a callback of 1 ms."""
    pool = broker.server.socket_server.handlers
    if COMPILED:
        pytest.skip("a method of a compiled class cannot be replaced")
    conclude = pool._conclude
    seen: list[Request] = []

    def slowly(request: Request, outcome: Outcome) -> None:
        if request.route.metrics.name.startswith("Fetch"):
            mock_clock.jump(0.002 if isinstance(outcome, Delayed) else 0.001)
            seen.append(request)
        conclude(request, outcome)

    pool._conclude = slowly  # type: ignore[method-assign]
    (client,) = await waiting_fetches(broker, 1)
    mock_clock.jump(29.998)
    await client.receive(1, 11)
    delayed, called_back = seen
    assert delayed is called_back
    assert (delayed.local_complete - delayed.dequeued) == pytest.approx(3_000_000, abs=10)
    assert (delayed.completed - delayed.local_complete) == pytest.approx(29_998_000_000, abs=10)


async def test_a_stop_answers_all_that_wait(broker: RunningBroker, mock_clock: MockClock) -> None:
    clients = await waiting_fetches(broker, MANY)
    broker.stop.set()
    for client in clients:
        _, answer = await client.receive(1, 11)
        assert not answer.error_code
    await leave(broker.server.socket_server, broker.port)
    with trio.fail_after(1):
        await broker.started.stopped.wait()
    await wait_all_tasks_blocked()
