"""The durable state of share partitions, for their leader and for the share coordinator's APIs. (Kafka:
ShareCoordinatorService, DefaultStatePersister)

Called by `share_partitions`, the handlers of `api`, and the group coordinator, which uses only `initialize`,
`summary` and `delete`. A handler stages a write and applies it with `settle` after the commit;
a response reports success only after that. After a kill between the two, the record exists or does not, and
the next start reads what exists.

State epochs fence writers of an earlier initialization, leader epochs those of an earlier leader.
"""

import base64
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.share_groups import ShareCoordinatorConfig
from broker.coordinator.share.state_log import ShareState, ShareUpdate, StagedState, StateLog
from broker.coordinator.share.states import NOT_SET, SharePartitionKey, ShareStateSummary, StateBatch
from broker.coordinator.topic_logs import TopicLogs, coordinator_partition
from broker.partitions.partitions import Partitions

logger = logging.getLogger(__name__)

SHARE_STATE_TOPIC: Final = "__share_group_state"

WRITE_UNINITIALIZED: Final = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED: Final = "Read operation on uninitialized share partition not allowed."

LOG_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of the topic's log, as the share coordinator answers them."""

RETRY_MS: Final = 10_000
"""Time after a failed pruning; ours."""


class StateWrite(NamedTuple):
    """A change of a state. `start_offset` is -1 if it stays. `complete` is the number of records from the
    start offset on whose delivery is complete; -1 if the writer does not state it.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]
    complete: int = NOT_SET


class WrittenState(NamedTuple):
    """A write that is staged in `log`."""

    log: StateLog
    staged: StagedState


class ShareStatePersister:
    """The states of all share partitions, one object per broker.

    `create_topic` creates __share_group_state if it is missing; `on_reset` is called with the key of each
    state that is initialized or deleted, so that its leader reads it again.
    """

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        partitions: Partitions,
        clock: Clock,
        create_topic: Callable[[], Awaitable[None]],
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._clock = clock
        self._create_topic = create_topic
        self._logs = TopicLogs(
            SHARE_STATE_TOPIC,
            partitions,
            lambda log: StateLog(log, config.updates_per_snapshot),
            logger,
            "share groups",
        )
        self._prune_at_ms: int | None = None
        self.on_reset: Callable[[SharePartitionKey], None] = lambda _key: None
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with the time of the next `prune`, in ms."""

    # What the group coordinator uses

    async def initialize(self, group_id: str, topic_id: bytes, partition: int, start_offset: int) -> None:
        """Store a new state with nothing in flight, in place of any earlier one; durable on return.

        With a start offset of -1, the first fetch decides it by `share.auto.offset.reset`. Raises ApiError:
        COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR. If it is cancelled or killed, the old state or the new one
        applies.
        """
        if not self.is_available:
            await self._create_topic()
        key = SharePartitionKey(group_id, topic_id, partition)
        known = self.state(key)
        epoch = 0 if known is None else known.state_epoch + 1
        self._write_now(self.stage_initial(key, epoch, start_offset))

    def summary(self, group_id: str, topic_id: bytes, partition: int) -> ShareStateSummary | None:
        """Return where a share partition starts; None if it is not initialized."""
        state = self.state(SharePartitionKey(group_id, topic_id, partition))
        if state is None:
            return None
        return ShareStateSummary(state.start_offset, state.state_epoch, state.leader_epoch, state.complete)

    async def delete(self, group_id: str, topic_id: bytes, partition: int) -> None:
        """Forget a state; durable on return. Without one, nothing happens.

        Raises ApiError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
        """
        key = SharePartitionKey(group_id, topic_id, partition)
        if self.state(key) is not None:
            self._write_now(self.stage_deletion(key))

    # Reading

    @property
    def is_available(self) -> bool:
        """Whether the topic exists and was read."""
        return self._logs.is_available

    def load(self) -> None:
        """Read all states, once, before the first request. Blocks."""
        for _ in self._logs.read(opened_only=True):
            self._prune_later()

    def state(self, key: SharePartitionKey) -> ShareState | None:
        """Return the committed state, None if it is not initialized."""
        topic = self._partitions.by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        known = self._logs.by_index.get(partition_of(key, topic.count))
        kept = None if known is None else known.states.get(key)
        return None if kept is None else kept.state

    # Writing

    def stage_initial(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> WrittenState:
        """Stage a new state. Raises ApiError FENCED_STATE_EPOCH, and those of the log."""
        log = self._log_of(key)
        known = log.states.get(key)
        snapshot_epoch = leader_epoch = 0
        if known is not None:
            if known.state.state_epoch > state_epoch:
                raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
            snapshot_epoch, leader_epoch = known.state.snapshot_epoch + 1, known.state.leader_epoch
        wall_ms = self._clock.wall_ms()
        state = ShareState(snapshot_epoch, state_epoch, leader_epoch, start_offset, wall_ms, wall_ms, ())
        return WrittenState(log, self._staged(lambda: log.stage_state(key, state, wall_ms, is_reset=True)))

    def stage_write(self, key: SharePartitionKey, write: StateWrite) -> WrittenState:
        """Stage a change of a state.

        Raises ApiError: INVALID_REQUEST without a state, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, and those
        of the log.
        """
        log = self._log_of(key)
        kept = log.states.get(key)
        if kept is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, WRITE_UNINITIALIZED)
        state = kept.state
        if write.leader_epoch != -1 and state.leader_epoch > write.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if write.state_epoch != -1 and state.state_epoch > write.state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        start = write.start_offset if write.start_offset > state.start_offset else NOT_SET
        batches, stated = tuple(write.batches), _stated(state, write)
        update = ShareUpdate(state.snapshot_epoch, write.leader_epoch, start, batches, stated)
        wall_ms = self._clock.wall_ms()
        return WrittenState(log, self._staged(lambda: log.stage_update(key, kept, update, wall_ms)))

    def stage_deletion(self, key: SharePartitionKey) -> WrittenState:
        """Stage the deletion of a state. Raises ApiError."""
        log = self._log_of(key)
        wall_ms = self._clock.wall_ms()
        return WrittenState(log, self._staged(lambda: log.stage_state(key, None, wall_ms, is_reset=True)))

    def settle(self, written: WrittenState) -> ErrorCode:
        """Apply a committed write, or return the error of one that was not written."""
        log, staged = written
        error = log.settle(staged)
        if error:
            return LOG_ERRORS.get(error, error)
        if staged.is_reset:
            self.on_reset(staged.key)
        self._prune_later()
        return ErrorCode.NONE

    def commit(self) -> None:
        """Write everything that is staged in any log."""
        self._partitions.commit()

    # Pruning

    def next_deadline(self) -> int | None:
        """Return the monotonic time of the next `prune` in ms; None while nothing was written."""
        return self._prune_at_ms

    def prune(self, now_ms: int) -> None:
        """Remove what is obsolete. Never call it between staging and commit of another append."""
        self._prune_at_ms = None
        if not self.is_available:
            return
        wall_ms = self._clock.wall_ms()
        for log in self._logs.by_index.values():
            try:
                staged = log.stage_cold(wall_ms, self._config.cold_snapshot_interval_ms)
                gone = [key for key in log.states if key.topic_id not in self._partitions.by_id]
                staged += [log.stage_state(key, None, wall_ms, is_reset=True) for key in gone]
            except ApiError as error:
                logger.warning("%s-%d cannot be pruned: %s", log.log.topic, log.log.index, error)
                self._prune_at_ms = now_ms + RETRY_MS
                continue
            if staged:
                self._partitions.commit()
                for each in staged:
                    self.settle(WrittenState(log, each))
            log.delete_obsolete()
            if log.log.high_watermark > log.log.log_start_offset + len(log.states):
                self._prune_later()

    def _write_now(self, written: WrittenState) -> None:
        self._partitions.commit()
        error = self.settle(written)
        if error:
            raise ApiError(error)

    def _prune_later(self) -> None:
        if self._prune_at_ms is None:
            self._prune_at_ms = self._clock.ms() + self._config.prune_interval_ms
            self.on_deadline(self._prune_at_ms)

    @staticmethod
    def _staged(stage: Callable[[], StagedState]) -> StagedState:
        try:
            return stage()
        except ApiError as error:
            raise ApiError(LOG_ERRORS.get(error.code, error.code), error.message) from error

    def _log_of(self, key: SharePartitionKey) -> StateLog:
        """Return the log of the key's partition. Raises ApiError."""
        if not self.is_available:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            return self._logs.of(coordinator_key(key))
        except ApiError as error:
            raise ApiError(LOG_ERRORS.get(error.code, error.code), error.message) from error


def _stated(state: ShareState, write: StateWrite) -> int:
    """Return the number of complete records after a write that may come late. (Kafka:
    ShareCoordinatorShard.generateShareStateRecord)
    """
    if write.complete == NOT_SET or write.start_offset > state.start_offset:
        return write.complete
    if write.start_offset == state.start_offset:
        return max(write.complete, state.complete)
    return state.complete


def partition_of(key: SharePartitionKey, count: int) -> int:
    """Return the partition of __share_group_state with the state of `key`. (Kafka: partitionFor)"""
    return coordinator_partition(coordinator_key(key), count)


def coordinator_key(key: SharePartitionKey) -> str:
    """Return Kafka's "group:topicId:partition", as in FindCoordinator. (Kafka: asCoordinatorKey)"""
    topic = base64.urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return f"{key.group_id}:{topic}:{key.partition}"


def is_coordinator_key(key: str) -> bool:
    """Return whether a key has the form "group:topicId:partition". (Kafka: SharePartitionKey.validate)"""
    parts = key.rsplit(":", 2)
    if len(parts) < 3 or not parts[0].strip() or not re.fullmatch(r"[0-9]{1,10}", parts[2]):
        return False
    return re.fullmatch(r"[A-Za-z0-9_-]{22}", parts[1]) is not None
