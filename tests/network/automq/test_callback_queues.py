"""Callback queues per handler: capacity, assignment, and the order in which callbacks are taken."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import NoResponse, Outcome
from broker.network.automq.handler_queues import CallbackQueues
from broker.network.requests.request_channel import Request
from broker.server.compiled import COMPILED
from tests.network.automq.frames import AUTOMQ, channel_of, correlation_ids, produced, waiting_fetch
from tests.network.automq.wiring import Wiring, wired
from tests.support.hostile import until
from tests.support.produce import create_topic
from tests.support.running import running_broker


@pytest.fixture
async def wirings() -> Iterator[list[Wiring]]:  # type: ignore[misc]
    """Return a connection of each of two handlers."""
    with wired() as first, wired() as second:
        first.channel.hash, second.channel.hash = 4, 7
        yield [first, second]


class Posted:
    """Two queues of three; `concluded` has the callbacks that full queues completed early."""

    def __init__(self, wirings: list[Wiring]) -> None:
        self.queues = CallbackQueues(6, 2)
        self.queues.serve(self._conclude, lambda: None)
        self.concluded: list[RequestContext] = []
        self._wirings = wirings

    def post(self, handler: int) -> Request:
        wiring = self._wirings[handler]
        request = Request(wiring.responder, wiring.channel, wiring.route, b"", 0, 0)
        self.queues.post(request, NoResponse)
        return request

    def take(self) -> list[RequestContext]:
        return [self.queues.queue.popleft()[0] for _ in range(len(self.queues.queue))]

    def _conclude(self, context: RequestContext, _outcome_of: Callable[[], Outcome]) -> None:
        self.concluded.append(context)


async def test_a_full_queue_drops_from_itself_and_leaves_the_other_alone(wirings: list[Wiring]) -> None:
    posted = Posted(wirings)
    other = posted.post(1)
    own = [posted.post(0) for _ in range(3)]
    assert posted.concluded == []
    own.append(posted.post(0))
    assert posted.concluded == own[:1]
    assert [posted.queues.depth_of(handler) for handler in (0, 1)] == [3, 1]
    assert (len(posted.queues.queue), posted.queues.peak, posted.queues.capacity) == (4, 4, 6)
    assert set(posted.take()) == {other, *own[1:]}


async def test_answers_are_taken_from_the_queues_in_turn_and_in_order_from_each(
    wirings: list[Wiring],
) -> None:
    posted = Posted(wirings)
    first = [posted.post(0) for _ in range(3)]
    second = [posted.post(1) for _ in range(2)]
    assert posted.take() == [first[0], second[0], first[1], second[1], first[2]]
    assert len(posted.queues.queue) == 0
    with pytest.raises(IndexError):
        posted.queues.queue.popleft()
    assert posted.take() == []


@pytest.mark.parametrize(
    ("capacity", "handlers", "each"), [(500, 8, 62), (8, 8, 1), (7, 8, 1), (16, 8, 2), (500, 1, 500)]
)
def test_each_queue_has_its_share_and_one_at_least(capacity: int, handlers: int, each: int) -> None:
    queues = CallbackQueues(capacity, handlers)
    assert (queues.each, queues.capacity) == (each, each * handlers)


async def test_fetches_that_end_together_are_answered_of_every_handler_in_turn(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path, AUTOMQ, "num.io.threads=2") as broker:
        maker = await broker.connect("maker")
        await maker.ask(create_topic(), 5)
        clients = [await broker.connect() for _ in range(40)]
        await wait_all_tasks_blocked(0.02)
        by_handler = [[each for each in clients if channel_of(broker, each).hash % 2 == n] for n in (0, 1)]
        # Those of the first handler begin to wait first, so one common queue would answer all of them first.
        for client in (*by_handler[0], *by_handler[1]):
            await client.stream.send_all(waiting_fetch(1))
            await wait_all_tasks_blocked()
        await until(lambda: broker.server.fetches.delayed == len(clients))
        answered: list[int] = []
        pool = broker.server.socket_server.handlers
        if COMPILED:
            pytest.skip("a method of a compiled class cannot be replaced")
        conclude = pool._conclude

        def note(request: Request, outcome: Outcome) -> None:
            if request.route.metrics.name.startswith("Fetch"):
                answered.append(request.channel.hash % 2)  # type: ignore[attr-defined]
            conclude(request, outcome)

        pool._conclude = note  # type: ignore[method-assign]
        await maker.stream.send_all(produced(2))
        assert [await correlation_ids(client, 1) for client in clients] == [[1]] * len(clients)
        least = min(map(len, by_handler))
        assert least >= 5
        pairs = list(zip(answered[: 2 * least : 2], answered[1 : 2 * least : 2], strict=True))
        assert all(one != other for one, other in pairs), answered
