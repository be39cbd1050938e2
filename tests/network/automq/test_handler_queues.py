"""Request queues per handler: capacity, assignment, and the permits of a waiting request; the bound in bytes:
just below, at and above it; first come, first served; safe cancellation.
"""

from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.network.automq.handler_queues import RequestQueues, SizeSemaphore
from broker.network.connection.channel import NewConnection
from broker.network.requests.request_channel import Request
from tests.network.automq.wiring import Wiring, wired


@pytest.mark.parametrize(("granted", "fits"), [(69, True), (70, True), (71, False)])
def test_permits_are_granted_up_to_the_limit(granted: int, fits: bool) -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(granted)
    assert sizes.acquire_nowait(30) is fits
    assert sizes.available == 100 - granted - 30 * fits


@pytest.mark.parametrize(("size", "left"), [(99, 1), (100, 0), (101, 0), (10_000, 0)])
def test_an_oversized_request_takes_all_permits_and_gives_all_back(size: int, left: int) -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(size)
    assert sizes.available == left
    sizes.release(size)
    assert sizes.available == 100


async def test_an_oversized_request_waits_until_it_is_alone() -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sizes.acquire, 500)
        await wait_all_tasks_blocked()
        assert sizes.waiting == 1
        sizes.release(1)
    assert (sizes.available, sizes.waiting) == (0, 0)


async def test_no_small_one_goes_past_a_large_one_that_waits() -> None:
    sizes = SizeSemaphore(100)
    served: list[int] = []

    async def wait_for(size: int) -> None:
        await sizes.acquire(size)
        served.append(size)

    assert sizes.acquire_nowait(60)
    async with trio.open_nursery() as nursery:
        for size in (90, 1, 2):
            nursery.start_soon(wait_for, size)
            await wait_all_tasks_blocked()
        assert served == [] and not sizes.acquire_nowait(1)
        sizes.release(60)
        await wait_all_tasks_blocked()
        assert sorted(served) == [1, 2, 90] and sizes.available == 7


async def test_one_that_gives_up_leaves_its_turn_to_the_next() -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(60)
    async with trio.open_nursery() as nursery:
        impatient = trio.CancelScope()

        async def give_up() -> None:
            with impatient:
                await sizes.acquire(90)

        nursery.start_soon(give_up)
        await wait_all_tasks_blocked()
        nursery.start_soon(sizes.acquire, 40)
        await wait_all_tasks_blocked()
        assert sizes.waiting == 2
        impatient.cancel()
    assert (sizes.available, sizes.waiting) == (0, 0)


async def test_one_that_was_cancelled_as_it_was_granted_keeps_nothing() -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(60)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sizes.acquire, 90)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        sizes.release(60)
    assert (sizes.available, sizes.waiting) == (100, 0)


@pytest.fixture
async def wiring() -> Iterator[Wiring]:  # type: ignore[misc]
    with wired() as made:
        yield made


def request_of(wiring: Wiring, size: int, handler: int = 0) -> Request:
    """Return a request whose connection belongs to `handler`, one of fewer than a thousand."""
    wiring.channel.hash = handler
    return Request(wiring.responder, wiring.channel, wiring.route, bytes(size), 0, 0)


@pytest.mark.parametrize(
    ("capacity", "handlers", "each"),
    [(500, 8, 62), (8, 8, 1), (7, 8, 1), (9, 8, 1), (16, 8, 2), (500, 1, 500)],
)
async def test_each_queue_has_its_share_and_one_at_least(
    wiring: Wiring, capacity: int, handlers: int, each: int
) -> None:
    queues = RequestQueues(capacity, handlers, 1_000_000)
    for _ in range(each):
        queues.put_nowait(request_of(wiring, 10))
    with pytest.raises(trio.WouldBlock):
        queues.put_nowait(request_of(wiring, 10))
    assert queues.depth() == queues.peak == each
    assert queues.capacity == each * handlers
    assert queues.sizes.available == 1_000_000 - 10 * each  # the refused one holds nothing


async def test_a_connection_has_one_handler_and_its_requests_keep_their_order(wiring: Wiring) -> None:
    queues = RequestQueues(100, 4, 1_000)
    put = [request_of(wiring, 10, handler=6) for _ in range(5)]
    for request in put:
        queues.put_nowait(request)
    assert queues.depths() == [0, 0, 5, 0]
    taken = [queues.queue_of(2).receive_nowait() for _ in range(5)]
    assert taken == put
    with pytest.raises(trio.WouldBlock):
        queues.queue_of(2).receive_nowait()


async def test_the_hash_is_of_the_connection_id_and_spreads_connections(wiring: Wiring) -> None:
    kind = type(wiring.channel)
    found = [0] * 8
    for port in range(40_000, 40_400):
        made = kind(
            wiring.far,
            wiring.responder,
            wiring.channel.receive,
            NewConnection(
                f"127.0.0.1:9092-127.0.0.1:{port}-0-{port - 40_000}",
                "PLAINTEXT",
                ("127.0.0.1", port),
                authenticated=True,
                now_ms=0,
                wall_ms=0,
            ),
        )
        found[made.hash % 8] += 1
    assert min(found) > 25 and max(found) < 75
    assert wiring.channel.hash == 3_240_779_302  # the same in every run


@pytest.mark.parametrize(("waiting", "fits"), [(899, True), (900, True), (901, False)])
async def test_bytes_that_wait_are_bounded_over_all_queues(wiring: Wiring, waiting: int, fits: bool) -> None:
    queues = RequestQueues(100, 2, 1_000)
    queues.put_nowait(request_of(wiring, waiting, handler=0))
    if fits:
        queues.put_nowait(request_of(wiring, 100, handler=1))
    else:
        with pytest.raises(trio.WouldBlock):
            queues.put_nowait(request_of(wiring, 100, handler=1))


async def test_bytes_are_given_back_as_a_request_is_taken(wiring: Wiring) -> None:
    queues = RequestQueues(100, 2, 1_000)
    queues.put_nowait(request_of(wiring, 600))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queues.put, request_of(wiring, 600))
        await wait_all_tasks_blocked()
        assert queues.depth() == 1 and queues.sizes.available == 400
        queues.queue_of(0).receive_nowait()
    assert queues.depth() == 1 and queues.sizes.available == 400
    await queues.queue_of(0).receive()
    assert queues.sizes.available == 1_000


async def test_a_request_larger_than_the_bound_goes_alone_and_gives_back_what_it_took(wiring: Wiring) -> None:
    queues = RequestQueues(100, 1, 1_000)
    queues.put_nowait(request_of(wiring, 5_000))
    assert queues.sizes.available == 0
    with pytest.raises(trio.WouldBlock):
        queues.put_nowait(request_of(wiring, 1))
    queues.queue_of(0).receive_nowait()
    assert queues.sizes.available == 1_000


@pytest.mark.parametrize("capacity", [1, 100])
async def test_a_processor_that_is_cancelled_while_it_waits_holds_nothing(
    wiring: Wiring, capacity: int
) -> None:
    """For its place in a queue of one, and for bytes."""
    queues = RequestQueues(capacity, 1, 1_000)
    queues.put_nowait(request_of(wiring, 700))
    with trio.move_on_after(0):
        await queues.put(request_of(wiring, 200 if capacity == 1 else 700))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queues.put, request_of(wiring, 200 if capacity == 1 else 700))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert queues.sizes.available == 300


async def test_a_closed_channel_is_served_to_its_end(wiring: Wiring) -> None:
    queues = RequestQueues(10, 2, 1_000)
    queues.put_nowait(request_of(wiring, 10, handler=1))
    await queues.aclose()
    await queues.queue_of(1).receive()
    for handler in (0, 1):
        with pytest.raises(trio.EndOfChannel):
            await queues.queue_of(handler).receive()
