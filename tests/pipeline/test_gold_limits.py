"""The limits in force over time, and their utilisation."""

import json

from pyspark.sql import functions as F

from pipeline.formats import QUOTA_CHANGES, REQUESTS
from pipeline.gold.limits import governed, limits_over_time, used, utilisation_per_minute
from pipeline.gold.usage import usage_per_minute
from tests.pipeline.events import quota_change, request, rows_of, taken

KEY = "producer_byte_rate"


def made(spark, requests, changes):
    return (
        usage_per_minute(taken(spark, REQUESTS, requests)),
        limits_over_time(taken(spark, QUOTA_CHANGES, changes)),
    )


def test_a_limit_holds_until_the_next_and_a_removal_ends_it(spark):
    changes = [
        quota_change(0, 1, entity={"user": "alice"}, new=10.0),
        quota_change(60, 2, entity={"user": "alice"}, new=20.0),
        quota_change(120, 3, entity={"user": "alice"}, new=None),
        quota_change(180, 4, entity={"user": "alice"}, new=30.0),
        quota_change(30, 5, entity={"client-id": None}, new=1.0),
    ]
    found = limits_over_time(taken(spark, QUOTA_CHANGES, changes))
    assert rows_of(found, "rule", "value", "since", "until") == [
        ('{"client-id":null}', 1.0, "12:00", None),
        ('{"user":"alice"}', 10.0, "12:00", "12:01"),
        ('{"user":"alice"}', 20.0, "12:01", "12:02"),
        ('{"user":"alice"}', 30.0, "12:03", None),
    ]


def test_use_is_a_rate_for_each_key(spark):
    phases = {"local": [[60, 10]]}
    events = [
        request(1, requests=1000, bytes_in=600, timed=10, phases=phases),
        request(1, api="FetchConsumer", bytes_out=120, requests=0),
    ]
    found = used(usage_per_minute(taken(spark, REQUESTS, events)))
    # 1000 requests of 60 us are a thousandth of a minute: 0.1 %.
    assert rows_of(found, "key", "rate") == [
        ("consumer_byte_rate", 2.0),
        ("producer_byte_rate", 10.0),
        ("request_percentage", 0.1),
    ]


def test_utilisation_is_use_over_the_limit_that_held_at_the_end_of_the_minute(spark):
    usage, limits = made(
        spark,
        [request(30, bytes_in=600), request(90, bytes_in=600), request(150, bytes_in=600)],
        [
            quota_change(-10, 1, entity={"user": "alice"}, new=20.0),
            quota_change(100, 2, entity={"user": "alice"}, new=5.0),
            quota_change(130, 3, entity={"user": "alice"}, new=None),
        ],
    )
    found = utilisation_per_minute(usage, limits)
    assert rows_of(found, "minute", "rate", "limit", "utilisation") == [
        ("12:00", 10.0, 20.0, 0.5),
        ("12:01", 10.0, 5.0, 2.0),
    ]


def test_clients_share_what_a_rule_does_not_distinguish(spark):
    usage, limits = made(
        spark,
        [
            request(1, client_id="a", bytes_in=600),
            request(1, client_id="b", bytes_in=1200),
            request(1, principal="bob", client_id="a", bytes_in=60),
            request(1, principal="eve", client_id="a", bytes_in=6),
        ],
        [
            quota_change(-1, 1, entity={"user": "alice"}, new=60.0),
            quota_change(-1, 2, entity={"user": None}, new=10.0),
        ],
    )
    found = utilisation_per_minute(usage, limits).where(F.col("key") == KEY)
    assert rows_of(found, "rule", "sharer", "clients", "utilisation") == [
        ('{"user":"alice"}', '["alice"]', 2, 0.5),
        ('{"user":null}', '["bob"]', 1, 0.1),
        ('{"user":null}', '["eve"]', 1, 0.01),
    ]


def test_a_name_goes_before_a_default_and_a_user_before_a_client_id(spark):
    order = [
        {"user": "alice", "client-id": "a"},
        {"user": "alice", "client-id": None},
        {"user": "alice"},
        {"user": None, "client-id": "a"},
        {"user": None, "client-id": None},
        {"user": None},
        {"client-id": "a"},
        {"client-id": None},
    ]
    # The most specific rule is removed first, minute by minute, which shows the next one.
    changes = [quota_change(-1, 1, entity=each, new=1.0) for each in order]
    changes += [quota_change(60 * at + 30, 2, entity=each, new=None) for at, each in enumerate(order)]
    usage, limits = made(spark, [request(60 * at + 1, bytes_in=1) for at in range(-1, 8)], changes)
    found = governed(used(usage), limits).where(F.col("key") == KEY)
    assert [rule for _, rule in rows_of(found, "minute", "rule")] == [_text(each) for each in order]


def _text(entity):
    return json.dumps(dict(sorted(entity.items())), separators=(",", ":"))


def test_usage_is_not_broadcast_however_small_its_files_seem(spark, capsys):
    usage, limits = made(spark, [request(30)], [quota_change(-10, 1, entity={"user": "alice"}, new=20.0)])
    governed(used(usage), limits).explain()
    joins = [line for line in capsys.readouterr().out.splitlines() if "Join" in line]
    assert "SortMergeJoin" in joins[0]
    assert "BroadcastHashJoin" in joins[1]  # of the rules, of which there are few
