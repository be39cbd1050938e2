"""Gold per day: outliers, and shared client ids."""

from pipeline.formats import CONNECTIONS, REQUESTS
from pipeline.gold.connections import shared_client_ids_per_day
from pipeline.gold.usage import top_offenders_per_day
from tests.pipeline.events import connection, day_sums, request, rows_of, taken


def test_offenders_are_ranked_by_everything_that_they_did_that_day(spark):
    events = [
        request(1, client_id="big", bytes_in=50),
        request(100, client_id="big", bytes_in=50),
        request(1, client_id="small", bytes_in=60, errors={"3": 4}),
        request(1, client_id="idle", requests=0),
        request(1, client_id="equal", bytes_in=60),
    ]
    used = day_sums(taken(spark, REQUESTS, events), REQUESTS)
    found = rows_of(top_offenders_per_day(used, max_rank=2), "by", "rank", "client_id", "total")
    assert found == [
        ("errors", 1, "small", 4),
        ("produce_bytes", 1, "big", 100),
        ("produce_bytes", 2, "equal", 60),
        ("requests", 1, "big", 2),
        ("requests", 2, "equal", 1),
    ]


def test_a_share_is_of_all_and_not_of_the_ranks(spark):
    events = [request(1, client_id=name, bytes_in=size) for name, size in (("a", 50), ("b", 30), ("c", 20))]
    found = top_offenders_per_day(day_sums(taken(spark, REQUESTS, events), REQUESTS), max_rank=1)
    assert rows_of(found.where("by = 'produce_bytes'"), "client_id", "share") == [("a", 0.5)]


def test_a_client_id_is_shared_if_several_use_it(spark):
    def closed(client_id, principal, address, **more):
        names = {"client_id": client_id, "principal": principal, "address": address}
        return connection(1, event="closed", **names, **more)

    events = [
        closed("shop", "alice", "10.0.0.1"),
        closed("shop", "mallory", "10.0.0.9", count=3),
        closed("web", "alice", "10.0.0.1"),
        closed("web", "alice", "10.0.0.2"),
        closed("own", "alice", "10.0.0.1"),
        closed("own", "alice", "10.0.0.1"),
        closed("", "alice", "10.0.0.1"),
        closed("", "bob", "10.0.0.2"),
        connection(1, client_id="own", principal="mallory", address="10.0.0.9"),
    ]
    columns = ("client_id", "principals", "addresses", "connections", "is_shared_by_principals")
    assert rows_of(
        shared_client_ids_per_day(day_sums(taken(spark, CONNECTIONS, events), CONNECTIONS)), *columns
    ) == [
        ("shop", ["alice", "mallory"], ["10.0.0.1", "10.0.0.9"], 4, True),
        ("web", ["alice"], ["10.0.0.1", "10.0.0.2"], 2, False),
    ]
