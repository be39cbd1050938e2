"""The group coordinator with its log, __consumer_offsets. (Kafka: CoordinatorRuntime,
GroupCoordinatorService)

Called by the group handlers of `api` and by the groups' timer. What a call to the coordinator records is
staged here, and the answers may leave when it has been committed; what could not be written is taken back.
Knows neither messages nor connections: a token goes in with a request and comes out with its reply.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from broker.config.sections.groups import GroupConfig
from broker.errors import ApiError, BrokerBug, ErrorCode
from broker.groups.coordinator import GroupCoordinator
from broker.groups.records import UnreadableRecord, decode_key
from broker.groups.replies import Effects, Record
from broker.groups.requests import Now
from broker.log.staged import Staged
from broker.services.coordinator_partition import coordinator_partition
from broker.services.offsets_log import OffsetsLog
from broker.services.partitions import HostedTopic, Partitions

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"

Written = list[tuple[OffsetsLog, list[Record]]]


class Writing:
    """What one call led to, while its records are on their way to the log."""

    __slots__ = ("effects", "staged", "written")

    def __init__(self, effects: Effects, written: Written, staged: Sequence[Staged]) -> None:
        self.effects = effects
        self.written = written
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
        self._logs: dict[int, OffsetsLog] = {}
        self._open: list[Writing] = []
        self._is_unreadable = False

    @property
    def is_available(self) -> bool:
        """Whether groups can be asked about. Until somebody has looked for a coordinator there is no offsets
        topic; and one that cannot be read is no reason to say that nothing was ever committed.
        """
        return OFFSETS_TOPIC in self._partitions.by_name and not self._is_unreadable

    def load(self, now: Now) -> None:
        """Once, before the first request; blocks."""
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        for index in range(0 if topic is None else topic.count):
            assert topic is not None
            try:
                log = self._log(topic, index)
                log.read()
            except ApiError as error:
                logger.error("there are no groups until the next start: %s", error)
                self._is_unreadable = True
                return
            self._replay(log.values)
        self._write_now(self.coordinator.loaded(now), now)

    def _replay(self, values: Mapping[bytes, bytes]) -> None:
        for key, value in values.items():
            try:
                self.coordinator.replay(key, value)
            except UnreadableRecord as error:
                logger.error("a record of %s is passed over: %s", OFFSETS_TOPIC, error)

    def write(self, effects: Effects, now: Now) -> Writing:
        """Stages the records of `effects`; `settle` is to be called once they have been committed."""
        try:
            written = self._sort(effects.records)
            staged = [each for log, added in written for each in log.stage(added, now.wall_ms)]
        except ApiError as error:
            return Writing(self.coordinator.failed(effects, error.code, now), [], ())
        writing = Writing(effects, written, staged)
        self._open.append(writing)
        return writing

    def settle(self, writing: Writing, now: Now) -> Effects:
        """After the commit: what is to be answered. What failed is taken back, the last call first."""
        if writing.error is not None:
            for each in reversed(self._open):
                error = each.error
                if error is not None:
                    each.effects = self.coordinator.failed(each.effects, error, now)
                    each.written, each.staged = [], ()
        if writing in self._open:
            self._open.remove(writing)
        for log, added in writing.written:
            log.keep(added)
            log.tidy(now.wall_ms, self._partitions.commit)
        return writing.effects

    def expire(self, now: Now) -> Effects:
        """Does what is due and commits what that records; never between somebody's staging and its commit."""
        return self._write_now(self.coordinator.expire(now), now)

    def partitions_deleted(self, group_id: str, partitions: Collection[tuple[str, int]], now: Now) -> Effects:
        """Topics are gone: the group keeps no offsets for these partitions. Commits as `expire` does."""
        return self._write_now(self.coordinator.partitions_deleted(group_id, partitions, now), now)

    def lag(self, group_id: str) -> int:
        """Records that the group has not committed yet, in the partitions for which it has committed
        anything.
        """
        behind = 0
        for topic, offsets in self.coordinator.committed(group_id).items():
            for index, committed in offsets.items():
                try:
                    log = self._partitions.log(topic, index)
                except ApiError:  # the disk refuses; nobody can tell
                    continue
                if log is not None:
                    behind += max(log.high_watermark - committed.offset, 0)
        return behind

    def _write_now(self, effects: Effects, now: Now) -> Effects:
        if not effects.records:
            return effects
        writing = self.write(effects, now)
        self._partitions.commit()
        return self.settle(writing, now)

    def _sort(self, new: list[Record]) -> Written:
        """The records by the partition that they belong to. Raises ApiError."""
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if topic.count == 1:
            return [(self._log(topic, 0), new)]
        by_partition: dict[int, list[Record]] = {}
        for record in new:
            index = coordinator_partition(_group_of(record[0]), topic.count)
            by_partition.setdefault(index, []).append(record)
        return [(self._log(topic, index), added) for index, added in by_partition.items()]

    def _log(self, topic: HostedTopic, index: int) -> OffsetsLog:
        """Raises ApiError. One that was deleted and made again begins anew."""
        log = topic.log(index)
        if log is None:
            raise BrokerBug(f"{OFFSETS_TOPIC} has no partition {index}")
        known = self._logs.get(index)
        if known is None or known.log is not log:
            known = self._logs[index] = OffsetsLog(log)
        return known


def _group_of(key: bytes) -> str:
    decoded = decode_key(key)
    if decoded is None:
        raise BrokerBug("a record of no group")
    return decoded.group_id
