"""Which records a batch has, and what a table has of them."""

import pytest

from pipeline.extent import Extent, NotRecordsError, Stretch
from pipeline.formats import CONNECTIONS, REQUESTS
from tests.pipeline.events import raw, record


def test_an_extent_is_of_each_partition_from_the_first_to_the_last(spark):
    rows = [record(REQUESTS, at, b"") for at in (3, 4, 5, 5)] + [
        record(CONNECTIONS, at, b"") for at in (7, 9)
    ]
    extent = Extent.of(raw(spark, rows))
    assert set(extent.stretches) == {Stretch(REQUESTS, 0, 3, 5, 3, 1), Stretch(CONNECTIONS, 0, 7, 9, 2, 0)}
    assert (extent.rows, extent.copies, extent.is_whole) == (5, 1, False)
    assert extent.part({REQUESTS}).is_whole


def test_what_lies_within_is_found_and_nothing_beside_it(spark):
    odd = "it's \\ odd"
    rows = [record(topic, at, b"") for topic in (REQUESTS, odd) for at in range(10)]
    frame = raw(spark, rows)
    extent = Extent(
        (Stretch(odd, 0, 3, 4, 2, 0), Stretch(REQUESTS, 0, 9, 9, 1, 0), Stretch(odd, 1, 0, 9, 10, 0))
    )
    found = frame.where(extent.where).select("topic", "offset").collect()
    assert {tuple(row) for row in found} == {(odd, 3), (odd, 4), (REQUESTS, 9)}
    assert frame.where(Extent(()).where).isEmpty()


def test_rows_that_say_not_where_they_were_are_refused(spark):
    good, _, _, time, _, headers = record(REQUESTS, 1, b"")
    rows = [(None, 0, 1, time, b"", headers), (good, 0, 1, None, b"", headers), record(REQUESTS, 2, b"")]
    with pytest.raises(NotRecordsError, match="2 rows"):
        Extent.of(raw(spark, rows))
