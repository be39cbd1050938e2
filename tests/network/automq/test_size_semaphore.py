"""The bound in bytes: just below, at and above it; first come, first served; safe cancellation."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from broker.network.automq.request_queues import SizeSemaphore


@pytest.mark.parametrize(("held", "fits"), [(69, True), (70, True), (71, False)])
def test_permits_are_granted_up_to_the_limit(held: int, fits: bool) -> None:
    sizes = SizeSemaphore(100)
    assert sizes.acquire_nowait(held)
    assert sizes.acquire_nowait(30) is fits
    assert sizes.available == 100 - held - 30 * fits


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
