"""Events of the gateway, written to topics of the upstream cluster."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.config.load import load
from broker.gateway.event_topics import AT_ONCE, FOUND_WITHIN, KEPT_BYTES, UNSENT, UpstreamTopics
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.partitions.event_log import BATCH_BYTES, RECORD_OVERHEAD
from broker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.records.build import NewRecord
from broker.records.walk import records

TOPIC = "__weir_requests"
CONFIG = load(None, ["events.topics.partitions=3"], {}).config


class Upstream:
    """Two nodes that lead the partitions 0 to 2 in turn. `appended` has (node, partition, records)."""

    def __init__(self) -> None:
        self.exists = True
        self.found_after = 0
        self.codes: list[int] = []
        self.errors: list[UpstreamError] = []
        self.appended: list[tuple[int | None, int, int]] = []
        self.values: list[tuple[int, bytes]] = []
        self.leaderless: int | None = None
        self.created: list[Any] = []
        self.descriptions = 0
        self.on_request: Callable[[], None] = lambda: None

    async def request(
        self, node_id: int | None, message: Any, version: int | None = None, *, lane: str = "", **range_: int
    ) -> Any:
        await trio.lowlevel.checkpoint()
        self.on_request()
        assert lane == "events"
        if self.errors:
            raise self.errors.pop(0)
        match message.API_KEY:
            case 0:
                return self._append(node_id, message)
            case 3:
                return MetadataResponse(topics=[self._describe(message.topics[0].name)])
            case 19:
                self.created += message.topics
                self.exists = True
                return CreateTopicsResponse(topics=[CreatableTopicResult(message.topics[0].name)])
        raise AssertionError(message)

    def _describe(self, name: str) -> MetadataResponseTopic:
        self.descriptions += 1
        if self.created and self.found_after:
            self.found_after -= 1
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        if not self.exists:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        partitions = [
            MetadataResponsePartition(0, index, -1 if index == self.leaderless else index % 2)
            for index in range(3)
        ]
        return MetadataResponseTopic(0, name, partitions=partitions)

    def _append(self, node_id: int | None, message: Any) -> ProduceResponse:
        (data,) = message.topic_data[0].partition_data
        code = self.codes.pop(0) if self.codes else 0
        if not code:
            found = [bytes(each.value or b"") for each in records(data.records)]
            self.appended.append((node_id, data.index, len(found)))
            self.values += [(data.index, value) for value in found]
        answer = PartitionProduceResponse(data.index, code)
        return ProduceResponse([TopicProduceResponse(TOPIC, partition_responses=[answer])])


class Empty(Upstream):
    """Has nothing in its responses to requests of one API."""

    def __init__(self, api_key: int) -> None:
        super().__init__()
        self.api_key = api_key
        self.exists = False

    async def request(
        self, node_id: int | None, message: Any, version: int | None = None, *, lane: str = "", **range_: int
    ) -> Any:
        answer = await super().request(node_id, message, version, lane=lane)
        return answer if self.api_key != message.API_KEY else type(answer)()


@pytest.mark.parametrize(
    ("api_key", "reason"),
    [
        (0, f"Produce of {TOPIC}: the response has no partition"),
        (19, f"CreateTopics of {TOPIC}: the response has no topic"),
    ],
)
async def test_a_response_without_what_was_asked_for_ends_no_task(api_key: int, reason: str) -> None:
    topics = filled(Empty(api_key))
    await topics.append(0)
    assert topics.errors == {TOPIC: reason}
    assert counted(topics) == (0, 1, 0)


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


def filled(upstream: Upstream, records: int = 1, size: int = 10) -> UpstreamTopics:
    topics = UpstreamTopics(upstream, lambda: CONFIG)
    for _ in range(records):
        assert topics.offer(TOPIC, NewRecord(None, bytes(size), 1_000))
    return topics


def counted(topics: UpstreamTopics) -> tuple[int, int, int]:
    """Written, dropped and waiting records."""
    waiting = topics.topics[TOPIC]
    return waiting.written, waiting.dropped, len(waiting.records)


async def test_batches_go_to_the_leaders_of_the_partitions_in_turn(upstream: Upstream) -> None:
    topics = filled(upstream, 8, BATCH_BYTES // 2)
    await topics.append(0)
    assert upstream.appended == [(0, 0, 2), (1, 1, 2), (0, 2, 2), (0, 0, 2)]
    assert counted(topics) == (8, 0, 0)
    assert upstream.descriptions == 1
    await topics.append(0)
    assert len(upstream.appended) == 4


async def test_a_key_decides_the_partition(upstream: Upstream) -> None:
    topics = filled(upstream, 0)
    keys = [b"alice/app", b"bob/", None, b"alice/app", b"10.0.0.1", b"alice/app"]
    for number, key in enumerate(keys):
        topics.offer(TOPIC, NewRecord(key, b"%d" % number, 1_000))
    await topics.append(0)
    wanted = Counter(0 if key is None else crc32(key) % 3 for key in keys)
    assert {partition for _, partition, _ in upstream.appended} == set(wanted)
    found: Counter[int] = Counter()
    for node, partition, count in upstream.appended:
        assert node == partition % 2
        found[partition] += count
    assert found == wanted
    numbers = [value for partition, value in upstream.values if partition == crc32(b"alice/app") % 3]
    assert [each for each in numbers if each in (b"0", b"3", b"5")] == [b"0", b"3", b"5"]


async def test_records_of_a_partition_without_a_leader_wait_for_it(
    upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    topics = filled(upstream, 0)
    keys = [b"%d" % number for number in range(30)]
    for key in keys:
        topics.offer(TOPIC, NewRecord(key, key, 1_000))
    upstream.leaderless = 1
    late = [key for key in keys if crc32(key) % 3 == 1]
    assert 0 < len(late) < 30
    for _ in range(3):
        await topics.append(0)
        assert counted(topics) == (30 - len(late), 0, len(late))
    assert {partition for _, partition, _ in upstream.appended} == {0, 2}
    assert [each.getMessage() for each in caplog.records] == ["cannot write events upstream"]
    assert topics.errors == {TOPIC: f"Produce of {TOPIC}-1: LEADER_NOT_AVAILABLE"}
    upstream.leaderless = None
    later = next(number for number in range(30, 99) if crc32(b"%d" % number) % 3 == 1)
    topics.offer(TOPIC, NewRecord(b"%d" % later, b"%d" % later, 1_000))
    await topics.append(0)
    assert counted(topics) == (31, 0, 0)
    assert [value for partition, value in upstream.values if partition == 1] == [*late, b"%d" % later]
    assert topics.errors == {}


async def test_a_missing_topic_is_created_and_awaited(upstream: Upstream, autojump_clock: Any) -> None:
    upstream.exists, upstream.found_after = False, FOUND_WITHIN - 1
    topics = filled(upstream)
    await topics.append(0)
    (created,) = upstream.created
    assert (created.name, created.num_partitions, created.replication_factor) == (TOPIC, 3, -1)
    assert counted(topics) == (1, 0, 0)


async def test_the_records_of_a_topic_that_does_not_appear_wait_for_it(
    upstream: Upstream, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.exists, upstream.found_after = False, FOUND_WITHIN
    topics = filled(upstream, 5)
    await topics.append(0)
    assert counted(topics) == (0, 0, 5)
    assert [each.getMessage() for each in caplog.records] == ["cannot write events upstream"]
    await topics.append(0)
    assert counted(topics) == (5, 0, 0)


NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
INVALID = ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([NOT_LEADER], (1, 0, 0)),
        ([NOT_LEADER, NOT_LEADER], (0, 0, 1)),
        ([INVALID], (1, 0, 0)),
        ([INVALID, INVALID], (0, 1, 0)),
        ([INVALID, NOT_LEADER], (0, 1, 0)),
        ([NOT_LEADER, INVALID], (0, 1, 0)),
        ([NOT_LEADER, 12_345], (0, 1, 0)),
    ],
)
async def test_a_refused_batch_is_tried_once_more_with_fresh_metadata(
    upstream: Upstream, codes: list[int], expected: tuple[int, int, int]
) -> None:
    topics = filled(upstream)
    upstream.codes = list(codes)
    await topics.append(0)
    assert counted(topics) == expected
    assert upstream.descriptions == 2


@pytest.mark.parametrize("reason", Reason)
async def test_a_batch_that_may_be_written_is_not_written_later(upstream: Upstream, reason: Reason) -> None:
    topics = filled(upstream)
    # The first error is that of Metadata, before any batch; the next two are those of Produce.
    await topics.append(0)
    topics.offer(TOPIC, NewRecord(None, b"x", 1_000))
    upstream.errors = [UpstreamError(reason, "node 0")] * 2
    await topics.append(0)
    assert counted(topics) == ((1, 0, 1) if reason in UNSENT else (1, 1, 0))


async def test_a_cluster_that_cannot_be_reached_is_asked_for_one_batch_a_second(upstream: Upstream) -> None:
    topics = filled(upstream, 8, BATCH_BYTES // 2)
    upstream.errors = [UpstreamError(Reason.REFUSED, "node 0")]
    await topics.append(0)
    assert (upstream.errors, upstream.appended) == ([], [])
    # 1 MiB of the 8 records of 128 KiB.
    assert counted(topics) == (0, 1, 7)
    await topics.append(0)
    assert counted(topics) == (7, 1, 0)


@pytest.mark.parametrize(("excess", "kept"), [(-1, 4), (0, 4), (1, 3)])
async def test_the_newest_records_wait_as_many_as_fit(upstream: Upstream, excess: int, kept: int) -> None:
    topics = filled(upstream, 0)
    sizes = [KEPT_BYTES // 4 - RECORD_OVERHEAD] * 3 + [KEPT_BYTES // 4 - RECORD_OVERHEAD + excess]
    for number, size in enumerate(sizes):
        topics.offer(TOPIC, NewRecord(None, b"%d" % number + bytes(size - 1), 1_000))
    upstream.errors = [UpstreamError(Reason.REFUSED, "node 0")]
    await topics.append(0)
    assert counted(topics) == (0, 4 - kept, kept)
    await topics.append(0)
    assert sorted(value[:1] for _, value in upstream.values) == [b"%d" % each for each in range(4 - kept, 4)]


@pytest.mark.parametrize(
    ("count", "requests"), [(AT_ONCE - 1, 1), (AT_ONCE, 1), (AT_ONCE + 1, 2), (2 * AT_ONCE, 2)]
)
async def test_many_records_are_written_in_parts(upstream: Upstream, count: int, requests: int) -> None:
    topics = filled(upstream, count, 1)
    await topics.append(0)
    assert counted(topics) == (count, 0, 0)
    assert len(upstream.appended) == requests


async def test_failing_is_logged_once_and_so_is_its_end(
    upstream: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    topics = filled(upstream)
    for _ in range(3):
        upstream.errors = [UpstreamError(Reason.REFUSED, "127.0.0.1:1: refused")] * 2
        await topics.append(0)
        topics.offer(TOPIC, NewRecord(None, b"x", 1_000))
    upstream.errors = []
    await topics.append(0)
    assert counted(topics) == (4, 0, 0)
    assert [each.getMessage() for each in caplog.records] == [
        "cannot write events upstream",
        "events are written upstream again",
    ]


async def test_records_may_be_offered_meanwhile(upstream: Upstream) -> None:
    topics = filled(upstream)
    upstream.on_request = lambda: topics.drop(f"__weir_{upstream.descriptions}", 1)
    await topics.append(0)
    assert counted(topics) == (1, 0, 0)


class Refusing(Upstream):
    """Refuses the batches of the topics in `refused`."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def request(
        self, node_id: int | None, message: Any, version: int | None = None, *, lane: str = "", **range_: int
    ) -> Any:
        if message.API_KEY == 0 and message.topic_data[0].name in self.refused:
            self.codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        return await super().request(node_id, message, version, lane=lane)


async def test_a_topic_that_fails_beside_one_that_does_not_is_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    upstream = Refusing()
    topics = UpstreamTopics(upstream, lambda: CONFIG)

    async def append(*names: str) -> None:
        for name in names:
            topics.offer(name, NewRecord(None, b"x", 1_000))
        await topics.append(0)

    await append("a", "b")
    assert (caplog.messages, topics.errors) == ([], {})
    upstream.refused = {"a"}
    for _ in range(3):
        await append("a", "b")
    assert caplog.messages == ["cannot write events upstream"]
    assert topics.errors == {"a": "Produce of a-0: TOPIC_AUTHORIZATION_FAILED"}
    assert [(each.written, each.dropped) for each in topics.topics.values()] == [(1, 3), (4, 0)]
    upstream.refused = set()
    await append("b")
    assert topics.errors.keys() == {"a"}, "nothing was written to it"
    for _ in range(2):
        await append("a", "b")
    assert caplog.messages == ["cannot write events upstream", "events are written upstream again"]
    assert topics.errors == {}
