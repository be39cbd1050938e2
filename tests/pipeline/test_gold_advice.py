"""Recommended quotas, computed by hand and compared with plain Python."""

import random
from math import floor, log10

import pytest
from pyspark.sql import functions as F

from pipeline.formats import REQUESTS
from pipeline.gold.advice import Policy, quota_advice
from pipeline.gold.usage import usage_per_minute
from tests.pipeline.events import DAY, request, rows_of, taken

COLUMNS = ("user", "client_id", "minutes", "needed", "peak", "recommended", "throttled_minutes")


def advised(spark, requests, policy):
    usage = usage_per_minute(taken(spark, REQUESTS, requests))
    return quota_advice(usage, F.lit(DAY).cast("date"), policy).where("key = 'producer_byte_rate'")


def busy(rates, **who):
    """Return one request a minute, with these bytes per second."""
    return [request(60 * at + 1, bytes_in=60 * rate, **who) for at, rate in enumerate(rates)]


def test_advice_is_the_percentile_with_headroom_in_round_numbers(spark):
    # The median of 100, 200, 300, 400 and 9,000 is 300; plus a quarter is 375, in two digits 380.
    events = busy([100, 200, 300, 400, 9_000])
    found = advised(spark, events, Policy(percentile=0.5, headroom=1.25, least_minutes=5))
    assert rows_of(found, *COLUMNS) == [("alice", None, 5, 300.0, 9_000.0, 380.0, 2)]
    assert rows_of(found, "throttled_share") == [(0.4,)]


def test_the_reason_is_in_words_that_can_be_checked(spark):
    found = advised(spark, busy([1_000] * 4), Policy(percentile=0.95, headroom=1.25, least_minutes=4))
    assert rows_of(found, "reason") == [
        (
            "In 95% of 4 active minutes the rate was at most 1.0 kB/s, its maximum was 1.0 kB/s; "
            "with 25% headroom the limit is 1.3 kB/s. 0 of those minutes would have been throttled.",
        )
    ]


@pytest.mark.parametrize(("least", "found"), [(2, 1), (3, 1), (4, 0)])
def test_a_client_that_was_hardly_there_gets_no_advice(spark, least, found):
    policy = Policy(least_minutes=least)
    assert advised(spark, busy([1, 1, 0, 1]), policy).count() == found


def test_advice_is_for_the_user_or_without_a_login_for_the_client_id(spark):
    events = [
        *busy([10, 10], client_id="a"),
        *busy([20, 20], client_id="b"),
        *busy([7, 7], principal="ANONYMOUS", client_id="x"),
        *busy([8, 8], principal="ANONYMOUS", client_id="y"),
    ]
    found = advised(spark, events, Policy(headroom=1.0, least_minutes=2))
    assert rows_of(found, "user", "client_id", "recommended") == [
        ("alice", None, 30.0),
        (None, "x", 7.0),
        (None, "y", 8.0),
    ]


def test_advice_is_what_plain_python_finds(spark):
    dice = random.Random(11)
    rates = {f"u{n}": [dice.randrange(0, 50_000) for _ in range(dice.randrange(3, 9))] for n in range(12)}
    events = [each for user, of in rates.items() for each in busy(of, principal=user)]
    found = advised(spark, events, Policy(percentile=0.9, headroom=1.5, least_minutes=1))
    assert rows_of(found, "user", "recommended", "throttled_minutes") == sorted(_plain(rates), key=repr)


def _plain(rates):
    for user, bytes_per_s in rates.items():
        active = sorted(rate for rate in bytes_per_s if rate)
        place = 0.9 * (len(active) - 1)
        low = floor(place)
        high = min(low + 1, len(active) - 1)
        wanted = 1.5 * (active[low] + (place - low) * (active[high] - active[low]))
        unit = 10.0 ** (floor(log10(wanted)) - 1)
        recommended = -(-round(wanted / unit, 6) // 1) * unit
        yield user, recommended, sum(rate > recommended for rate in active)
