"""The memory pool of KIP-72 with the numbers of Kafka's GarbageCollectedMemoryPoolTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.network.memory_pool import Lease, MemoryPool

START = 1_700_000_000_000


def test_any_request_is_granted_while_a_byte_is_free():
    pool = MemoryPool(21, 10)
    leases = [pool.try_allocate(10, START) for _ in range(3)]
    assert None not in leases
    assert (pool.available, pool.used) == (-9, 30)
    assert pool.try_allocate(10, START) is None
    first = leases[0]
    assert first is not None
    pool.release(first, START)
    assert pool.available == 1
    assert pool.try_allocate(10, START) is not None
    assert pool.try_allocate(10, START) is None


@pytest.mark.parametrize(("used", "granted"), [(19, True), (20, True), (21, False)])
def test_a_single_free_byte_is_enough(used, granted):
    pool = MemoryPool(21, 21)
    assert pool.try_allocate(used, START) is not None
    assert (pool.try_allocate(10, START) is not None) is granted


@pytest.mark.parametrize(("requested", "granted"), [(9, True), (10, True), (11, False)])
def test_a_strict_pool_grants_only_what_it_has(requested, granted):
    pool = MemoryPool(21, 11, strict=True)
    assert pool.try_allocate(11, START) is not None
    assert (pool.try_allocate(requested, START) is not None) is granted


@pytest.mark.parametrize(("size", "largest"), [(0, 1), (-1, 1), (10, 0), (10, -1), (10, 11)])
def test_a_pool_that_could_never_grant_its_largest_request_is_refused(size, largest):
    with pytest.raises(ValueError, match="invalid memory pool"):
        MemoryPool(size, largest)


def test_a_pool_may_be_as_small_as_its_largest_request():
    pool = MemoryPool(900, 900)
    assert pool.try_allocate(900, START) is not None
    assert pool.available == 0


@pytest.mark.parametrize("size", [0, -1, 11])
def test_a_size_outside_the_range_is_the_callers_mistake(size):
    with pytest.raises(ValueError, match="invalid allocation"):
        MemoryPool(21, 10).try_allocate(size, START)


def test_foreign_and_released_leases_are_refused_and_change_nothing():
    pool, other = MemoryPool(21, 10), MemoryPool(21, 10)
    lease = pool.try_allocate(10, START)
    assert lease is not None
    for wrong in (Lease(other, 10), lease):
        with pytest.raises(ValueError, match="not held"):
            other.release(wrong, START) if wrong is lease else pool.release(wrong, START)
    pool.release(lease, START)
    with pytest.raises(ValueError, match="not held"):
        pool.release(lease, START)
    assert (pool.available, other.available) == (21, 21)


def test_depletion_lasts_from_the_first_refusal_to_the_next_release():
    pool = MemoryPool(10, 10)
    lease = pool.try_allocate(10, START)
    assert lease is not None
    assert pool.try_allocate(1, START + 100) is None
    assert pool.try_allocate(1, START + 200) is None
    pool.release(lease, START + 400)
    assert pool.depleted.total == 300
    # 300 ms of the half minute that counts as seen.
    assert pool.depleted.rate.measure(START + 400) == 300 / 30_000


def test_a_pool_without_refusals_was_never_depleted():
    pool = MemoryPool(10, 10)
    lease = pool.try_allocate(10, START)
    assert lease is not None
    pool.release(lease, START + 5_000)
    assert pool.depleted.total == 0


@given(
    size=st.integers(1, 3_000),
    share=st.floats(0.01, 1),
    requested=st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60),
    strict=st.booleans(),
)
def test_outstanding_never_exceeds_the_pool_and_one_request_less_a_byte(size, share, requested, strict):
    largest = max(1, int(size * share))
    pool = MemoryPool(size, largest, strict=strict)
    leases: list[Lease] = []
    for fraction, give_back in requested:
        if give_back and leases:
            pool.release(leases.pop(), START)
        else:
            lease = pool.try_allocate(1 + int(fraction * (largest - 1)), START)
            if lease is not None:
                leases.append(lease)
        assert pool.used == sum(lease.size for lease in leases)
        assert pool.used <= (size if strict else size + largest - 1)
    for lease in leases:
        pool.release(lease, START)
    assert pool.available == size
