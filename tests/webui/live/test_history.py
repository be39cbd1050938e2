"""The last day at decreasing resolution."""

import math

import pytest

from broker.controller.rows.broker import PhaseRow, QueueRow
from broker.controller.rows.upstream import GatewaySums
from tests.webui.rows import broker_metrics
from webui.live.history import KEPT_S, TIERS, History, sample_json


def test_the_first_figures_have_nothing_to_be_compared_with() -> None:
    history = History()
    assert history.add(broker_metrics(), 1_000) is None and history.last is None
    assert dict(history.columns(10))["at_ms"] == []


def test_a_rate_is_the_difference_over_the_time_that_passed() -> None:
    history = History()
    history.add(broker_metrics(bytes_in_total=1_000, bytes_out_total=0, requests_total=5), 1_000)
    sample = history.add(
        broker_metrics(bytes_in_total=4_000, bytes_out_total=500, requests_total=6, throttled=2), 3_000
    )
    assert sample is not None
    assert (sample.bytes_in, sample.bytes_out, sample.requests, sample.throttled) == (1_500.0, 250.0, 0.5, 2)


def test_sums_of_other_gateways_are_added() -> None:
    history = History()
    others = GatewaySums(2, 30, 4, 1_000.0, 2_000.0, 3.0)
    history.add(broker_metrics(), 1_000, others)
    sample = history.add(broker_metrics(bytes_in_total=500, connections=1, throttled=2), 2_000, others)
    assert sample is not None
    own = broker_metrics()
    assert sample.bytes_in == 500 - own.bytes_in_total + 1_000
    assert (sample.bytes_out, sample.requests) == (2_000.0, 3.0)
    assert (sample.connections, sample.throttled) == (31, 6)


def test_a_clock_that_steps_back_gives_no_sample() -> None:
    history = History()
    history.add(broker_metrics(), 2_000)
    assert history.add(broker_metrics(), 2_000) is None
    assert history.add(broker_metrics(), 1_000) is None
    assert history.add(broker_metrics(), 2_000) is not None


def filled(seconds: int) -> History:
    """A thousand bytes more in every second, and a throttled client in every 600th."""
    history = History()
    for second in range(seconds + 1):
        throttled = 3 if second % 600 == 0 else 0
        history.add(
            broker_metrics(bytes_in_total=1_000 * second, connections=second % 10, throttled=throttled),
            second * 1_000,
        )
    return history


@pytest.mark.parametrize(
    ("seconds", "count", "step_s"), [(900, 900, 1), (901, 91, 10), (3_600, 361, 10), (3_601, 61, 60)]
)
def test_older_samples_are_coarser(seconds: int, count: int, step_s: int) -> None:
    columns = dict(filled(2 * 3_600).columns(seconds))
    assert len(columns["at_ms"]) == count
    assert columns["at_ms"][-3] - columns["at_ms"][-4] == step_s * 1_000
    assert set(columns["bytes_in"]) == {1_000.0}


def test_a_coarse_sample_is_the_mean_and_the_maximum_of_throttled_connections() -> None:
    columns = dict(filled(7_200).columns(6_000))
    at_600 = columns["at_ms"].index(6_659_000)
    assert columns["connections"][at_600] == 4.5
    # A client was throttled in second 6600; a mean would hide it.
    assert columns["throttled"][at_600] == 3 and columns["throttled"][at_600 + 1] == 0


def test_a_day_is_kept_and_no_more() -> None:
    history = filled(KEPT_S + 7_200)
    columns = dict(history.columns(KEPT_S))
    assert columns["at_ms"][-1] - columns["at_ms"][0] <= KEPT_S * 1_000
    assert len(columns["at_ms"]) in (1_440, 1_441)
    assert sum(len(tier.samples) for tier in history._tiers) == sum(kept for _, kept in TIERS)


def test_only_so_many_are_answered_the_newest() -> None:
    history = History()
    for second in range(5):
        history.add(broker_metrics(connections=second), second * 1_000)
    assert dict(history.columns(2))["connections"] == [3, 4]
    assert dict(history.columns(0))["connections"] == []
    assert dict(history.columns(99))["connections"] == [1, 2, 3, 4]


def test_a_sample_in_json_has_the_names_of_the_columns() -> None:
    history = History()
    history.add(broker_metrics(), 0)
    sample = sample_json(history.add(broker_metrics(), 1_000))
    assert sample is not None and sample.keys() == dict(history.columns(1)).keys()
    assert sample_json(None) is None


def test_queues_are_reported_at_their_highest_and_phases_of_the_slowest_requests() -> None:
    history = History()
    for second in range(21):
        phases = (
            PhaseRow("Produce", "LocalTimeMs", 1, 0.1, 2.0),
            PhaseRow("Fetch", "LocalTimeMs", 1, 0.1, 5.0 if second < 15 else 9.0),
            PhaseRow("Metadata", "LocalTimeMs", 0, math.nan, math.nan),
            PhaseRow("Fetch", "RequestQueueTimeMs", 0, math.nan, math.nan),
            PhaseRow("Fetch", "RemoteTimeMs", 9, 400.0, 500.0),
            PhaseRow("Produce", "RemoteTimeMs", 9, 1.0, 3.0 if second < 15 else 4.0),
        )
        full = second == 12
        now = broker_metrics(
            memory_pool_size=100,
            memory_pool_used=90 if full else 10,
            queues=(QueueRow("requests", 7 if full else 0, 500, 7), QueueRow("responses", 99, 0, 99)),
            phases=phases,
        )
        history.add(now, second * 1_000)
    columns = dict(history.columns(901))
    assert (columns["memory_pool_used"][1], columns["requests_queued"][1]) == (90, 7)
    assert (columns["local_ms"][1], columns["queue_ms"][1]) == (7.0, None)
    assert columns["produce_remote_ms"][1] == 3.5
    assert history.last is not None and (history.last.local_ms, history.last.requests_queued) == (9.0, 0)


def test_no_pool_is_not_an_empty_one() -> None:
    history = History()
    for second, size in ((0, None), (1, None), (2, 100)):
        history.add(broker_metrics(memory_pool_size=size, memory_pool_used=0), second * 1_000)
    assert dict(history.columns(9))["memory_pool_used"] == [None, 0]
