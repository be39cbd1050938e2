"""UpstreamReadings: when a part is read again, and what is told of the last reading, at exact times."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ApiError, ErrorCode
from broker.controller.rows.upstream import ReadState, RefusedRead
from broker.gateway.contents.readings import MAX_NAMED, MAX_NAMED_AT_ONCE, WAIT_S, UpstreamReadings
from broker.gateway.contents.refusals import Notes
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.protocol.api_key import ApiKey
from broker.views.readings import Part
from tests.support.clock import ManualClock

MAX_AGE_S = 10.0


class Cluster:
    """What is read, and how. `reads` are the names that were read."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.takes_s = 0.0
        self.error: Exception | None = None
        self.refuses = False
        self.clock = ManualClock()
        readers = dict.fromkeys(Part, self.read)
        self.readings = UpstreamReadings(readers, round(MAX_AGE_S * 1_000), self.clock)

    async def read(self, name: str, notes: Notes) -> Any:
        self.reads.append(name)
        await trio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        if self.refuses:
            notes.note(ApiKey.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders")
            notes.note(ApiKey.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "bills")
        return len(self.reads)

    def value(self) -> Any:
        return self.readings.value(Part.TOPICS)


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.readings.run)
        yield cluster
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("age_s", "reads"), [(9.999, 1), (10.0, 2), (10.001, 2)])
async def test_it_is_read_again_at_its_age(autojump_clock: MockClock, age_s: float, reads: int) -> None:
    async with running() as cluster:
        await cluster.readings.fresh(Part.TOPICS)
        await trio.sleep(age_s)
        await cluster.readings.fresh(Part.TOPICS)
        assert (len(cluster.reads), cluster.value()) == (reads, reads)


async def test_nobody_who_looks_nothing_that_is_read(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        await trio.sleep(3_600)
        assert cluster.reads == []
        assert cluster.readings.state(Part.TOPICS) == ReadState()


async def test_who_asks_at_the_same_time_waits_for_the_same_reading(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        cluster.takes_s = 1.0
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(cluster.readings.fresh, Part.TOPICS)
            cluster.readings.want(Part.TOPICS)
        assert len(cluster.reads) == 1


@pytest.mark.parametrize(("takes_s", "read_again_s"), [(0.9, 10.0), (1.0, 10.0), (1.1, 11.0)])
async def test_what_takes_long_is_read_a_tenth_of_the_time(
    autojump_clock: MockClock, takes_s: float, read_again_s: float
) -> None:
    async with running() as cluster:
        cluster.takes_s = takes_s
        begun = trio.current_time()
        await cluster.readings.fresh(Part.TOPICS)
        await trio.sleep_until(begun + read_again_s - 0.01)
        cluster.readings.want(Part.TOPICS)
        assert len(cluster.reads) == 1
        await trio.sleep_until(begun + read_again_s + 0.01)
        cluster.readings.want(Part.TOPICS)
        await wait_all_tasks_blocked()
        assert len(cluster.reads) == 2


async def test_a_failure_leaves_the_last_value_with_its_age(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        await cluster.readings.fresh(Part.TOPICS)
        read_ms = cluster.clock.wall_ms()
        cluster.error = UpstreamError(Reason.TIMEOUT, "node 1: no response")
        cluster.clock.advance(10_000)
        await trio.sleep(MAX_AGE_S)
        await cluster.readings.fresh(Part.TOPICS)
        assert cluster.value() == 1
        assert cluster.readings.state(Part.TOPICS) == ReadState("node 1: no response", (), read_ms)
        await cluster.readings.fresh(Part.TOPICS)
        assert len(cluster.reads) == 2
        cluster.error = None
        await trio.sleep(MAX_AGE_S)
        await cluster.readings.fresh(Part.TOPICS)
        assert cluster.value() == 3
        assert cluster.readings.state(Part.TOPICS) == ReadState("", (), cluster.clock.wall_ms())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamError(Reason.TIMEOUT, "why"), ErrorCode.BROKER_NOT_AVAILABLE),
        (ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "why"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
async def test_without_any_value_the_error_is_raised(
    autojump_clock: MockClock, error: Exception, code: ErrorCode
) -> None:
    async with running() as cluster:
        cluster.error = error
        for _ in range(2):
            with pytest.raises(ApiError) as caught:
                await cluster.readings.fresh(Part.TOPICS)
            assert (caught.value.code, caught.value.message) == (code, "why")
        assert len(cluster.reads) == 1
        assert cluster.readings.state(Part.TOPICS) == ReadState("why")


@pytest.mark.parametrize("takes_s", [WAIT_S - 0.01, WAIT_S + 0.01])
async def test_a_frozen_cluster_holds_nobody_for_longer_than_five_seconds(
    autojump_clock: MockClock, takes_s: float
) -> None:
    async with running() as cluster:
        cluster.takes_s = takes_s
        begun = trio.current_time()
        if takes_s < WAIT_S:
            await cluster.readings.fresh(Part.TOPICS)
        else:
            with pytest.raises(ApiError, match="still being read"):
                await cluster.readings.fresh(Part.TOPICS)
        assert trio.current_time() - begun == pytest.approx(min(takes_s, WAIT_S))
        cluster.readings.outdate(Part.TOPICS)
        await trio.sleep(1)
        begun, cluster.takes_s = trio.current_time(), 3_600
        await cluster.readings.fresh(Part.TOPICS)
        assert (trio.current_time() - begun, cluster.value()) == (pytest.approx(WAIT_S), 1)


async def test_a_change_during_a_reading_is_read_after_it(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        cluster.takes_s, begun = 1.0, trio.current_time()
        cluster.readings.want(Part.TOPICS)
        await trio.sleep(0.5)
        cluster.readings.outdate(Part.TOPICS)
        await cluster.readings.fresh(Part.TOPICS)
        assert (trio.current_time() - begun, cluster.value()) == (2.0, 2)
        for _ in range(2):
            # Once more, since brokers learn of a change one after the other.
            await cluster.readings.fresh(Part.TOPICS)
            assert cluster.value() == 3


@pytest.mark.parametrize(("later_s", "reads"), [(0.99, 2), (1.0, 3), (1.01, 3)])
async def test_after_a_change_it_is_read_at_once_and_again_a_second_later(
    autojump_clock: MockClock, later_s: float, reads: int
) -> None:
    async with running() as cluster:
        await cluster.readings.fresh(Part.TOPICS)
        cluster.readings.outdate(Part.TOPICS)
        await cluster.readings.fresh(Part.TOPICS)
        await cluster.readings.fresh(Part.TOPICS)
        assert cluster.value() == 2
        await trio.sleep(later_s)
        await cluster.readings.fresh(Part.TOPICS)
        assert cluster.value() == reads
        await trio.sleep(MAX_AGE_S - 1.1)
        await cluster.readings.fresh(Part.TOPICS)
        assert len(cluster.reads) <= 3


async def test_what_is_refused_is_told_once_with_the_acl_that_it_wants(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        cluster.refuses = True
        await cluster.readings.fresh(Part.TOPICS)
        state = cluster.readings.state(Part.TOPICS)
        assert state is not None
        assert state.refused == (
            RefusedRead(
                "DescribeConfigs", "TOPIC_AUTHORIZATION_FAILED", "DESCRIBE_CONFIGS", "TOPIC", "orders", 2
            ),
        )


async def test_the_last_hundred_names_are_kept(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        names = [f"topic-{number}" for number in range(MAX_NAMED)]
        for name in names:
            await cluster.readings.fresh(Part.TOPIC_CONFIGS, name)
        await cluster.readings.fresh(Part.TOPIC_CONFIGS, names[0])
        assert cluster.reads == names
        await cluster.readings.fresh(Part.TOPIC_CONFIGS, "one-more")
        await cluster.readings.fresh(Part.TOPIC_CONFIGS, names[0])
        assert cluster.reads == [*names, "one-more"]
        await cluster.readings.fresh(Part.TOPIC_CONFIGS, names[1])
        assert cluster.reads == [*names, "one-more", names[1]]


@pytest.mark.parametrize(("before", "is_read"), [(-1, True), (0, False), (1, False)])
async def test_so_many_names_are_read_at_once(autojump_clock: MockClock, before: int, is_read: bool) -> None:
    async with running() as cluster:
        cluster.takes_s = 60.0
        for number in range(MAX_NAMED_AT_ONCE + before):
            cluster.readings.want(Part.GROUP, f"group-{number}")
        begun = trio.current_time()
        with pytest.raises(ApiError, match="still being read"):
            await cluster.readings.fresh(Part.GROUP, "one-more")
        assert trio.current_time() - begun == (WAIT_S if is_read else 0)
        assert ("one-more" in cluster.reads) is is_read
        with pytest.raises(ApiError, match="still being read"):
            await cluster.readings.fresh(Part.GROUPS)
        assert "" in cluster.reads
        await trio.sleep(60.0)
        cluster.takes_s = 0.0
        await cluster.readings.fresh(Part.GROUP, "one-more")
        assert cluster.reads.count("one-more") == 1


async def test_nothing_is_read_before_it_runs(autojump_clock: MockClock) -> None:
    cluster = Cluster()
    with pytest.raises(ApiError, match="still being read"):
        await cluster.readings.fresh(Part.TOPICS)
    assert cluster.reads == []


@pytest.mark.parametrize("age_s", [0.0, 0.001, 9.999])
async def test_a_change_is_decided_by_a_reading_that_begins_after_it(
    autojump_clock: MockClock, age_s: float
) -> None:
    async with running() as cluster:
        await cluster.readings.fresh(Part.TOPICS)
        await trio.sleep(age_s)
        await cluster.readings.now(Part.TOPICS)
        assert (len(cluster.reads), cluster.value()) == (2, 2)
        await cluster.readings.fresh(Part.TOPICS)
        assert len(cluster.reads) == 2


async def test_a_change_does_not_count_on_a_reading_that_runs_already(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        cluster.takes_s = 2.0
        cluster.readings.want(Part.TOPICS)
        await trio.sleep(1)
        await cluster.readings.now(Part.TOPICS)
        assert (trio.current_time(), cluster.value()) == (4.0, 2)


async def test_a_change_is_not_decided_by_an_earlier_reading(autojump_clock: MockClock) -> None:
    async with running() as cluster:
        await cluster.readings.fresh(Part.TOPICS)
        cluster.error = UpstreamError(Reason.REFUSED, "node 0: refused")
        with pytest.raises(ApiError, match="node 0: refused"):
            await cluster.readings.now(Part.TOPICS)
        await cluster.readings.fresh(Part.TOPICS)
        assert cluster.value() == 1
        cluster.error, cluster.takes_s = None, WAIT_S + 1
        with pytest.raises(ApiError):
            await cluster.readings.now(Part.TOPICS)
