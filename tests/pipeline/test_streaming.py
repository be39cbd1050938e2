"""The stream's connector options, and its progress messages."""

import re

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.sources import kafka_options
from pipeline.streaming import RECORDS_OF_A_TASK, in_words, tasks_for


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
