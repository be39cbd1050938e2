"""A query that ends while it repeats the batch of a killed one is started once more, and only then."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pyspark.errors import StreamingQueryException

from pipeline.streaming import Stream
from pipeline.work import Work


class Query:
    """A query with one batch of three records, reported at its end; or ended by `error`."""

    def __init__(self, batch, error=None):
        self.error = error
        self.is_stopped = False
        self.recentProgress = [
            {
                "batchId": batch,
                "numInputRows": 3,
                "processedRowsPerSecond": 1.0,
                "durationMs": {"triggerExecution": 3_000},
                "sources": [],
            }
        ]

    def awaitTermination(self, _seconds):
        if self.error:
            raise self.error
        return True

    def stop(self):
        self.is_stopped = True


class ScriptedStream(Stream):
    """A stream with given queries; `taken` says how many batches each had processed at its end."""

    def __init__(self, *script):
        self._script = list(script)
        self._taken = 0
        self._work = Work()
        self.started = 0

    def _make_days(self):
        """No days are due."""

    def _start(self, _trigger):
        query, taken = self._script[self.started]
        self.started += 1
        self._taken += taken
        return query


def ended():
    return StreamingQueryException("the connector cannot tell of a repeated batch")


def test_a_query_that_ends_after_the_repeated_batch_is_started_once_more():
    first, second = Query(4, ended()), Query(5)
    stream = ScriptedStream((first, 1), (second, 1))
    assert list(stream.once()) == ["batch 5: 3 records in 3.0 s (1/s), 0 behind"]
    assert stream.started == 2 and first.is_stopped and second.is_stopped


def test_a_query_that_ends_before_any_batch_is_not_started_again():
    stream = ScriptedStream((Query(0, ended()), 0))
    with pytest.raises(StreamingQueryException):
        list(stream.once())
    assert stream.started == 1


def test_a_query_is_started_once_more_and_not_twice():
    stream = ScriptedStream((Query(0, ended()), 1), (Query(1, ended()), 1))
    with pytest.raises(StreamingQueryException):
        list(stream.once())
    assert stream.started == 2
