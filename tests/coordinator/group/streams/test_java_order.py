"""The orders of Java's collections. The expected ones were made with a JDK 17."""

import pytest

from broker.common.slices import run_through
from broker.coordinator.group.streams.java_order import (
    LoadQueue,
    computed_order,
    hash_map_order,
    sorted_as_java,
)
from tests.coordinator.group.streams.random_cases import COLLIDING

DIGITS = "123456789:;"
"""Keys of one bin each. "0" and "@" are in the first of 16 bins; of 32, "0" is in the seventeenth."""


def test_a_map_is_in_the_order_of_its_bins():
    assert run_through(hash_map_order(["c", "a", "b", "a"])) == ["a", "b", "c"]
    assert run_through(hash_map_order([])) == []


def test_keys_of_one_bin_keep_their_order():
    assert run_through(hash_map_order(["BB", "Aa", "C#"])) == ["BB", "Aa", "C#"]
    assert run_through(hash_map_order(["C#", "Aa", "BB"])) == ["C#", "Aa", "BB"]


def test_computed_keys_of_one_bin_are_in_reverse():
    assert run_through(computed_order(["BB", "Aa", "C#"], 16)) == ["C#", "Aa", "BB"]


def test_a_map_grows_with_the_thirteenth_key():
    assert run_through(hash_map_order(["0", "@", *DIGITS[:10]]))[:2] == ["0", "@"]
    assert run_through(hash_map_order(["0", "@", *DIGITS[:11]]))[:2] == ["@", "0"]


def test_a_map_of_computed_keys_grows_at_the_next_call():
    keys = ["@", "0", *DIGITS[:11]]
    assert run_through(computed_order(keys, 16))[:2] == ["0", "@"]
    assert run_through(computed_order([*keys, "@"], 16))[:2] == ["@", "0"]


def test_a_map_is_created_for_a_capacity():
    assert run_through(hash_map_order(["0", "@"], 16)) == ["0", "@"]
    assert run_through(hash_map_order(["0", "@"], 17)) == ["@", "0"]
    assert run_through(hash_map_order(["1", "0"], 0)) == ["0", "1"]


@pytest.mark.parametrize(("count", "first"), [(8, "0"), (9, "@")], ids=["eight", "nine"])
def test_a_map_grows_for_nine_keys_in_a_bin(count, first):
    assert run_through(hash_map_order([*COLLIDING[:count], "0", "@"]))[0] == first


@pytest.mark.parametrize(("count", "first"), [(7, "0"), (8, "@")], ids=["seven", "eight"])
def test_a_map_of_computed_keys_grows_for_eight_in_a_bin(count, first):
    assert run_through(computed_order([*COLLIDING[:count], "@", "0"], 16))[0] == first


def test_texts_are_sorted_by_their_utf_16_units():
    assert run_through(sorted_as_java(["\uff21", "\U0001f600", "b", "a", "10", "2"])) == [
        *("10", "2", "a", "b"),
        *("\U0001f600", "\uff21"),
    ]


class Element:
    def __init__(self, name, load):
        self.name, self.load = name, load


def queue_of(*loads):
    queue = LoadQueue()
    for name, load in zip("abcdefgh", loads, strict=False):
        queue.add(Element(name, load))
    return queue


def polled(queue):
    return "".join(queue.poll().name for _ in range(len(queue)))


def test_a_queue_gives_the_least_first():
    assert polled(queue_of(3, 1, 2)) == "bca"
    assert polled(queue_of(5)) == "a"


def test_equal_elements_come_in_the_order_of_the_heap():
    # Not that of their addition: the last one replaces the first one that is polled.
    assert polled(queue_of(0, 0, 0, 0)) == "adcb"
    assert polled(queue_of(2, 1, 1, 2, 1, 0, 0, 2)) == "fgbecdah"
