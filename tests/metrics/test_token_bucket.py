"""TokenBucket against the numbers of Kafka's TokenBucketTest and of the example in its documentation."""

import pytest

from broker.metrics.rate import TokenBucket, Window

START = 1_700_000_000_000


def bucket(bound: float, samples: int, window_s: int = 1) -> TokenBucket:
    return TokenBucket.full(Window(samples, window_s * 1_000), bound, START)


def test_refills_then_spends():
    tokens = bucket(5, samples=10, window_s=2)
    assert tokens.measure(START) == 100
    tokens.record(60, START)
    assert tokens.measure(START) == 40
    tokens.record(5, START + 2_000)
    assert tokens.measure(START + 2_000) == 45
    tokens.record(60, START + 4_000)
    assert tokens.measure(START + 4_000) == -5
    assert tokens.throttle_ms(START + 4_000) == 1_000


def test_returned_tokens_never_exceed_the_burst():
    tokens = bucket(5, samples=10, window_s=2)
    tokens.record(-60, START)
    assert tokens.measure(START) == 100
    tokens.record(60, START + 2_000)
    assert tokens.measure(START + 2_000) == 40
    tokens.record(-60, START + 4_000)
    assert tokens.measure(START + 4_000) == 100


def test_a_burst_of_560_against_five_per_second_clears_in_twelve_seconds():
    tokens = bucket(5, samples=100)
    tokens.record(560, START)
    assert tokens.measure(START) == -60
    assert tokens.throttle_ms(START) == 12_000
    assert tokens.throttle_ms(START + 11_999) == 1
    assert tokens.throttle_ms(START + 12_000) == 0


def test_a_full_bucket_is_full_on_any_clock_and_kafkas_only_on_one_that_shows_years():
    window = Window(10, 1_000)
    assert TokenBucket.full(window, 10, now_ms=0).measure(0) == 100
    assert TokenBucket(window, 10).measure(0) == 0
    assert TokenBucket(window, 10).measure(START) == 100


@pytest.mark.parametrize(("tokens", "wait_ms"), [(0.0, 0), (-0.004, 0), (-0.005, 1), (-5, 500), (-10, 1_000)])
def test_the_wait_is_the_time_that_the_tokens_need_to_come_back(tokens, wait_ms):
    assert TokenBucket(Window(10, 1_000), 10, tokens, START).throttle_ms(START) == wait_ms


def test_another_bound_keeps_the_tokens_and_cuts_them_to_the_new_burst():
    tokens = bucket(10, samples=10)
    tokens.record(150, START)
    tokens.bound = 100
    assert tokens.measure(START) == -50
    assert tokens.throttle_ms(START) == 500
    tokens.bound = 10
    assert tokens.measure(START + 60_000) == 100
    tokens.bound = 2
    assert tokens.measure(START + 60_000) == 20


def test_a_look_says_what_measuring_would_and_leaves_no_trace():
    seen, unseen = (TokenBucket.full(Window(10, 1_000), 0.3, START) for _ in range(2))
    for now_ms in range(START, START + 30_000, 700):
        for later_ms in (1, 33, 350):
            seen.peek(now_ms + later_ms)
        looked = seen.peek(now_ms)
        assert looked == unseen.measure(now_ms) == seen.measure(now_ms)
        for bucket in (seen, unseen):
            bucket.record(1.7, now_ms)
