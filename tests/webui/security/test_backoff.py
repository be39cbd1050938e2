"""How long an address must wait before its next try at signing in."""

import pytest

from webui.security.backoff import (
    FORGET_AFTER_MS,
    FREE_GUESSES,
    LONGEST_WAIT_MS,
    MOST_ADDRESSES,
    MOST_REMEMBERED,
    Backoff,
)

HERE = "10.0.0.7"


def guesses(count: int, address: str = HERE, at_ms: int = 0) -> Backoff:
    backoff = Backoff()
    for index in range(count):
        backoff.failed(address, f"guess {index}", at_ms)
    return backoff


@pytest.mark.parametrize(
    ("failures", "wait_ms"),
    [
        (0, 0),
        (4, 0),
        (5, 1_000),
        (6, 2_000),
        (7, 4_000),
        (10, 32_000),
        (11, 60_000),
        (12, 60_000),
        (500, 60_000),
    ],
)
def test_five_are_free_then_the_wait_doubles_to_a_minute(failures: int, wait_ms: int) -> None:
    assert guesses(failures).wait_ms(HERE, 0) == wait_ms


def test_the_wait_runs_down_with_the_clock() -> None:
    backoff = guesses(6)
    assert [backoff.wait_ms(HERE, now) for now in (0, 1, 1_999, 2_000, 2_001)] == [2_000, 1_999, 1, 0, 0]


def test_the_same_wrong_token_again_is_no_guess() -> None:
    backoff = Backoff()
    for now in range(0, 600_000, 15_000):
        backoff.failed(HERE, "a scraper's old token", now)
    assert backoff.wait_ms(HERE, 600_000) == 0


def test_more_wrong_tokens_than_are_remembered_count_again() -> None:
    backoff = Backoff()
    for round_ in range(2):
        for index in range(MOST_REMEMBERED + 1):
            backoff.failed(HERE, f"guess {index}", round_)
    assert backoff.wait_ms(HERE, 1) == LONGEST_WAIT_MS


def test_another_address_is_not_held() -> None:
    assert guesses(20).wait_ms("10.0.0.8", 0) == 0


def test_an_ipv6_network_is_one_address() -> None:
    backoff = guesses(20, "2001:db8:1:2::1")
    assert backoff.wait_ms("2001:db8:1:2:ffff::9", 0) == LONGEST_WAIT_MS
    assert backoff.wait_ms("2001:db8:1:3::1", 0) == 0


def test_success_forgets() -> None:
    backoff = guesses(20)
    backoff.succeeded(HERE)
    assert backoff.wait_ms(HERE, 0) == 0


@pytest.mark.parametrize(("silence_ms", "wait_ms"), [(FORGET_AFTER_MS - 1, 60_000), (FORGET_AFTER_MS, 0)])
def test_a_quarter_of_an_hour_of_silence_forgets(silence_ms: int, wait_ms: int) -> None:
    backoff = guesses(20)
    backoff.failed(HERE, "the next", silence_ms)
    assert backoff.wait_ms(HERE, silence_ms) == wait_ms


def test_the_table_is_bounded_and_drops_whoever_was_silent_longest() -> None:
    backoff = guesses(FREE_GUESSES, "first")
    for index in range(FREE_GUESSES):
        backoff.failed("second", f"guess {index}", 1)
    for index in range(MOST_ADDRESSES - 1):
        backoff.failed(f"other {index}", "x", 2)
    assert backoff.wait_ms("first", 2) == 0
    assert backoff.wait_ms("second", 2) > 0
