"""Requests for a partition and the expected responses, in any version, with or without a session."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from broker.common.errors import ErrorCode
from broker.log.partition import PartitionLog
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.api.harness import WALL_MS, Asking, Connection, Harness

WAIT_MS = 1_000
NO_TOPIC = bytes(range(16))
NONE = ErrorCode.NONE

ALONE, NEW, RESUMED = "without a session", "a new session", "a session that goes on"
Prepare = Callable[[Harness, pytest.MonkeyPatch], None]


def nothing(harness: Harness, patch: pytest.MonkeyPatch) -> None:
    """Leave the partition as created, with three records."""


@dataclass(frozen=True)
class Case:
    """A request for the topic `other`, or for a missing topic, and its expected response.

    `waits`: the fetch waits beside a partition without new records. `by_id` is the error in versions with
    topic ids.
    """

    name: str
    error: ErrorCode
    waits: bool
    by_id: ErrorCode | None = None
    topic: str = "other"
    partition: int = 0
    offset: int = 3
    epoch: int = -1
    since: int = 4
    """The first version that supports the request."""
    prepare: Prepare = nothing

    def __str__(self) -> str:
        return self.name


UNKNOWN = Case(
    "unknown topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, ErrorCode.UNKNOWN_TOPIC_ID, "gone"
)
EMPTY = Case("empty", NONE, True, topic="empty", offset=0)
FULL = Case("full", NONE, True, topic="full", offset=0)


def pass_ms(harness: Harness, ms: int) -> None:
    harness.clock.advance(ms)
    harness.fetches.complete_expired(harness.clock.ms())
    harness.deliver()


def log_of(harness: Harness, topic: str) -> PartitionLog:
    log = harness.partitions.log(topic, 0)
    assert log is not None
    return log


class Asker:
    """Requests partitions in one version and one way, and reads their entries of the response."""

    def __init__(self, harness: Harness, version: int, way: str) -> None:
        self.harness = harness
        self.version = version
        self.way = way
        self.connection = Connection()
        self._id, self._epoch = 0, -1 if way == ALONE else 0
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        """Includes deleted topics."""

    def topic(self, case: Case) -> FetchTopic:
        partition = FetchPartition(
            case.partition,
            fetch_offset=case.offset,
            partition_max_bytes=100_000,
            current_leader_epoch=case.epoch,
        )
        if self.version < 13:
            return FetchTopic(case.topic, partitions=[partition])
        topic = self.harness.control.image.topics.get(case.topic)
        if topic is not None:
            self._ids[case.topic] = topic.topic_id
        topic_id = self._ids.get(case.topic, NO_TOPIC)
        self._names[topic_id] = case.topic
        return FetchTopic(topic_id=topic_id, partitions=[partition])

    async def begin(self, *cases: Case) -> None:
        """Create the session and name its partitions, if there is to be a session."""
        if self.way == RESUMED:
            self.errors_of(await self.put(*cases, max_wait_ms=0))

    async def put(self, *cases: Case, max_wait_ms: int = WAIT_MS, min_bytes: int = 1) -> Asking:
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1_000_000,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[self.topic(case) for case in cases],
        )
        return await self.harness.put(message, self.version, connection=self.connection)

    def errors_of(self, asking: Asking) -> dict[tuple[str, int], ErrorCode]:
        answer = self.harness.answer(asking)
        assert answer.error_code == NONE
        if self.way != ALONE:
            self._id, self._epoch = answer.session_id, self._epoch + 1
        return {
            (topic.topic or self._names[topic.topic_id], each.partition_index): ErrorCode(each.error_code)
            for topic in answer.responses
            for each in topic.partitions
        }

    def error(self, case: Case) -> ErrorCode:
        return case.by_id if case.by_id is not None and self.version >= 13 else case.error


async def prepare(harness: Harness) -> None:
    """Create `empty` with no records, `full` with one and `other` with three."""
    for name in ("empty", "full", "other"):
        await harness.create_topic(name)
    harness.append("full", WALL_MS)
    for _ in range(3):
        harness.append("other", WALL_MS)
