"""The rates of Kafka's own tools are read from what they print."""

import pytest

from benchmarks.java_client import fetched_records_per_second, produced_records_per_second

PRODUCED = """\
174561 records sent, 34905.2 records/sec (33.29 MB/sec), 571.2 ms avg latency, 1056.0 ms max latency.
600000 records sent, 50256.3 records/sec (47.93 MB/sec), 481.10 ms avg latency, 1056.00 ms max latency.
"""
FETCHED = """\
WARNING: a line of the tool, not of the table
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-11-23 12:00:00:000, 2026-11-23 12:00:05:000, 572.2046, 114.4409, 600000, 120000.0, 3500, \
1500, 381.4697, 400000.0
"""


def test_a_producer_s_rate_is_that_of_all_records() -> None:
    assert produced_records_per_second(PRODUCED) == 50256.3


def test_a_consumer_s_rate_is_without_the_wait_for_the_group() -> None:
    assert fetched_records_per_second(FETCHED) == 400000.0


def test_a_tool_that_prints_no_rate_is_a_failure() -> None:
    with pytest.raises(ValueError, match="no rate"):
        produced_records_per_second("nothing\n")
    with pytest.raises(ValueError, match="no table"):
        fetched_records_per_second("nothing\n")
