"""The queue of pushes is bounded by number and by bytes, the queue for a collector by bytes."""

import pytest

from broker.telemetry.state import (
    BATCH_BYTES,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    ExportQueue,
    Push,
    PushQueue,
)
from tests.telemetry.scene import Scene


def push(size: int) -> Push:
    instance = Scene().join()
    return Push(instance, instance.client, 0, False, 0, bytes(size), 0)


def test_the_first_push_is_taken_first_and_wakes_the_reader() -> None:
    queue = PushQueue()
    woken: list[int] = []
    queue.on_addition(lambda: woken.append(len(queue.waiting)))
    queue.add(push(1))
    queue.add(push(2))
    assert woken == [1, 2]
    assert [len(queue.take().payload) for _ in range(2)] == [1, 2]
    assert (queue.peak, queue.waiting_bytes) == (2, 0)


def test_the_number_is_bounded() -> None:
    queue, small = PushQueue(), push(1)
    for _ in range(MAX_WAITING):
        assert queue.has_space(1)
        queue.add(small)
    assert not queue.has_space(1)
    queue.take()
    assert queue.has_space(1)


def test_the_bytes_are_bounded_except_for_a_single_entry() -> None:
    queue = PushQueue()
    assert queue.has_space(2 * MAX_WAITING_BYTES)
    queue.add(push(10))
    assert queue.has_space(MAX_WAITING_BYTES - 10)
    assert not queue.has_space(MAX_WAITING_BYTES - 9)


def test_pushes_go_out_in_their_order_up_to_a_batch() -> None:
    queue = ExportQueue(10 * BATCH_BYTES)
    for letter in b"abc":
        queue.offer(bytes([letter]) * (BATCH_BYTES // 2))
    assert [batch[:1] for batch in queue.take()] == [b"a", b"b"]
    assert [batch[:1] for batch in queue.take()] == [b"c"]
    assert queue.take() == [] and queue.waiting_bytes == 0


@pytest.mark.parametrize(("size", "dropped"), [(9, 0), (10, 0), (11, 1)])
def test_pushes_without_space_are_dropped_and_counted(size: int, dropped: int) -> None:
    queue = ExportQueue(20)
    queue.offer(bytes(10))
    queue.offer(bytes(size))
    assert (queue.dropped, len(queue)) == (dropped, 2 - dropped)
