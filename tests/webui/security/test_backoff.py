"""The time that an address must wait before its next guess."""

import pytest

from webui.security.backoff import (
    FORGET_AFTER_MS,
    FREE_GUESSES,
    LONGEST_WAIT_MS,
    MAX_ADDRESSES,
    MAX_REMEMBERED,
    GuessBackoff,
    network_of,
)

HERE = "10.0.0.7"


def fail(backoff: GuessBackoff, address: str, secret: str | None, at_ms: int) -> None:
    backoff.begin(address, at_ms).wrong(secret, at_ms)


def guesses(count: int, address: str = HERE, at_ms: int = 0) -> GuessBackoff:
    backoff = GuessBackoff()
    for index in range(count):
        fail(backoff, address, f"guess {index}", at_ms)
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
    backoff = GuessBackoff()
    for now in range(0, 600_000, 15_000):
        fail(backoff, HERE, "a scraper's old token", now)
    assert backoff.wait_ms(HERE, 600_000) == 0


def test_more_wrong_tokens_than_are_remembered_count_again() -> None:
    backoff = GuessBackoff()
    for round_ in range(2):
        for index in range(MAX_REMEMBERED + 1):
            fail(backoff, HERE, f"guess {index}", round_)
    assert backoff.wait_ms(HERE, 1) == LONGEST_WAIT_MS


def test_another_address_is_not_delayed() -> None:
    assert guesses(20).wait_ms("10.0.0.8", 0) == 0


def test_an_ipv6_network_is_one_address() -> None:
    backoff = guesses(20, "2001:db8:1:2::1")
    assert backoff.wait_ms("2001:db8:1:2:ffff::9", 0) == LONGEST_WAIT_MS
    assert backoff.wait_ms("2001:db8:1:3::1", 0) == 0


@pytest.mark.parametrize(("wrong", "wait_ms"), [(4, 0), (5, 1_000), (20, 60_000)])
def test_a_success_removes_its_own_guess_and_no_other_one(wrong: int, wait_ms: int) -> None:
    backoff = guesses(wrong)
    backoff.begin(HERE, 0).right("mine")
    assert backoff.wait_ms(HERE, 0) == wait_ms


def test_forty_guesses_between_successes_are_forty_guesses() -> None:
    backoff, refused = GuessBackoff(), 0
    for index in range(40):
        backoff.begin(HERE, 0).right("mine")
        if backoff.wait_ms(HERE, 0, f"guess {index}"):
            refused += 1
        else:
            fail(backoff, HERE, f"guess {index}", 0)
    assert refused == 40 - FREE_GUESSES


def test_the_same_right_secret_again_is_no_guess() -> None:
    backoff = GuessBackoff()
    backoff.begin(HERE, 0).right("mine")
    for index in range(20):
        fail(backoff, HERE, f"guess {index}", 0)
    assert backoff.wait_ms(HERE, 0, "mine") == 0
    assert backoff.wait_ms(HERE, 0, "another") == backoff.wait_ms(HERE, 0) == LONGEST_WAIT_MS


def test_a_secret_that_is_not_right_any_more_is_a_guess() -> None:
    backoff = GuessBackoff()
    backoff.begin(HERE, 0).right("revoked")
    for index in range(FREE_GUESSES - 1):
        fail(backoff, HERE, f"guess {index}", 0)
    fail(backoff, HERE, "revoked", 0)
    assert backoff.wait_ms(HERE, 0, "revoked") == 1_000


@pytest.mark.parametrize(("unfinished", "wait_ms"), [(4, 0), (5, 1_000), (6, 2_000)])
def test_a_guess_that_is_not_decided_counts(unfinished: int, wait_ms: int) -> None:
    backoff = GuessBackoff()
    begun = [backoff.begin(HERE, 7) for _ in range(unfinished)]
    assert backoff.wait_ms(HERE, 7) == wait_ms
    for guess in begun:
        guess.withdraw()
    assert backoff.wait_ms(HERE, 7) == 0


def test_a_guess_is_decided_once() -> None:
    backoff = GuessBackoff()
    with backoff.begin(HERE, 0) as guess:
        guess.wrong("x", 0)
        guess.right("x")
        guess.wrong("y", 0)
    for index in range(FREE_GUESSES - 2):
        fail(backoff, HERE, f"guess {index}", 0)
    assert backoff.wait_ms(HERE, 0) == 0
    fail(backoff, HERE, "the fifth", 0)
    assert backoff.wait_ms(HERE, 0, "x") == 1_000


def test_a_success_does_not_make_others_wait_longer() -> None:
    backoff = guesses(6)
    with backoff.begin(HERE, 2_000) as guess:
        assert backoff.wait_ms(HERE, 2_000) == 4_000
        guess.right("mine")
    assert backoff.wait_ms(HERE, 2_000) == 0


@pytest.mark.parametrize(("silence_ms", "wait_ms"), [(FORGET_AFTER_MS - 1, 60_000), (FORGET_AFTER_MS, 0)])
def test_a_quarter_of_an_hour_of_silence_forgets(silence_ms: int, wait_ms: int) -> None:
    backoff = guesses(20)
    fail(backoff, HERE, "the next", silence_ms)
    assert backoff.wait_ms(HERE, silence_ms) == wait_ms


def test_an_ipv4_address_in_ipv6_is_itself() -> None:
    assert network_of("::ffff:10.0.0.7") == HERE and network_of("no address: x") == "no address: x"


def test_the_table_is_bounded_and_drops_whoever_was_silent_longest() -> None:
    backoff = guesses(FREE_GUESSES, "first")
    for index in range(FREE_GUESSES):
        fail(backoff, "second", f"guess {index}", 1)
    for index in range(MAX_ADDRESSES - 1):
        fail(backoff, f"other {index}", "x", 2)
    assert backoff.wait_ms("first", 2) == 0
    assert backoff.wait_ms("second", 2) > 0
