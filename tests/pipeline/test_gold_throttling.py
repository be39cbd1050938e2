"""Clients' compliance with throttle_time_ms: by hand, and compared with the broker's rule."""

import random
from collections import defaultdict

import pytest

from pipeline.formats import THROTTLES
from pipeline.gold.throttling import throttle_compliance_per_day
from tests.pipeline.events import day_sums, rows_of, taken, throttle

COLUMNS = ("client_id", "waited", "sent_early", "early_share", "obeys")


def test_throttle_observations_are_added_up_by_client_and_software(spark):
    rd, java = {"software_name": "librdkafka"}, {"software_name": "apache-kafka-java"}
    events = [
        throttle(1, waited=0, sent_early=1, **rd),
        throttle(60, waited=1, sent_early=2, count=3, throttle_ms=500, connection="d", **rd),
        throttle(1, waited=5, sent_early=0, **java),
        throttle(1, client_id="older", count=9),
    ]
    found = throttle_compliance_per_day(day_sums(taken(spark, THROTTLES, events), THROTTLES))
    columns = ("software_name", "connections", "throttles", "throttle_ms", "waited", "sent_early", "obeys")
    assert rows_of(found, *columns) == [
        ("", 1, 9, 100, 0, 0, None),
        ("apache-kafka-java", 1, 1, 100, 5, 0, True),
        ("librdkafka", 2, 4, 600, 1, 3, False),
    ]


def test_it_takes_two_throttles_and_a_clear_share_to_say_anything(spark):
    cases = {
        (0, 0): None,
        (1, 0): None,
        (2, 0): True,
        (0, 1): None,
        (0, 2): False,
        (2, 2): False,
        (3, 2): None,
        (7, 1): True,
        (6, 1): None,
    }
    events = [
        throttle(1, client_id=f"{waited}-{early}", waited=waited, sent_early=early) for waited, early in cases
    ]
    found = throttle_compliance_per_day(day_sums(taken(spark, THROTTLES, events), THROTTLES))
    assert rows_of(found, "waited", "sent_early", "obeys") == sorted(
        ((*seen, verdict) for seen, verdict in cases.items()), key=repr
    )


def test_days_are_what_plain_python_finds(spark):
    dice = random.Random(41)
    events = [
        throttle(
            second * 3_000 - 40_000,
            client_id=dice.choice("abc"),
            waited=dice.randrange(0, 4),
            sent_early=dice.choice([0, 0, 1, 3]),
        )
        for second in range(27)
    ]
    sums = defaultdict(lambda: [0, 0])
    for each in events:
        day = each["time_ms"] // 86_400_000
        sums[day, each["client_id"]][0] += each["waited"]
        sums[day, each["client_id"]][1] += each["sent_early"]
    found = throttle_compliance_per_day(day_sums(taken(spark, THROTTLES, events), THROTTLES))
    assert rows_of(found, *COLUMNS) == sorted(
        (
            (
                name,
                waited,
                early,
                early / (waited + early) if waited + early else None,
                _verdict(waited, early),
            )
            for (_, name), (waited, early) in sums.items()
        ),
        key=repr,
    )


def _verdict(waited, early):
    if early >= 2 and early >= waited:
        return False
    return True if waited + early >= 2 and 7 * early <= waited else None


@pytest.mark.parametrize("waited", range(9))
def test_the_rule_is_that_of_the_broker_for_its_last_eight(waited):
    from broker.quotas.throttle_compliance import ComplianceRecord

    record = ComplianceRecord()
    for early in [False] * waited + [True] * (8 - waited):
        record.note(early=early)
    assert record.obeys == _verdict(waited, 8 - waited)
