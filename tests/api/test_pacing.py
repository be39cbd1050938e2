"""Loops over a request's items, in pieces."""

import pytest

from broker.api.pacing import consumed


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [4, 4, 1])]
)
def test_a_list_is_consumed_in_its_order_and_empty_afterwards(count: int, sizes: list[int]) -> None:
    items = list(range(count))
    pieces = list(consumed(items, 4))
    assert [len(piece) for piece in pieces] == sizes
    assert [each for piece in pieces for each in piece] == list(range(count)) and items == []


def test_what_was_consumed_is_no_longer_held() -> None:
    items = list(range(1_000))
    pieces = consumed(items, 4)
    for left in (996, 992):
        next(pieces)
        assert len(items) == left
