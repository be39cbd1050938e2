"""What the source lost: gaps between the records that were read."""

from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.formats import REQUESTS, THROTTLES
from pipeline.loss import LOST, POSITIONS, Span, advanced, gap_before, lost, named
from pipeline.run import Pipeline
from tests.pipeline.events import raw, record, request, rows_of, throttle

PLACE = (REQUESTS, 0)
NOON = datetime(2025, 11, 21, 12, tzinfo=UTC)


def span(cluster: str | None, first: int, last: int, rows: int | None = None) -> Span:
    return Span(cluster, PLACE, first, last, last - first + 1 if rows is None else rows, NOON)


@pytest.mark.parametrize(
    ("due", "first", "expected"),
    [(None, 7, None), (7, 7, None), (7, 6, None), (7, 8, (7, 7, 1)), (7, 9, (7, 8, 2))],
)
def test_what_is_missing_before_the_first_record_is_lost(
    due: int | None, first: int, expected: tuple[int, int, int] | None
) -> None:
    positions: dict[Any, int] = {} if due is None else {("x", PLACE): due}
    gap = gap_before(span("x", first, first), positions)
    assert (gap and gap[5:]) == expected


@pytest.mark.parametrize(
    ("spans", "positions", "expected"),
    [
        ([span(None, 0, 9)], {}, [span(None, 0, 9)]),
        ([span(None, 0, 9)], {("x", PLACE): 0}, [span("x", 0, 9)]),
        ([span(None, 0, 8, 5), span("x", 1, 9, 5)], {}, [span("x", 0, 9)]),
        ([span("y", 0, 9), span("x", 0, 9)], {}, [span("y", 0, 9), span("x", 0, 9)]),
        ([span(None, 0, 9)], {("x", PLACE): 5, ("y", PLACE): 5}, [span(None, 0, 9)]),
    ],
)
def test_records_without_a_cluster_are_of_the_only_one(
    spans: list[Span], positions: dict[Any, int], expected: list[Span]
) -> None:
    assert named(spans, positions) == expected


def test_a_cluster_that_is_named_from_now_on_goes_on_where_it_was() -> None:
    positions = {(None, PLACE): 10}
    assert gap_before(span("x", 10, 19), positions) is None
    assert advanced(positions, [span("x", 10, 19)]) == {("x", PLACE): 20}


def test_a_position_does_not_go_back() -> None:
    assert advanced({("x", PLACE): 10}, [span("x", 0, 4)]) == {("x", PLACE): 10}


def requests(*offsets, cluster=None):
    return [record(REQUESTS, at, request(at), cluster=cluster) for at in offsets]


def found(warehouse):
    return rows_of(warehouse.read(LOST), "cluster", "topic", "first", "last", "records")


def test_gaps_are_counted_once_by_topic_and_not_before_the_first_record(spark, warehouse):
    pipeline = Pipeline(warehouse)
    pipeline.take(raw(spark, requests(5, 6, cluster="x")), 0)
    assert lost(warehouse) == [] and not warehouse.exists(LOST)
    batch = [*requests(9, 10, 13, cluster="x"), record(THROTTLES, 70, throttle(1), cluster="x")]
    for _ in range(2):
        pipeline.take(raw(spark, batch), 1)
        assert found(warehouse) == [("x", REQUESTS, 11, 12, 2), ("x", REQUESTS, 7, 8, 2)]
    pipeline.take(raw(spark, requests(14, cluster="x")), 2)
    assert lost(warehouse) == [(REQUESTS, 4)]
    assert rows_of(warehouse.read(POSITIONS), "topic", "next") == [(REQUESTS, 15), (THROTTLES, 71)]


def test_a_batch_that_died_before_the_position_is_counted_once(spark, warehouse, monkeypatch):
    pipeline = Pipeline(warehouse)
    pipeline.take(raw(spark, requests(0)), 0)
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.tables.Warehouse.rewrite", _die)
        with pytest.raises(KeyboardInterrupt):
            pipeline.take(raw(spark, requests(3, 5)), 1)
    Pipeline(warehouse).take(raw(spark, requests(3, 5)), 1)
    assert lost(warehouse) == [(REQUESTS, 3)]


def test_of_two_writers_in_turn_neither_forgets_the_positions_of_the_other(spark, warehouse):
    one, other = Pipeline(warehouse), Pipeline(warehouse)
    one.take(raw(spark, requests(0)), 0)
    other.take(raw(spark, [record(THROTTLES, 0, throttle(1)), *requests(1)]), 0, "other")
    one.take(raw(spark, requests(1)), 1)
    assert rows_of(warehouse.read(POSITIONS), "topic", "next") == [(REQUESTS, 2), (THROTTLES, 1)]


def test_what_another_writer_writes_before_the_transaction_of_a_rewrite_is_not_lost(spark, warehouse):
    schema = "cluster string, topic string, partition int, next bigint"
    Pipeline(warehouse).take(raw(spark, requests(0)), 0)

    def next_of(place, at):
        return spark.createDataFrame([(None, place, 0, at)], schema)

    def with_another_first(rows):
        warehouse.append(POSITIONS, next_of("other", 5))
        return rows.unionByName(next_of("mine", 7))

    warehouse.rewrite(POSITIONS, with_another_first, schema)
    assert rows_of(warehouse.read(POSITIONS), "topic", "next") == [(REQUESTS, 1), ("mine", 7), ("other", 5)]


def test_files_that_have_what_was_lost_end_the_loss(spark, warehouse):
    pipeline = Pipeline(warehouse)
    pipeline.add(raw(spark, [*requests(0, 9, cluster="x"), *requests(0, 2, cluster="y")]))
    assert found(warehouse) == [("x", REQUESTS, 1, 8, 8), ("y", REQUESTS, 1, 1, 1)]
    pipeline.add(raw(spark, requests(*range(10), cluster="x")[1:6]))
    assert found(warehouse) == [("x", REQUESTS, 6, 8, 3), ("y", REQUESTS, 1, 1, 1)]
    pipeline.add(raw(spark, requests(6, 7, 8, cluster="x")))
    assert found(warehouse) == [("y", REQUESTS, 1, 1, 1)]


def _die(*_):
    raise KeyboardInterrupt
