"""The queue for a collector is bounded, and retries have exact delays."""

import pytest

from broker.telemetry.forwarding import BATCH_BYTES, Forwarding, retry_ms


def test_pushes_go_out_in_their_order_up_to_a_batch() -> None:
    forwarding = Forwarding(10 * BATCH_BYTES)
    for letter in b"abc":
        forwarding.offer(bytes([letter]) * (BATCH_BYTES // 2))
    assert [batch[:1] for batch in forwarding.take()] == [b"a", b"b"]
    assert [batch[:1] for batch in forwarding.take()] == [b"c"]
    assert forwarding.take() == [] and forwarding.waiting_bytes == 0


@pytest.mark.parametrize(("size", "dropped"), [(9, 0), (10, 0), (11, 1)])
def test_what_finds_no_room_is_dropped_and_counted(size: int, dropped: int) -> None:
    forwarding = Forwarding(20)
    forwarding.offer(bytes(10))
    forwarding.offer(bytes(size))
    assert (forwarding.dropped, len(forwarding)) == (dropped, 2 - dropped)


@pytest.mark.parametrize(
    ("attempt", "retry_after", "wait_ms"),
    [
        (1, None, 1_000),
        (2, None, 2_000),
        (5, None, 16_000),
        (6, None, 30_000),
        (10_000, None, 30_000),
        (1, "7", 7_000),
        (9, "0", 0),
        (1, "31", 30_000),
        (1, "9" * 5_000, 30_000),
        (2, "Fri, 31 Dec 1999 23:59:59 GMT", 2_000),
        (2, "²", 2_000),
    ],
)
def test_waits_double_up_to_a_bound_unless_the_collector_says_when(
    attempt: int, retry_after: str | None, wait_ms: int
) -> None:
    assert retry_ms(attempt, retry_after) == wait_ms
