"""One limit tried on one client's seconds, compared with the engine's whole scenario."""

import random
from array import array

import pytest

from broker.quotas.entity import Entity
from broker.quotas.kinds import KEY_OF, QuotaKind
from broker.simulation.parts import simulate_part
from broker.simulation.scenario import SECOND_US, ClientLoad, Limit
from broker.simulation.trial import Bounds, try_limit

KIB = 1_024


def load(kind, amounts, requests=10):
    """Return a load with these amounts, one each second; 0 is a pause."""
    seconds = [second for second, amount in enumerate(amounts) if amount]
    return ClientLoad(
        "u",
        "c",
        kind,
        array("L", seconds),
        array("L", [requests] * len(seconds)),
        array("Q", [amounts[second] for second in seconds]),
    )


@pytest.mark.parametrize("kind", [QuotaKind.PRODUCE, QuotaKind.FETCH])
@pytest.mark.parametrize("seed", range(4))
def test_a_trial_throttles_as_the_engine_does(kind, seed):
    dice = random.Random(seed)
    record = load(kind, [dice.choice((0, 0, KIB, 9 * KIB)) for _ in range(120)], dice.randrange(1, 30))
    # The engine ends with the load; a trial sends what waits.
    after = 10_000 * SECOND_US
    limit = Limit(Entity(user="u"), {KEY_OF[kind]: 2_000.0})
    ((totals,), _) = simulate_part([record], (limit,), after)
    found = try_limit(record, 2_000.0)
    assert (found.throttled_ms, found.longest_ms) == (totals.throttled_ms, totals.longest_ms)
    assert totals.throttles and found.is_within


def test_all_requests_of_a_throttled_part_are_throttled():
    # Of a hundred requests a second the simulation makes ten parts.
    found = try_limit(load(QuotaKind.PRODUCE, [KIB] * 60, 100), KIB / 2)
    assert found.requests == 6_000
    assert found.throttled % 10 == 0 and found.throttled > 4_000


def test_a_throttled_fetch_is_one_request_and_is_repeated():
    found = try_limit(load(QuotaKind.FETCH, [100 * KIB] * 30, 1), 10 * KIB)
    assert found.throttled and found.requests > 30


@pytest.mark.parametrize(("limit", "is_throttled"), [(4.9, True), (5.1, False)])
def test_of_request_time_the_amounts_are_nanoseconds(limit, is_throttled):
    # Fifty milliseconds of each second are five percent.
    found = try_limit(load(QuotaKind.REQUEST, [50_000_000] * 60), limit)
    assert (found.throttled > 0) is is_throttled


def test_a_trial_ends_at_the_first_violation_of_its_bounds():
    record = load(QuotaKind.PRODUCE, [KIB] * 60, 1)
    whole = try_limit(record, KIB / 2)
    assert whole.is_within
    for bounds, is_within in [
        (Bounds(requests=whole.throttled - 1), False),
        (Bounds(requests=whole.throttled), True),
        (Bounds(requests=whole.throttled + 1), True),
        (Bounds(longest_ms=whole.longest_ms - 1), False),
        (Bounds(longest_ms=whole.longest_ms), True),
        (Bounds(longest_ms=whole.longest_ms + 1), True),
    ]:
        found = try_limit(record, KIB / 2, bounds)
        assert found.is_within is is_within
        assert (found == whole) is is_within
    first = try_limit(record, KIB / 2, Bounds(requests=0))
    assert (first.throttled, first.is_within) == (1, False)


def test_an_empty_load_is_not_throttled():
    assert try_limit(load(QuotaKind.PRODUCE, []), 1.0).requests == 0
