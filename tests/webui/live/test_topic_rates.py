"""The rates of topics, and the groups that read them: over how long, from when on, and after a topic is made
anew.
"""

from collections.abc import Iterable, Iterator

import pytest

from broker.controller.rows.topics import TopicCounts, TopicRow
from broker.metadata.image import Image
from broker.views.topics import TopicViews
from tests.webui.rows import topic
from webui.live.topic_rates import COUNTED_MS, FORGOTTEN_MS, LEAST_MS, OVER_MS, TopicRates


class Counted(TopicViews):
    """One topic with these counts."""

    def __init__(self) -> None:
        super().__init__(Image)
        self.counts: TopicCounts | None = TopicCounts(0, 0, 0)
        self.groups: list[Iterable[str] | None] | None = []

    def each_topic(self) -> Iterator[TopicRow | None]:
        yield None
        yield topic("orders", counts=self.counts)

    def topics_of_groups(self) -> Iterator[Iterable[str] | None] | None:
        return None if self.groups is None else iter(self.groups)


@pytest.fixture
def views() -> Counted:
    return Counted()


@pytest.fixture
def rates(views: Counted) -> TopicRates:
    return TopicRates(views)


def row_at(rates: TopicRates, now_ms: int) -> TopicRow:
    (row,) = (row for row in rates.rows(now_ms) if row is not None)
    return row


@pytest.mark.parametrize(("passed", "known"), [(LEAST_MS - 1, False), (LEAST_MS, True), (LEAST_MS + 1, True)])
def test_the_first_rate_needs_a_least_time(
    rates: TopicRates, views: Counted, passed: int, known: bool
) -> None:
    assert row_at(rates, 0).bytes_in_per_s is None
    views.counts = TopicCounts(5, 1_000, 3_000)
    row = row_at(rates, passed)
    assert (row.bytes_in_per_s is not None) is known
    if known:
        assert row.bytes_in_per_s == 1_000 * 1_000 / passed
        assert row.bytes_out_per_s == 3_000 * 1_000 / passed
        assert row.records_in_per_s == 5 * 1_000 / passed


def test_a_rate_is_that_of_the_last_ten_to_twenty_seconds(rates: TopicRates, views: Counted) -> None:
    for second in range(31):
        views.counts = TopicCounts(second * 10, second * 100, None)
        row = row_at(rates, second * 1_000)
    assert (row.records_in_per_s, row.bytes_in_per_s, row.bytes_out_per_s) == (10.0, 100.0, None)
    for second in range(31, 31 + 2 * OVER_MS // 1_000 + 1):
        row = row_at(rates, second * 1_000)
    assert row.records_in_per_s == 0.0


@pytest.mark.parametrize(
    ("passed", "known"), [(FORGOTTEN_MS - 1, True), (FORGOTTEN_MS, False), (FORGOTTEN_MS + 1, False)]
)
def test_a_rate_of_long_ago_is_none(rates: TopicRates, passed: int, known: bool) -> None:
    row_at(rates, 0)
    assert (row_at(rates, passed).records_in_per_s is not None) is known


def test_a_topic_that_was_made_anew_has_no_negative_rate(rates: TopicRates, views: Counted) -> None:
    views.counts = TopicCounts(1_000, 1_000, 0)
    row_at(rates, 0)
    views.counts = TopicCounts(1, 10, 0)
    assert row_at(rates, 1_000).records_in_per_s is None
    views.counts = TopicCounts(3, 30, 0)
    assert row_at(rates, 2_000).records_in_per_s == 2.0


def test_a_topic_without_counts_has_no_rate(rates: TopicRates, views: Counted) -> None:
    views.counts = None
    row_at(rates, 0)
    assert row_at(rates, 5_000).records_in_per_s is None


@pytest.mark.parametrize(("passed", "count"), [(COUNTED_MS - 1, 2), (COUNTED_MS, 1), (COUNTED_MS + 1, 1)])
def test_groups_are_counted_every_ten_seconds(
    rates: TopicRates, views: Counted, passed: int, count: int
) -> None:
    views.groups = [{"orders", "clicks"}, None, {"orders": 7}, set()]
    assert row_at(rates, 0).groups == 2
    views.groups = [{"orders"}]
    assert row_at(rates, passed).groups == count


def test_groups_that_were_not_read_yet_are_not_counted_as_none(rates: TopicRates, views: Counted) -> None:
    views.groups = None
    assert row_at(rates, 0).groups is None
    views.groups = []
    assert row_at(rates, 1).groups == 0


def test_a_row_of_the_same_reading_keeps_its_rate(rates: TopicRates, views: Counted) -> None:
    row_at(rates, 0)
    views.counts = TopicCounts(100)
    assert row_at(rates, 20_000).records_in_per_s == 5.0
    assert row_at(rates, 20_000).records_in_per_s == 5.0


def test_topics_that_are_gone_are_forgotten(rates: TopicRates, views: Counted) -> None:
    rates.with_rates(topic("gone", counts=TopicCounts(1)), 0)
    row_at(rates, FORGOTTEN_MS - 1)
    assert "gone" in rates._newer
    row_at(rates, 2 * FORGOTTEN_MS)
    assert "gone" not in rates._newer
