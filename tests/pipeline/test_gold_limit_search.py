"""The search of a limit, compared with simulating every second."""

import random
from array import array

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

import numpy as np

from broker.simulation.scenario import ClientLoad
from broker.simulation.trial import Bounds, try_limit
from pipeline.gold import limit_search
from pipeline.gold.demand import KEYS, SECONDS_OF_A_DAY
from pipeline.gold.limit_search import LimitSearch

PRODUCE, FETCH, REQUEST = KEYS


def random_seconds(seed, seconds=1_800):
    """Return bursts and pauses of all lengths and sizes."""
    dice = random.Random(seed)
    used, requests = np.zeros(SECONDS_OF_A_DAY, np.int64), np.zeros(SECONDS_OF_A_DAY, np.int64)
    at = dice.randrange(60)
    while at < seconds:
        rate, count = dice.choice((1_000, 20_000, 300_000)), dice.choice((1, 3, 10, 40))
        for second in range(at, min(at + dice.choice((1, 5, 12, 40)), seconds)):
            used[second], requests[second] = dice.randrange(rate), count
        at += dice.choice((2, 12, 50, 100))
    return used, requests


def whole(key, used, requests, limit):
    """Simulate every second."""
    at = np.flatnonzero(requests)
    columns = (array("L", at.tolist()), array("L", requests[at].tolist()), array("Q", used[at].tolist()))
    return try_limit(ClientLoad("u", "", key.kind, *columns), limit)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
@pytest.mark.parametrize("seed", range(6))
def test_seconds_that_are_left_out_are_not_throttled(key, seed):
    used, requests = random_seconds(seed)
    used = used * key.factor
    search = LimitSearch(key, used, requests)
    is_throttled = []
    for share in (0.3, 0.6, 0.8, 0.9, 0.95, 1.0, 2.0):
        limit = search.peak * share
        found, every = search.outcome(limit), whole(key, used, requests, limit)
        assert (found.requests, found.ms, found.longest_ms) == (
            every.throttled,
            every.throttled_ms,
            every.longest_ms,
        )
        is_throttled.append(every.throttled > 0)
    assert is_throttled[0] and not is_throttled[-1]


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_found_keeps_the_bounds_and_one_that_is_two_percent_less_does_not(seed):
    used, requests = random_seconds(seed, 600)
    search = LimitSearch(PRODUCE, used, requests)
    bounds = Bounds(0.05 * search.total, 2_000)
    limit = search.smallest(bounds)
    kept, broken = (whole(PRODUCE, used, requests, limit * factor) for factor in (1.0, 0.98))
    # The seconds that are left out begin other windows, which makes a difference of a request or two.
    assert kept.throttled <= bounds.requests + 2 and kept.longest_ms <= bounds.longest_ms
    assert broken.throttled > bounds.requests or broken.longest_ms > bounds.longest_ms


def periodic(rng):
    """Return a day of bursts each minute, of different sizes."""
    used, requests = np.zeros(SECONDS_OF_A_DAY, np.int64), np.zeros(SECONDS_OF_A_DAY, np.int64)
    busy = np.arange(SECONDS_OF_A_DAY) % 60 < 12
    used[busy] = np.repeat(rng.integers(100_000, 500_000, 1_440), 12)
    requests[busy] = 10
    return used, requests


def test_of_many_seconds_a_sample_is_simulated(monkeypatch):
    used, requests = periodic(np.random.default_rng(5))
    search = LimitSearch(PRODUCE, used, requests)
    simulated = []

    def counting(load, limit, bounds):
        simulated.append(len(load.seconds))
        return try_limit(load, limit, bounds)

    monkeypatch.setattr(limit_search, "try_limit", counting)
    found, every = search.outcome(300_000.0), whole(PRODUCE, used, requests, 300_000.0)
    assert found.requests / search.total == pytest.approx(every.throttled / search.total, abs=0.02)
    assert found.ms == pytest.approx(every.throttled_ms, rel=0.05)
    assert found.longest_ms == every.longest_ms
    # The seconds around the highest rate, and the sample.
    highest, sample = simulated
    assert highest <= 2 * limit_search.BLOCK_S + 1 and sample <= limit_search.MOST_SECONDS_AT_LAST
    simulated.clear()
    search.smallest(Bounds(0.01 * search.total, 1_000))
    assert max(simulated) <= limit_search.MOST_SECONDS


def test_a_day_with_one_request_has_a_limit():
    used, requests = np.zeros(SECONDS_OF_A_DAY, np.int64), np.zeros(SECONDS_OF_A_DAY, np.int64)
    used[-1], requests[-1] = 1, 1
    search = LimitSearch(PRODUCE, used, requests)
    assert search.peak == 0.1 and 0.05 < search.smallest(Bounds(0, 0)) < 0.3
