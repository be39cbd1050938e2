"""Patterns of names: as fnmatch reads them, with bounds on the work for one name."""

import random
import time
from fnmatch import fnmatchcase
from itertools import takewhile

import pytest

from broker.common.patterns import MAX_GLOB_WORK, SHORTEST, glob

LONGEST_NAME = 32_767


def compiles(text: str) -> bool:
    try:
        glob(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_a_pattern_matches_what_fnmatch_matches(seed: int) -> None:
    source = random.Random(seed)
    matches = 0
    for _ in range(500):
        pattern = "".join(source.choices("ab*?[]!-^\\.é\n", k=source.randrange(9)))
        compiled = glob(pattern)
        for _ in range(6):
            name = "".join(source.choices("ab[]!-^\\.é\n", k=source.randrange(5)))
            expected = fnmatchcase(name, pattern)
            matches += expected
            assert bool(compiled.fullmatch(name)) is expected, (pattern, name)
    assert matches > 50


@pytest.mark.parametrize(
    "pattern", ["a*", "*a", "*a*", "a" * 256, "é" * 256, "日" * 256, "*a" * 128, "[a-z]" * 51]
)
def test_a_pattern_can_match_every_name_of_a_topic(pattern: str) -> None:
    assert glob(pattern).longest >= SHORTEST


def test_a_pattern_with_too_many_wildcards_is_refused() -> None:
    accepted = [*takewhile(lambda number: compiles("?" * number), range(1, 257))]
    assert 100 < len(accepted) < 256
    assert glob("?" * len(accepted)).longest >= SHORTEST
    with pytest.raises(ValueError, match="too many wildcards"):
        glob("?" * (len(accepted) + 1))


def test_a_name_is_matched_up_to_the_bound_of_its_pattern() -> None:
    pattern = glob("*" + "?a" * 40)
    assert pattern.longest < LONGEST_NAME
    assert pattern.fullmatch("a" * (pattern.longest - 1))
    assert pattern.fullmatch("a" * pattern.longest)
    assert not pattern.fullmatch("a" * (pattern.longest + 1))
    assert glob("orders*").fullmatch("orders" + "x" * 10_000)


@pytest.mark.timed
def test_the_worst_names_take_no_longer_than_their_bound_says() -> None:
    """Ten times its 7 ns: the machine may do something else. Python's engine needed 64 ms for the first."""
    for text in ("*" + "?" * 140 + "b", "*" + "?a" * 100, "*a" * 127 + "b"):
        pattern = glob(text)
        for name in ("a" * pattern.longest, "ab" * (pattern.longest // 2), "a" * LONGEST_NAME):
            began = time.process_time()
            for _ in range(10):
                pattern.fullmatch(name)
            assert time.process_time() - began < 10 * MAX_GLOB_WORK * 70e-9
