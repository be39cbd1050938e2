"""The group coordinator with its log, __consumer_offsets. (Kafka: CoordinatorRuntime,
GroupCoordinatorService)

Called by the group handlers of `api` and by the groups' timer. What a call to the coordinator records is
staged here, and the answers may leave when it has been committed; what could not be written is taken back.
Knows neither messages nor connections: a token goes in with a request and comes out with its reply.

The coordinator's state is one value for each key, so the log is replayed from the last value of each. That
would grow without end, so the values that count are written again from time to time and everything before
them is deleted: what compaction does for Kafka, done by the only one who writes here.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.config.rooms.groups import GroupConfig
from broker.errors import ApiError, BrokerBug, ErrorCode
from broker.groups.coordinator import GroupCoordinator
from broker.groups.records import UnreadableRecord, decode_key
from broker.groups.replies import Effects, Record
from broker.groups.requests import Now
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.records.build import NewRecord, build_batch
from broker.records.header import header_at
from broker.records.walk import batches, records
from broker.services.coordinator_partition import coordinator_partition
from broker.services.partitions import Partitions

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"

CHUNK: Final = 4 * 1024 * 1024
"""Bytes of the log that are read at once when it is replayed."""

BATCH: Final = 256 * 1024
"""Bytes of keys and values in one batch, from which on another one is begun."""

SPARE: Final = 20_000
"""Records that no longer count, at which the log is written again at the earliest. Replaying takes about 6 us
a record, so they cost a start an eighth of a second.
"""


class Writing:
    """What one call led to, while its records are on their way to the log."""

    __slots__ = ("effects", "staged")

    def __init__(self, effects: Effects, staged: Sequence[Staged]) -> None:
        self.effects = effects
        self.staged = staged

    @property
    def error(self) -> ErrorCode | None:
        """Valid after the commit."""
        return next((each.error for each in self.staged if each.error is not None), None)


class GroupService:
    """One per broker. Calls that only read go to `coordinator` directly."""

    def __init__(self, config: GroupConfig, partitions: Partitions) -> None:
        self.coordinator = GroupCoordinator(config)
        self.next_deadline = self.coordinator.next_deadline
        self._partitions = partitions
        self._open: list[Writing] = []
        self._values: dict[bytes, bytes] = {}

    @property
    def is_available(self) -> bool:
        """Whether there is an offsets topic. Until somebody has looked for a coordinator there is none."""
        return OFFSETS_TOPIC in self._partitions.by_name

    def load(self, now: Now) -> None:
        """Once, before the first request; blocks. Raises ApiError where the disk refuses."""
        for log in self._logs():
            self._read(log)
        for key, value in self._values.items():
            try:
                self.coordinator.replay(key, value)
            except UnreadableRecord as error:
                logger.warning("a record of %s is passed over: %s", OFFSETS_TOPIC, error)
        self._write_now(self.coordinator.loaded(now), now)

    def write(self, effects: Effects, now: Now) -> Writing:
        """Stages the records of `effects`; `settle` is to be called once they have been committed."""
        try:
            staged = self._stage(effects.records, now.wall_ms)
        except ApiError as error:
            return Writing(self.coordinator.failed(effects, error.code, now), ())
        writing = Writing(effects, staged)
        self._open.append(writing)
        return writing

    def settle(self, writing: Writing, now: Now) -> Effects:
        """After the commit: what is to be answered. What failed is taken back, the last call first."""
        if writing.error is not None:
            for each in reversed(self._open):
                error = each.error
                if error is not None:
                    each.effects, each.staged = self.coordinator.failed(each.effects, error, now), ()
        if writing.staged:
            self._keep(writing.effects.records)
        if writing in self._open:
            self._open.remove(writing)
        return writing.effects

    def expire(self, now: Now) -> Effects:
        """Does what is due and commits what that records; never between somebody's staging and its commit."""
        return self._write_now(self.coordinator.expire(now), now)

    def topics_deleted(self, topics: Iterable[tuple[str, int]], now: Now) -> Effects:
        """(name, partitions) of topics that are gone: no group keeps offsets for them. Commits as `expire`
        does.
        """
        gone = {(name, index) for name, count in topics for index in range(count)}
        return self._write_now(self.coordinator.partitions_deleted(gone, now), now)

    def lag(self, group_id: str) -> int:
        """Records that the group has not committed yet, in the partitions for which it has committed
        anything.
        """
        behind = 0
        for topic, offsets in self.coordinator.committed(group_id).items():
            for index, committed in offsets.items():
                log = self._partitions.log(topic, index)
                if log is not None:
                    behind += max(log.high_watermark - committed.offset, 0)
        return behind

    def _logs(self) -> Iterator[PartitionLog]:
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        return iter(()) if topic is None else topic.logs()

    def _write_now(self, effects: Effects, now: Now) -> Effects:
        if not effects.records:
            return effects
        writing = self.write(effects, now)
        self._partitions.commit()
        return self.settle(writing, now)

    def _stage(self, new: Iterable[Record], wall_ms: int) -> list[Staged]:
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        by_partition: dict[int, list[NewRecord]] = {}
        for key, value in new:
            index = 0 if topic.count == 1 else coordinator_partition(_group_of(key), topic.count)
            by_partition.setdefault(index, []).append(NewRecord(key, value, wall_ms))
        staged = []
        for index, added in by_partition.items():
            log = topic.log(index)
            if log is None:
                raise BrokerBug(f"{OFFSETS_TOPIC} has no partition {index}")
            for some in _in_batches(added):
                staged.append(log.stage(build_batch(some), now_wall_ms=wall_ms, internal=True))
        return staged

    def _keep(self, written: Iterable[Record]) -> None:
        values = self._values
        for key, value in written:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def _read(self, log: PartitionLog) -> None:
        offset = log.log_start_offset
        while offset < log.high_watermark:
            chunk = log.read(offset, CHUNK, min_one_batch=True).read()
            for batch in batches(chunk):
                offset = header_at(batch).last_offset + 1
                try:
                    self._keep((each.key, each.value) for each in records(batch) if each.key is not None)
                except ApiError as error:
                    logger.error("a batch of %s before %d is passed over: %s", OFFSETS_TOPIC, offset, error)


def _group_of(key: bytes) -> str:
    decoded = decode_key(key)
    if decoded is None:
        raise BrokerBug("a record of no group")
    return decoded.group_id


def _in_batches(new: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size = 0
    for each in new:
        if size >= BATCH:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.key or b"") + len(each.value or b"")
    yield batch
