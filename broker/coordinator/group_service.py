"""The group coordinator with its log, __consumer_offsets.

Called by the group handlers of `api` and by the group timer. Stages the records of coordinator calls; their
replies may be sent after the commit, and failed writes are rolled back. Independent of messages and
connections: a request's token identifies its reply. (Kafka: CoordinatorRuntime, GroupCoordinatorService)
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from broker.common.errors import ApiError, BrokerBug, ErrorCode
from broker.common.slices import Steps
from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.expiry import OnTimerFailure
from broker.coordinator.group.groups import StreamsSettingsOf, TimesOf
from broker.coordinator.group.messages import CommittedOffset, Effects, Now, Record
from broker.coordinator.group.records import decode_key
from broker.coordinator.offsets_log import OffsetsLog
from broker.coordinator.share.states import ShareStateSummary
from broker.coordinator.topic_logs import TopicLogs, coordinator_partition
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.partitions.partitions import Partitions

logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"


UNKNOWN_LAG: Final = -1
NO_LEADER: Final = (
    "There is no leader for this topic-partition as we are in the middle of a leadership election."
)

LEAST_LAG: Final = -1 << 63
"""The least number that a message can have."""

ShareSummary = Callable[[str, bytes, int], ShareStateSummary | None]
"""Returns what is known of the state of a share partition: by group id, topic id and partition."""

Written = list[tuple[OffsetsLog, list[Record]]]


class Writing:
    """The effects of one call while its records are being written."""

    __slots__ = ("effects", "producer", "staged", "written")

    def __init__(
        self,
        effects: Effects,
        written: Written,
        staged: Sequence[Staged],
        producer: tuple[int, int] | None = None,
    ) -> None:
        self.effects = effects
        self.producer = producer
        self.written = written
        self.staged = staged

    @property
    def error(self) -> ErrorCode | None:
        """The first error of the staged records. Valid after the commit."""
        return next((each.error for each in self.staged if each.error is not None), None)


class GroupService:
    """The service, one per broker. Read-only calls go directly to `coordinator`.

    `share_summary` has the states of share groups; the server sets it when it builds them.
    """

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        partitions: Partitions,
        topics: Callable[[], ClusterTopics],
        times_of: TimesOf,
        share_times_of: TimesOf,
        streams_settings_of: StreamsSettingsOf,
    ) -> None:
        """`topics` returns the topics of the cluster, `times_of` the settings of a consumer group,
        `share_times_of` those of a share group and `streams_settings_of` those of a streams group.
        """
        self.coordinator = GroupCoordinator(
            config, consumer, share, topics, times_of, share_times_of, streams_settings_of
        )
        self.coordinator.groups.is_writable = self._is_writable
        self.next_deadline = self.coordinator.next_deadline
        self._partitions = partitions
        self._logs = TopicLogs(OFFSETS_TOPIC, partitions, OffsetsLog, logger, "consumer groups")
        self._open: list[Writing] = []
        self.rebalances: Counter[str] = Counter()
        """Those since the start, by type of group: see `Effects.rebalances`."""
        self.share_summary: ShareSummary = lambda _group_id, _topic_id, _partition: None

    @property
    def is_available(self) -> bool:
        """Whether groups can be queried."""
        return self._logs.is_available

    def load(self, now: Now) -> None:
        """Load all groups, once, before the first request. Blocks."""
        for log in self._logs.read():
            self._logs.replay(log.values.items(), self.coordinator.replay)
            for producer_id, key, value in log.pending:
                self._pend(producer_id, ((key, value),))
        if not self._logs.is_unreadable:
            self.write_now(self.coordinator.loaded(now), now)

    def _pend(self, producer_id: int, written: Iterable[Record]) -> None:
        self._logs.replay(written, partial(self.coordinator.offsets.replay_pending, producer_id))

    def write(self, effects: Effects, now: Now, producer: tuple[int, int] | None = None) -> Writing:
        """Stage the records of `effects`; call `settle` after the commit.

        `producer`: the id and epoch in whose transaction the records are.
        """
        try:
            written = self._sort(effects.records)
            prepared = [(log, log.prepare(added, now.wall_ms, producer)) for log, added in written]
            staged = [each for log, batches in prepared for each in log.stage_prepared(batches, now.wall_ms)]
        except ApiError as error:
            return Writing(self.coordinator.roll_back(effects, error.code, now), [], ())
        writing = Writing(effects, written, staged, producer)
        self._open.append(writing)
        return writing

    def settle(self, writing: Writing, now: Now) -> Effects:
        """Return the replies to send after the commit. Rolls back failed calls, the latest first."""
        if writing.error is not None:
            for each in reversed(self._open):
                error = each.error
                if error is not None:
                    each.effects = self.coordinator.roll_back(each.effects, error, now)
                    each.written, each.staged = [], ()
        if writing in self._open:
            self._open.remove(writing)
        for kind in writing.effects.rebalances:
            self.rebalances[kind] += 1
        for log, added in writing.written:
            if writing.producer is None:
                log.keep(added)
                self.coordinator.offsets.written(added)
            else:
                log.pend(writing.producer[0], added)
                self._pend(writing.producer[0], added)
        if not self._open:  # nothing is written that is not applied
            for log, _ in writing.written:
                log.tidy(now.wall_ms, self._partitions.commit)
        return writing.effects

    def expire(self, now: Now, on_failure: OnTimerFailure | None = None) -> Effects:
        """Handle due timers and commit their records. `on_failure`: see `TimerExpiry.expire`.

        Never call it between staging and commit of another append.
        """
        return self.write_now(self.coordinator.expire(now, on_failure), now)

    def committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return the offsets whose records are written, by topic and partition: those of a call that is being
        written do not count yet. It is the group's own mapping where no call changes it. (Kafka:
        OffsetMetadataManager.fetchOffsets at the last committed offset)
        """
        offsets = self.coordinator.offsets.committed(group_id)
        before: dict[str, dict[int, CommittedOffset | None]] = {}
        for writing in self._open:
            for owner, topic, partition, previous in writing.effects.overwritten:
                if owner == group_id:
                    before.setdefault(topic, {}).setdefault(partition, previous)
        if not before:
            return offsets
        written = dict(offsets)
        for topic, some in before.items():
            merged = {**offsets.get(topic, {}), **some}
            written[topic] = {at: offset for at, offset in merged.items() if offset is not None}
        return {topic: some for topic, some in written.items() if some}

    def log_of(self, group_id: str) -> PartitionLog:
        """Return the log with the group's offsets. Raises ApiError."""
        return self._logs.of(group_id).log

    def _is_writable(self, group_id: str) -> bool:
        if not self._partitions.store.offline:
            return True
        try:
            return self.log_of(group_id).offline is None
        except ApiError:
            return False

    def end_transaction(self, producer_id: int, index: int, *, is_commit: bool) -> None:
        """Apply a marker that was written to a partition of the offsets topic."""
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return
        count = topic.count
        self._logs.at(topic, index).end_transaction(producer_id, is_commit=is_commit)
        self.coordinator.offsets.end_transaction(
            producer_id,
            lambda group_id: coordinator_partition(group_id, count) == index,
            [each.effects for each in self._open if each.producer is None],
            is_commit=is_commit,
        )

    def lag(self, group_id: str) -> Steps[tuple[int, int]]:
        """Return the number of records after the group's positions, and how many of them are lost: the log
        has deleted them before the group read them.

        Opens no log.
        """
        behind = lost = 0
        offsets = yield from self.positions(group_id)
        for topic in list(offsets):
            for index, committed in list(offsets.get(topic, {}).items()):
                end = self._partitions.end_offset(topic, index)
                if end is not None:  # otherwise the log is unavailable, and its lag unknown
                    behind += max(end - committed.offset, 0)
                    start = self._partitions.start_offset(topic, index) or 0
                    lost += max(start - committed.offset, 0)
                yield
        return behind, lost

    def share_lag(self, topic: str, index: int, summary: ShareStateSummary) -> int:
        """Return the number of records of a share partition that a group has still to complete; -1 without a
        start offset, and another negative number if the group starts behind the end. Raises ApiError
        LEADER_NOT_AVAILABLE if the partition is offline. (KIP-1226)
        """
        if summary.start_offset < 0 or summary.complete < 0:
            return UNKNOWN_LAG
        end = self._end_offset(topic, index)
        return max(end - summary.start_offset - summary.complete, LEAST_LAG)

    def _end_offset(self, topic: str, index: int) -> int:
        """Return the high watermark of a partition; opens its log if it exists. Raises ApiError
        LEADER_NOT_AVAILABLE.
        """
        end = self._partitions.end_offset(topic, index)
        if end is None:
            with suppress(ApiError):
                self._partitions.log(topic, index)
            end = self._partitions.end_offset(topic, index)
        if end is None or self._partitions.is_offline(topic, index):
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        return end

    def topics(self, group_id: str) -> Collection[str]:
        """Return the topics in which a group has positions."""
        states = self.coordinator.share.states(group_id)
        if not states.initialized:
            return self.coordinator.offsets.committed(group_id).keys()
        return {topic for topic, _ in states.initialized.values()}

    def positions(self, group_id: str) -> Steps[Mapping[str, Mapping[int, CommittedOffset]]]:
        """Return where a group reads on, by topic and partition: its committed offsets, or the start offsets
        of a share group, as far as they are chosen.
        """
        states = self.coordinator.share.states(group_id)
        if not states.initialized:
            return self.coordinator.offsets.committed(group_id)
        found: dict[str, dict[int, CommittedOffset]] = {}
        for topic_id, (topic, partitions) in states.initialized.items():
            for index in sorted(partitions):
                summary = self.share_summary(group_id, topic_id, index)
                if summary is not None and summary.start_offset >= 0:
                    start = CommittedOffset(summary.start_offset, summary.leader_epoch, "", 0)
                    found.setdefault(topic, {})[index] = start
                yield
        return found

    def write_now(self, effects: Effects, now: Now) -> Effects:
        """Write the records of a call and return the replies. Commits as `expire` does."""
        if not effects.records:
            return effects
        writing = self.write(effects, now)
        self._partitions.commit()
        return self.settle(writing, now)

    def _sort(self, new: list[Record]) -> Written:
        """Group the records by their partition. Raises ApiError."""
        topic = self._logs.hosted()
        if topic.count == 1:
            return [(self._logs.at(topic, 0), new)]
        by_partition: dict[int, list[Record]] = {}
        for record in new:
            index = coordinator_partition(_group_of(record[0]), topic.count)
            by_partition.setdefault(index, []).append(record)
        return [(self._logs.at(topic, index), added) for index, added in by_partition.items()]


def _group_of(key: bytes) -> str:
    decoded = decode_key(key)
    if decoded is None:
        raise BrokerBug("a group record has an unknown key type")
    return decoded.group_id
