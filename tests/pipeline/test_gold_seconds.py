"""A client's use by second, compared with that by minute."""

import random

from pyspark.sql import functions as F

from pipeline.formats import REQUESTS
from pipeline.gold.seconds import SUMS, usage_seconds
from pipeline.gold.usage import usage_per_minute
from tests.pipeline.events import request, rows_of, taken

PRODUCED = {"produce_bytes": 7, "produce_requests": 2, "produce_throttle_ms": 5}


def seconds_of(frame):
    return [
        (row["minute"].strftime("%H:%M"), [each.asDict() for each in row["seconds"]])
        for row in frame.collect()
    ]


def test_seconds_are_those_of_their_minute_in_order(spark):
    events = [
        request(61, bytes_in=1),
        request(60, bytes_in=2),
        request(2, bytes_in=3, requests=2, throttle_ms=5),
        request(2, bytes_in=4, requests=0),
        request(2, api="FetchConsumer", bytes_out=9, timed=1, phases={"local": [[30, 1]]}),
        request(3, source="others", bytes_in=1),
    ]
    nothing = dict.fromkeys(SUMS, 0)
    found = seconds_of(usage_seconds(taken(spark, REQUESTS, events)).orderBy("minute"))
    assert found == [
        (
            "12:00",
            [
                nothing
                | PRODUCED
                | {"second": 1, "fetch_bytes": 9, "fetch_requests": 1, "handler_us": 30}
                | {"requests": 3, "throttle_ms": 5},
                nothing | {"second": 59, "produce_bytes": 2, "produce_requests": 1, "requests": 1},
            ],
        ),
        ("12:01", [nothing | {"second": 0, "produce_bytes": 1, "produce_requests": 1, "requests": 1}]),
    ]


def test_the_sums_of_the_seconds_are_those_of_the_minute(spark):
    dice = random.Random(3)
    events = [
        request(
            dice.randrange(1, 200),
            client_id=dice.choice("ab"),
            api=dice.choice(("Produce", "FetchConsumer", "Metadata")),
            requests=dice.randrange(9),
            bytes_in=dice.randrange(900),
            bytes_out=dice.randrange(900),
            throttle_ms=dice.choice((0, 7)),
            timed=3,
            phases={"local": [[20, 3]]},
        )
        for _ in range(300)
    ]
    silver = taken(spark, REQUESTS, events)
    columns = ("produce_bytes", "fetch_bytes", "requests", "throttle_ms", "handler_us")
    sums = (
        F.aggregate(f"seconds.{name}", F.lit(0).cast("long"), lambda total, each: total + each).alias(name)
        for name in columns
    )
    of_seconds = usage_seconds(silver).select("minute", "client_id", *sums)
    whole = ("minute", "client_id", *columns)
    assert rows_of(of_seconds, *whole) == rows_of(usage_per_minute(silver), *whole)
