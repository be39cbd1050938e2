"""Loops over a request's items in pieces, and its repeated names in tables of bounded size."""

import weakref

import pytest

from broker.api.requests.pacing import TABLES, Distinct, consumed


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, [0]), (1, [1]), (3, [3]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [4, 4, 1])]
)
def test_a_list_is_consumed_in_its_order_and_empty_afterwards(count: int, sizes: list[int]) -> None:
    items = list(range(count))
    pieces = list(consumed(items, 4))
    assert [len(piece) for piece in pieces] == sizes
    assert [each for piece in pieces for each in piece] == list(range(count)) and items == []


def test_consumed_items_are_no_longer_held() -> None:
    items = list(range(1_000))
    pieces = consumed(items, 4)
    for left in (996, 992):
        next(pieces)
        assert len(items) == left


class Name:
    def __init__(self, at: int) -> None:
        self.at = at

    def __hash__(self) -> int:
        return self.at

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and other.at == self.at


def test_an_item_is_new_once() -> None:
    seen: Distinct[str] = Distinct()
    assert [seen.add(name) for name in ("a", "b", "a", "b", "c")] == [True, True, False, False, True]


def test_released_items_are_forgotten() -> None:
    seen: Distinct[str] = Distinct()
    assert seen.add("a")
    assert list(seen.release()) == [] and list(seen.release()) == []
    assert seen.add("a")


def test_a_slice_frees_one_table() -> None:
    count = 3 * TABLES
    alive = [count]
    seen: Distinct[Name] = Distinct()

    def gone() -> None:
        alive[0] -= 1

    for at in range(count):
        name = Name(at)
        weakref.finalize(name, gone).atexit = False
        assert seen.add(name)
    del name
    freed, before = [], count
    for _ in seen.release():
        freed.append(before - alive[0])
        before = alive[0]
    assert freed == [3] * (TABLES - 1) and alive == [0]
