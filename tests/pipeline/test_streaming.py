"""The stream's connector options, and its progress messages."""

import re

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.sources import kafka_options
from pipeline.streaming import in_words


def test_the_event_topics_are_asked_for_although_they_are_internal():
    options = kafka_options("here:9092", {"security.protocol": "SASL_SSL"})
    assert options["kafka.exclude.internal.topics"] == "false"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    kinds = ("requests", "throttles", "connections", "quota_changes", "client_telemetry")
    assert all(re.fullmatch(options["subscribePattern"], f"__weir_{kind}") for kind in kinds)
    assert not re.fullmatch(options["subscribePattern"], "__weir_requests_of_mine")


def test_a_batch_is_reported_with_its_rate_and_what_is_still_to_come():
    progress = {
        "batchId": 3,
        "numInputRows": 12_000,
        "processedRowsPerSecond": 2_400.4,
        "durationMs": {"triggerExecution": 5_000},
        "sources": [{"metrics": {"maxOffsetsBehindLatest": "1500"}}, {"metrics": None}],
    }
    assert in_words(progress) == "batch 3: 12,000 records in 5.0 s (2,400/s), 1,500 behind"
