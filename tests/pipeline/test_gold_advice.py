"""Recommended quotas: what becomes of a client's day, and what then happens at the broker's own quotas."""

from copy import deepcopy

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.sql import functions as F

from pipeline.formats import REQUESTS, THROTTLES
from pipeline.gold.advice import MEASURED, SIMULATED, Policy, advise, quota_advice, rounded_up
from pipeline.gold.demand import KEYS
from pipeline.gold.seconds import usage_seconds
from pipeline.gold.throttling import throttling_per_minute
from tests.pipeline.clients import KINDS, Played, bursty, mixed, play, saturated, steady
from tests.pipeline.events import DAY, request, rows_of, taken, throttle

PRODUCE = KEYS[0]

LOOSE = Policy(throttled_requests=0.3, longest_wait_ms=10_000, headroom=1.0)
"""Limits that throttle: what they promise is more than nothing."""


DEFAULT = Policy()


def advice_of(played, policy=DEFAULT):
    return advise(played.day(), PRODUCE, policy)


def shares(found):
    return found.throttled_requests_share, found.throttled_time_share


@pytest.mark.parametrize(
    ("schedule", "needed", "peak", "recommended"),
    [
        (steady, 202_000, 200_000, 260_000),
        # Ten seconds' worth, within the eleven that a quota can look back.
        (bursty, 551_209, 600_000, 690_000),
        (mixed, 1_320_906, 1_450_000, 1_700_000),
    ],
)
def test_a_limit_that_nothing_held_throttles_hardly_anything(schedule, needed, peak, recommended):
    found = advice_of(play(schedule, None))
    assert (round(found.needed), found.peak, found.recommended) == (needed, peak, recommended)
    assert (found.minutes, found.censored_minutes, found.held_limit, found.basis) == (60, 0, None, SIMULATED)
    assert (*shares(found), found.longest_wait_ms) == (0, 0, 0)
    then = play(schedule, found.recommended)
    assert then.throttles == []


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("policy", [Policy(), LOOSE], ids=["default", "loose"])
def test_what_a_row_promises_happens(name, policy):
    found = advice_of(play(KINDS[name], None, 60), policy)
    then = play(KINDS[name], found.recommended, 60)
    assert (then.requests_share, then.time_share) == pytest.approx(shares(found), abs=0.05)
    if policy is LOOSE and name in ("bursty", "mixed"):
        assert found.throttled_requests_share > 0.2


@pytest.mark.parametrize("schedule", [bursty, saturated])
def test_a_limit_that_held_is_not_what_is_needed(schedule):
    found = advice_of(play(schedule, 200_000.0))
    assert (found.minutes, found.censored_minutes, found.censored_share) == (60, 60, 1.0)
    assert (found.needed, found.recommended, found.held_limit) == (None, None, 200_000)
    assert found.basis == MEASURED and found.throttled_requests_share > 0.6
    again = play(schedule, 200_000.0)
    assert shares(found) == pytest.approx((again.requests_share, again.time_share), abs=0.01)
    assert found.longest_wait_ms == again.longest_ms


@pytest.mark.parametrize("name", KINDS)
def test_advice_that_is_set_every_day_does_not_grow(name):
    limits = [200_000.0]
    for _ in range(3):
        found = advice_of(play(KINDS[name], limits[-1]))
        limits.append(found.recommended or limits[-1])
    assert limits == [200_000.0] * 4


@pytest.mark.parametrize("name", KINDS)
def test_advice_that_is_set_every_day_stays_if_it_began_without_a_limit(name):
    first = advice_of(play(KINDS[name], None)).recommended
    limit = first
    for _ in range(2):
        limit = advice_of(play(KINDS[name], limit)).recommended
    assert limit == first


def test_a_limit_that_hardly_held_stays():
    """One request in 12,000 was throttled, for a moment."""
    played = deepcopy(play(steady, 260_000.0))
    played.throttles.append((90_000, 40))
    played.throttle_ms[90] = 40
    found = advice_of(played)
    assert (found.censored_minutes, found.held_limit, found.recommended) == (1, 260_000, 260_000)
    assert (found.needed, found.basis, found.longest_wait_ms) == (None, MEASURED, 40)
    assert found.reason.endswith("That is little: the limit can stay.")


@pytest.mark.parametrize(("longest_ms", "recommended"), [(999, 260_000), (1_000, 260_000), (1_001, None)])
def test_a_limit_stays_up_to_the_longest_wait(longest_ms, recommended):
    played = deepcopy(play(steady, 260_000.0))
    played.throttles.append((90_000, longest_ms))
    played.throttle_ms[90] = longest_ms
    assert advice_of(played).recommended == recommended


def joined(first: Played, then: Played) -> Played:
    """Return two days as the parts of one, with the last throttles' limit that of the first."""
    shift = first.minutes * 60
    day = Played(first.minutes + then.minutes, first.limit)
    for name in ("requests", "throttle_ms"):
        getattr(day, name).update(getattr(first, name))
        getattr(day, name).update({shift + at: each for at, each in getattr(then, name).items()})
    day.throttles += first.throttles + [(shift * 1_000 + at, ms) for at, ms in then.throttles]
    return day


@pytest.mark.parametrize(
    ("held", "free", "recommended"),
    [(29, 30, 760_000), (30, 30, 760_000), (31, 30, None), (29, 29, None), (40, 90, 760_000)],
)
def test_free_minutes_show_a_need_above_a_limit_that_was_lifted(held, free, recommended):
    """They must be half of all, and thirty."""
    found = advice_of(joined(play(saturated, 100_000.0, held), play(saturated, None, free)))
    # The last throttle reaches into the first minute after the limit.
    assert (found.minutes, found.recommended) == (held + free, recommended)


@pytest.mark.parametrize(("minutes", "is_advised"), [(29, False), (30, True), (31, True)])
def test_a_client_that_was_hardly_active_gets_no_advice(minutes, is_advised):
    assert (advice_of(play(steady, None, minutes)) is not None) is is_advised


def test_the_reason_is_in_words_that_can_be_checked():
    assert advice_of(play(bursty, None)).reason == (
        "On this day a limit of 551.2 kB/s would have throttled at most 1% of the requests, each for at "
        "most 1 s; 600.0 kB/s was the highest use of ten seconds in 60 active minutes. With 25% headroom the "
        "limit is 690.0 kB/s. In simulation it throttles 0.0% of the requests, for 0.0% of the time and at "
        "most 0 ms."
    )
    assert advice_of(play(bursty, 200_000.0)).reason == (
        "A limit held in 60 of 60 active minutes, so the need is not known: it is at least 212.0 kB/s, the "
        "highest use of ten seconds. The limit of 200.0 kB/s throttled 65.3% of the requests, for 43.4% of "
        "the time and at most 6,998 ms. Raise the limit in steps, and look again after a day."
    )


@pytest.mark.parametrize(
    ("value", "rounded"), [(99.0, 99), (99.1, 100), (100.0, 100), (100.1, 110), (1.31, 1.4), (0.0551, 0.056)]
)
def test_a_recommendation_has_two_digits(value, rounded):
    assert rounded_up(value) == rounded


# From silver to the table.

WHO = ("user", "client_id", "key", "minutes", "censored_minutes", "held_limit", "recommended")


SHORT = Policy(least_minutes=2)


def advised(spark, requests, throttles=(), policy=SHORT):
    seconds = usage_seconds(taken(spark, REQUESTS, requests))
    held = throttling_per_minute(taken(spark, THROTTLES, list(throttles))) if throttles else None
    return quota_advice(seconds, held, F.lit(DAY).cast("date"), policy)


def busy(rate, minutes=3, **fields):
    """Return the requests of minutes with a constant rate, in ten parts a second."""
    return [request(at, bytes_in=rate, requests=10, **fields) for at in range(1, 60 * minutes + 1)]


def test_advice_is_for_the_user_or_without_a_login_for_the_client_id(spark):
    events = [
        *busy(1_000, client_id="a"),
        *busy(2_000, client_id="b"),
        *busy(700, principal="ANONYMOUS", client_id="x"),
        *busy(800, principal="ANONYMOUS", client_id="y", api="FetchConsumer", bytes_out=500),
        *busy(900, principal=None, client_id="z"),
    ]
    found = advised(spark, events)
    assert rows_of(found, *WHO) == [
        ("alice", None, "producer_byte_rate", 3, 0, None, 3_800),
        (None, "x", "producer_byte_rate", 3, 0, None, 890),
        (None, "y", "consumer_byte_rate", 3, 0, None, 640),
        (None, "z", "producer_byte_rate", 3, 0, None, 1_200),
    ]
    assert rows_of(found, "date", "basis")[0][1] == SIMULATED


def test_handler_time_is_advised_in_percent_of_a_thread(spark):
    phases = {"local": [[5_000, 10]]}
    events = busy(0, timed=10, phases=phases, api="Metadata")
    # Ten requests of 5 ms in each second.
    (row,) = rows_of(advised(spark, events), "key", "peak", "recommended")
    assert row == ("request_percentage", 5.0, 6.4)


def test_throttles_of_the_user_censor_and_have_the_limit(spark):
    held = [throttle(at, bound=1_000.0, throttle_ms=3_000, longest_ms=3_000) for at in (5, 65, 125)]
    (row,) = rows_of(advised(spark, busy(1_000), held), *WHO, "throttled_time_share")
    assert row[:-1] == ("alice", None, "producer_byte_rate", 3, 3, 1_000.0, None)
    assert row[-1] == pytest.approx(3 / 60)


@pytest.mark.parametrize(
    ("entity", "limit"),
    [
        ({"user": "alice"}, 1_000.0),
        ({"user": None}, 1_000.0),
        ({"user": "alice", "client-id": "a"}, None),
        ({"client-id": "a"}, None),
        ({"broker quota": "produce bytes"}, None),
    ],
)
def test_the_limit_of_a_row_is_one_on_all_that_it_is_for(spark, entity, limit):
    held = [throttle(at, bound=1_000.0, entity=entity) for at in (5, 65, 125)]
    # So few and short throttles let a limit stay; without one that is known there is nothing to recommend.
    assert rows_of(advised(spark, busy(1_000), held), "held_limit", "recommended") == [(limit, limit)]


def test_throttles_of_another_kind_censor_what_they_hold_back(spark):
    held = [throttle(at, kind="fetch", bound=9.0) for at in (5, 65, 125)]
    events = busy(1_000, timed=10, phases={"local": [[5_000, 10]]})
    found = advised(spark, events, held)
    assert rows_of(found, "key", "censored_minutes", "held_limit") == [
        ("producer_byte_rate", 0, None),
        # A client that waits has no requests to handle.
        ("request_percentage", 3, None),
    ]


def test_requests_that_say_they_were_throttled_censor_without_events_of_throttles(spark):
    throttled = [request(59.5, throttle_ms=3_000, bytes_in=1), request(150, throttle_ms=1)]
    events = [*busy(1_000), *throttled]
    found = advised(spark, events, policy=Policy(least_minutes=1))
    # The first throttle lasts into the second minute.
    assert rows_of(found, "censored_minutes", "recommended", "throttled_requests_share") == [(3, None, None)]
    (reason,) = rows_of(found, "reason")
    assert "No event says by which limit. Raise the limit in steps" in reason[0]
