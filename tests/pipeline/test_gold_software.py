"""Durations by client software: whose requests count for a version, and what is not known."""

from datetime import date, timedelta

import pytest

from pipeline.formats import CONNECTIONS, REQUESTS, THROTTLES
from pipeline.gold.software import LOOK_BACK, client_software, latency_by_software_per_day
from tests.pipeline.events import DAY, connection, day_sums, request, rows_of, taken, throttle

TODAY = date.fromisoformat(DAY)
DAY_S = 86_400


def closed(day, version, client="a", name="librdkafka", **more):
    """A connection that closed so many days after the day."""
    fields = {"event": "closed", "principal": "alice", "client_id": client}
    return connection(day * DAY_S, software_name=name, software_version=version, **(fields | more))


def software(spark, *events):
    found = client_software([taken(spark, CONNECTIONS, list(events))], TODAY)
    return rows_of(found, "client_id", "software_name", "software_version", "attribution")


def test_a_client_has_the_software_of_its_newest_day(spark):
    assert software(spark, closed(-1, "2.5.0"), closed(0, "2.16.1"), closed(0, "2.16.1")) == [
        ("a", "librdkafka", "2.16.1", "one")
    ]


def test_several_versions_of_a_day_are_shown_as_several(spark):
    assert software(
        spark,
        closed(0, "2.5.0"),
        closed(0, "2.16.1"),
        closed(0, "4.1.1", "b", "apache-kafka-java"),
        closed(0, "2.16.1", "b"),
    ) == [("a", "librdkafka", "", "several"), ("b", "", "", "several")]


@pytest.mark.parametrize(("days_ago", "count"), [(6, 1), (7, 1), (8, 0), (-1, 0)])
def test_software_is_known_for_a_week(spark, days_ago, count):
    assert timedelta(days=7) == LOOK_BACK
    assert len(software(spark, closed(-days_ago, "2.16.1"))) == count


def test_connections_without_a_name_say_nothing(spark):
    assert software(spark, closed(0, "", name=""), closed(0, None, name=None), connection(0)) == []


def timed(second, us, client="a", **more):
    timed_requests = sum(count for _, count in us)
    return request(second, client_id=client, timed=timed_requests, phases={"total": us}, **more)


def test_requests_count_for_the_software_of_their_client(spark):
    requests = taken(
        spark,
        REQUESTS,
        [
            timed(1, [[10, 1], [20, 8], [30, 1]]),
            timed(2, [[20, 90]]),
            timed(2, [[50, 100]], "b"),
            timed(3, [[7, 5]], "b", api="FetchConsumer"),
            timed(3, [[99, 1]], "stranger"),
            timed(3, [[1, 1]], source="others"),
            request(4),
        ],
    )
    named = [
        taken(spark, CONNECTIONS, [closed(0, "2.16.1")]),
        taken(
            spark,
            THROTTLES,
            [throttle(1, client_id="b", software_name="librdkafka", software_version="2.16.1")],
        ),
    ]
    found = latency_by_software_per_day(day_sums(requests, REQUESTS), named, TODAY)
    figures = ("clients", "timed", "p50_us", "p95_us", "p99_us", "max_us")
    assert rows_of(found, "software_version", "attribution", "api", *figures) == [
        ("", "unknown", "Produce", 1, 1, 99, 99, 99, 99),
        ("2.16.1", "one", "FetchConsumer", 1, 5, 7, 7, 7, 7),
        ("2.16.1", "one", "Produce", 2, 200, 30, 50, 50, 50),
    ]
    assert rows_of(found.select("date").distinct(), "date") == [(TODAY,)]


def test_clusters_have_software_of_their_own(spark):
    """A client of the same name in another cluster, or in none, is another client."""
    from pyspark.sql import functions as F

    requests = taken(spark, REQUESTS, [timed(1, [[10, 1]])])
    both = requests.withColumn("cluster", F.lit("x")).unionByName(requests)
    named = taken(spark, CONNECTIONS, [closed(0, "2.16.1")])
    found = latency_by_software_per_day(day_sums(both, REQUESTS), [named], TODAY)
    assert rows_of(found, "cluster", "attribution", "clients") == [("x", "unknown", 1), (None, "one", 1)]
