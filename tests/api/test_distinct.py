"""Repeated names of a request, in tables of bounded size."""

import weakref

from broker.api.distinct import TABLES, Distinct


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


def test_what_is_released_is_forgotten() -> None:
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
