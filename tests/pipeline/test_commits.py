"""A batch's additions, read from versions of a table's log as Delta writes them."""

import json

from pipeline.commits import file_of, parsed, with_batch
from pipeline.times import Touched


def added(path, rows, least=None, most=None, **partition):
    stats = {"numRecords": rows, "minValues": least or {}, "maxValues": most or {}}
    return {"add": {"path": path, "partitionValues": partition, "stats": json.dumps(stats)}}


def version(*actions):
    return "\n".join(json.dumps(each) for each in ({"commitInfo": {"operation": "WRITE"}}, *actions))


def batch(writer, number):
    return {"txn": {"appId": writer, "version": number, "lastUpdated": 1}}


def test_a_version_tells_its_files_its_rows_and_whose_batch_it_is():
    commit = parsed(
        version(
            batch("stream:all:bronze/events", 7),
            added("date=2026-03-02/topic=a/one.parquet", 3, topic="a"),
            added("date=2026-03-02/topic=b/two%20.parquet", 2, topic="b"),
            added("date=2026-03-03/topic=a/three.parquet", 4, topic="a"),
            {"remove": {"path": "old.parquet"}},
        )
    )
    assert commit.batches == {"stream:all:bronze/events": 7}
    assert commit.rows == 9 and commit.rows_by("topic") == {"a": 7, "b": 2}
    assert [file.path for file in commit.of("topic", ["b", "c"])] == ["date=2026-03-02/topic=b/two .parquet"]


def test_rows_were_added_where_they_have_no_batch_and_are_new():
    brought = added("x", 3)
    moved = {"add": brought["add"] | {"dataChange": False}}
    assert parsed(version(brought)).is_added
    assert not parsed(version(brought, batch("stream", 1))).is_added
    assert not parsed(version(moved)).is_added and parsed(version(moved)).rows == 0
    assert not parsed(version(added("x", 0))).is_added
    deleted = json.dumps({"commitInfo": {"operation": "DELETE"}}) + "\n" + json.dumps(brought)
    assert not parsed(deleted).is_added


def test_the_edges_of_a_column_are_those_of_its_files():
    commit = parsed(
        version(added("one", 1, {"time": "a"}, {"time": "c"}), added("two", 0), added("three", 1))
    )
    assert commit.edges("time") == [("a", "c")]


def test_a_batch_of_no_rows_has_no_edges():
    assert parsed(version(batch("w", 1))).edges("time") == []
    assert parsed(version(added("empty", 0, topic="a"))).rows_by("topic") == {}


def test_days_without_rows_are_not_touched():
    stretches = [
        ("2026-03-02T10:00:00.000Z", "2026-03-02T11:00:00.001Z"),
        ("2025-11-21T00:00:00.000Z", "2025-11-21T00:00:00.001Z"),
    ]
    found = Touched.by_times(stretches)
    # An event at midnight belongs to the last minute of the day before.
    assert found == Touched(
        "2025-11-20 23:59:00", "2026-03-02 11:00:00", frozenset({"2025-11-20", "2025-11-21", "2026-03-02"})
    )
    assert Touched.by_times([]) is None


def test_the_batch_is_looked_for_from_the_newest_on():
    log = [version(batch("w", 3)), version(added("x", 5)), version(batch("w", 2), added("y", 1))]
    calls = []

    def texts():
        for number, text in enumerate(log):
            calls.append(number)
            yield text

    found = with_batch(texts(), "w", 2)
    assert found is not None and found.rows == 1 and calls == [0, 1, 2]
    assert with_batch(log, "w", 1) is None and with_batch(log, "other", 2) is None


def test_a_version_has_its_number_for_a_name():
    assert [file_of(version) for version in (0, 12)] == [
        "00000000000000000000.json",
        "00000000000000000012.json",
    ]
