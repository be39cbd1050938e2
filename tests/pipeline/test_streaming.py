"""The stream's connector options, and its progress messages."""

import re

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline import alive, sources, streaming
from pipeline.sources import kafka_options
from pipeline.streaming import MOST_COUNTED, RECORDS_OF_A_TASK, Stream, _progress_of, in_words, tasks_for


def test_a_fetch_of_the_connector_hardly_waits_for_records():
    """The connector reads what there is, and its next request waits behind the fetch."""
    assert kafka_options("here:9092", {})["kafka.fetch.max.wait.ms"] == "5"
    assert kafka_options("here:9092", {"fetch.max.wait.ms": "9"})["kafka.fetch.max.wait.ms"] == "9"


def test_the_event_topics_are_asked_for_although_they_are_internal():
    options = kafka_options("here:9092", {"security.protocol": "SASL_SSL"})
    assert options["kafka.exclude.internal.topics"] == "false"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    kinds = ("requests", "throttles", "connections", "quota_changes", "client_telemetry")
    assert all(re.fullmatch(options["subscribePattern"], f"__weir_{kind}") for kind in kinds)
    assert not re.fullmatch(options["subscribePattern"], "__weir_requests_of_mine")


@pytest.mark.parametrize(
    ("records", "tasks"),
    [
        (0, 1),
        (RECORDS_OF_A_TASK, 1),
        *((2 * RECORDS_OF_A_TASK + more, 2 + min(more, 0)) for more in (-1, 0, 1)),
    ],
)
def test_a_task_reads_its_share_of_the_records_at_least(records, tasks):
    assert tasks_for(records) == tasks


def test_a_batch_is_reported_with_its_rate_and_what_is_still_to_come():
    progress = {
        "batchId": 3,
        "numInputRows": 12_000,
        "processedRowsPerSecond": 2_400.4,
        "durationMs": {"triggerExecution": 5_000},
        "sources": [{"metrics": {"maxOffsetsBehindLatest": "1500"}}, {"metrics": None}],
    }
    assert in_words(progress) == "batch 3: 12,000 records in 5.0 s (2,400/s), 1,500 behind"


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (0, "No records are left"),
        (1, "All records that were there at the start are read; 1 came meanwhile, for the next run"),
        (
            MOST_COUNTED,
            "All records that were there at the start are read; 100,000 came meanwhile, for the next run",
        ),
        (
            MOST_COUNTED + 1,
            "All records that were there at the start are read; more than 100,000 came meanwhile, for the "
            "next run",
        ),
    ],
)
def test_no_records_are_left_only_if_none_are(warehouse, monkeypatch, waiting, words):
    asked = []

    def count(_spark, bootstrap, _options, read, most):
        asked.append((bootstrap, read))
        return min(waiting, most)

    monkeypatch.setattr(sources, "waiting", count)
    monkeypatch.setattr(streaming, "newest", lambda *_: {("t", 0): 5})
    stream = Stream(warehouse, "here:9092", {}, 1)
    assert stream.left() == words
    assert asked == [("here:9092", {("t", 0): 5})]


def test_nothing_is_said_of_what_cannot_be_counted(warehouse, monkeypatch):
    def fail(*_):
        raise ConnectionError

    monkeypatch.setattr(sources, "waiting", fail)
    left = Stream(warehouse, "here:9092", {}, 1).left()
    assert left == "All records that were there at the start are read"


class Query:
    """A query of Spark, as it stands at each look: whether a batch runs, and the last one that has ended."""

    def __init__(self, *looks):
        self._looks = iter(looks)

    def awaitTermination(self, _seconds):
        is_active, last = next(self._looks)
        self.status = {"isTriggerActive": is_active}
        progress = {"numInputRows": 1, "processedRowsPerSecond": 1, "durationMs": {}, "sources": []}
        self.recentProgress = [progress | {"batchId": batch} for batch in range(last + 1)]
        return self._looks.__length_hint__() == 0

    def stop(self):
        pass


@pytest.mark.parametrize(
    ("looks", "signs"),
    [
        ([(True, -1)] * 3, 0),
        ([(False, -1)] * 3, 3),
        ([(True, 0)] * 3, 1),
        ([(True, 0), (True, 1)], 2),
    ],
)
def test_a_sign_of_life_is_a_batch_that_has_ended_or_that_none_runs(monkeypatch, looks, signs):
    seen = []
    monkeypatch.setattr(alive, "touch", lambda: seen.append(True))
    list(_progress_of(Query(*looks), lambda: None))
    assert len(seen) == signs
