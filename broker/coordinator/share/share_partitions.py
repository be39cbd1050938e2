"""The share partitions that this broker leads, their locks, and the writes of their state. (Kafka:
SharePartitionManager)

Called by the handlers of ShareFetch and ShareAcknowledge, the timer of the locks, and `dead_letters`. A share
partition is read from its stored state with the first fetch, and dropped when its state is set anew or
deleted. The settings of a group are read whenever they are needed, so that a change applies from the next
acquisition on. (Kafka: GroupConfig)
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from broker.common.clock import Clock
from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Slices
from broker.config.sections.share_groups import (
    DELIVERY_LIMIT,
    EARLIEST,
    ISOLATION_LEVEL,
    LATEST,
    LOCK_DURATION,
    MAX_LOCKS,
    OFFSET_RESET,
    READ_COMMITTED,
    RENEW_ACKNOWLEDGE,
    SHARE,
    SharePartitionConfig,
    duration_ms,
)
from broker.coordinator.share.dead_letters import NO_DEAD_LETTERS, DeadLetterSettings, dead_letter_settings
from broker.coordinator.share.persister import (
    READ_UNINITIALIZED,
    ShareStatePersister,
    StateWrite,
    WrittenState,
)
from broker.coordinator.share.share_partition import (
    DEFAULT_LIMITS,
    Lock,
    ShareLimits,
    SharePartition,
    Span,
    StateChange,
)
from broker.coordinator.share.state_log import ShareState
from broker.coordinator.share.states import NOT_SET, SharePartitionKey
from broker.log.partition import PartitionLog
from broker.partitions.partitions import LEADER_EPOCH, Partitions
from broker.purgatory.timing_wheel import Timer


class ShareSettings(NamedTuple):
    """`auto_offset_reset` is `latest`, `earliest`, or `by_duration:` with an ISO 8601 duration."""

    record_lock_duration_ms: int = 30_000
    auto_offset_reset: str = LATEST
    is_committed: bool = False
    """Whether the group reads committed records only."""
    renews: bool = True
    """Whether members can renew their locks."""
    limits: ShareLimits = DEFAULT_LIMITS
    dead_letters: DeadLetterSettings = NO_DEAD_LETTERS


SettingsOf = Callable[[str], ShareSettings]
"""Returns the settings of a group by its id."""


def share_settings(configs: Mapping[str, str], config: SharePartitionConfig) -> ShareSettings:
    """Return the settings of a group with these configs of its own, which are valid. A number outside the
    broker's range, which may have changed since, counts as the limit.
    """
    dead_letters = dead_letter_settings(configs, config)
    return ShareSettings(
        config.record_lock_duration.of_group(configs, f"{SHARE}.{LOCK_DURATION}"),
        configs.get(OFFSET_RESET.key, LATEST).strip(),
        configs.get(ISOLATION_LEVEL.key, "").strip() == READ_COMMITTED,
        RENEW_ACKNOWLEDGE.read(configs.get(RENEW_ACKNOWLEDGE.key, "true")),
        ShareLimits(
            config.delivery_limit.of_group(configs, f"{SHARE}.{DELIVERY_LIMIT}"),
            config.record_locks.of_group(configs, f"{SHARE}.{MAX_LOCKS}"),
            bool(dead_letters.topic),
        ),
        dead_letters,
    )


logger = logging.getLogger(__name__)

LOCKS_AT_ONCE: Final = 16
"""Locks that end in one turn; ours."""

LEFT_AT_ONCE: Final = 64
"""Share partitions in which members that have left release their records in one turn; ours."""

STATE_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of the stored state, as ShareFetch and ShareAcknowledge answer them. (Kafka: fetchPersisterError)"""

FENCING: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors after which the share partition is read anew."""


class StagedChange(NamedTuple):
    """A change whose record is staged, or None for one without a record."""

    key: SharePartitionKey
    partition: SharePartition
    change: StateChange
    written: WrittenState | None


class SharePartitions:
    """The share partitions of one broker.

    `settings_of` returns the settings of a group. `wake` is called with each share partition of which records
    became available, or which has ended.
    """

    def __init__(
        self,
        partitions: Partitions,
        persister: ShareStatePersister,
        settings_of: SettingsOf,
        clock: Clock,
        wake: Callable[[SharePartition], None],
    ) -> None:
        self.settings_of = settings_of
        self._partitions = partitions
        self._persister = persister
        self._clock = clock
        self.wake = wake
        self._loaded: dict[SharePartitionKey, SharePartition] = {}
        self._locks = Timer()
        self._leaving: deque[tuple[str, SharePartitionKey]] = deque()
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each deadline that is added, in ms."""
        self.on_undelivered: Callable[[SharePartitionKey], None] = lambda _key: None
        """Called with each share partition of which records wait for the dead letter queue."""
        persister.on_reset = self.drop

    def get(self, key: SharePartitionKey) -> SharePartition | None:
        """Return the share partition if it was read, with the limits that its group has now."""
        known = self._loaded.get(key)
        if known is not None:
            known.limits = self.settings_of(key.group_id).limits
        return known

    def is_loaded(self, key: SharePartitionKey) -> bool:
        """Return whether `load` need not read the state."""
        return key in self._loaded

    def load(self, key: SharePartitionKey, log: PartitionLog) -> Slices[SharePartition]:
        """Return the share partition; read its state if necessary, and decide where it starts.

        Where it starts is stored before anything is delivered. Raises ApiError.
        """
        known = self.get(key)
        if known is not None:
            return known
        if self._read(key).start_offset == NOT_SET:
            start = yield from self._first_offset(log, self.settings_of(key.group_id))
            state = self._read(key)
            if state.start_offset == NOT_SET:
                self._store_start(key, state.state_epoch, start)
        known = self._loaded.get(key)
        if known is None:
            state = self._read(key)
            limits = self.settings_of(key.group_id).limits
            known = SharePartition(state.start_offset, state.batches, limits, state.state_epoch)
            self._loaded[key] = known
            if known.undelivered():
                self.on_undelivered(key)
        known.forget_before(log.log_start_offset)
        return known

    def _read(self, key: SharePartitionKey) -> ShareState:
        state = self._persister.state(key)
        if state is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, READ_UNINITIALIZED)
        if state.leader_epoch > LEADER_EPOCH:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return state

    def _first_offset(self, log: PartitionLog, settings: ShareSettings) -> Slices[int]:
        """Return the offset at which a group starts that has none. (Kafka: startOffsetDuringInitialization)

        Without records as young as a duration, the end.
        """
        if settings.auto_offset_reset == EARLIEST:
            return log.log_start_offset
        age_ms = duration_ms(settings.auto_offset_reset)
        if age_ms is not None:
            found = yield from log.offset_for_timestamp(self._clock.wall_ms() - age_ms)
            if found is not None:
                return found[0]
        return log.high_watermark

    def _store_start(self, key: SharePartitionKey, state_epoch: int, start: int) -> None:
        try:
            written = self._persister.stage_write(key, StateWrite(state_epoch, LEADER_EPOCH, start, ()))
        except ApiError as error:
            raise ApiError(STATE_ERRORS.get(error.code, error.code), error.message) from error
        self._persister.commit()
        code = self._persister.settle(written)
        if code:
            raise ApiError(STATE_ERRORS.get(code, code))

    # Locks

    def new_lock(self, key: SharePartitionKey, member: str) -> Lock:
        """Return the lock of an acquisition that begins now."""
        duration_ms = self.settings_of(key.group_id).record_lock_duration_ms
        return Lock(key, member, self._clock.ms() + duration_ms)

    def hold(self, lock: Lock) -> None:
        """Let a lock end in time, if it holds anything."""
        if lock.runs:
            self._locks.add(lock, self._clock.ms())
            self.on_deadline(lock.expiration_ms)

    def next_deadline(self) -> int | None:
        """Return the monotonic time of the next `expire`, in ms."""
        return self._clock.ms() if self._leaving else self._locks.next_deadline()

    def expire(self, now_ms: int) -> None:
        """End some of the locks that are due: their records become available, or are archived after their
        last delivery. Release the records of some members that have left.

        Never call it between staging and commit of another append.
        """
        self._release_left()
        changes = []
        for lock in self._locks.advance(now_ms, LOCKS_AT_ONCE):
            assert isinstance(lock, Lock)
            partition = self.get(lock.key)
            if partition is not None:
                changes.append((lock.key, partition, partition.expired(lock)))
        self._store_now(changes)

    # Changes

    def stage(self, key: SharePartitionKey, partition: SharePartition, change: StateChange) -> StagedChange:
        """Stage the record of a change. Raises ApiError; the change is withdrawn then."""
        if not change.batches:
            return StagedChange(key, partition, change, None)
        write = StateWrite(partition.state_epoch, LEADER_EPOCH, change.start_offset, change.batches)
        try:
            written = self._persister.stage_write(key, write)
        except ApiError as error:
            self._complete(key, partition, change, is_stored=False)
            code = STATE_ERRORS.get(error.code, error.code)
            if code in FENCING:
                self.drop(key)
            raise ApiError(code, error.message) from error
        return StagedChange(key, partition, change, written)

    def settle(self, staged: StagedChange) -> ErrorCode:
        """Apply a change after the commit, or withdraw it and return the error."""
        key, partition, change, written = staged
        error = ErrorCode.NONE if written is None else self._persister.settle(written)
        self._complete(key, partition, change, is_stored=not error)
        if change.batches:
            self.wake(partition)
        if error:
            code = STATE_ERRORS.get(error, error)
            if code in FENCING:
                self.drop(key)
            return code
        return ErrorCode.NONE

    def _complete(
        self, key: SharePartitionKey, partition: SharePartition, change: StateChange, *, is_stored: bool
    ) -> None:
        partition.complete(change, is_stored=is_stored)
        if change.has_undelivered:
            self.on_undelivered(key)

    def archive(self, key: SharePartitionKey, partition: SharePartition, spans: Iterable[Span]) -> None:
        """Archive records that waited for the dead letter queue; see SharePartition.archive.

        Never call it between staging and commit of another append.
        """
        self._store_now([(key, partition, partition.archive(spans))])

    def release(self, member: str, key: SharePartitionKey) -> StagedChange | None:
        """Stage the release of everything that a member holds in a share partition; None if it holds nothing,
        or if that cannot be stored, so that its lock releases it.
        """
        partition = self.get(key)
        if partition is None:
            return None
        try:
            staged = self.stage(key, partition, partition.release(member))
        except ApiError as error:
            logger.warning(
                "records of a member cannot be released",
                extra={"group": key.group_id, "reason": error.code.name},
            )
            return None
        return staged if staged.written is not None else None

    def release_soon(self, member: str, keys: Iterable[SharePartitionKey]) -> None:
        """Let the next calls of `expire` release everything that a member holds."""
        self._leaving.extend((member, key) for key in keys)
        if self._leaving:
            self.on_deadline(self._clock.ms())

    def _release_left(self) -> None:
        staged = []
        for _ in range(min(len(self._leaving), LEFT_AT_ONCE)):
            each = self.release(*self._leaving.popleft())
            if each is not None:
                staged.append(each)
        self.settle_now(staged)

    def settle_now(self, staged: Iterable[StagedChange]) -> list[tuple[SharePartitionKey, ErrorCode]]:
        """Commit and apply changes; return the errors of those that were not written."""
        staged = list(staged)
        if any(each.written is not None for each in staged):
            self._persister.commit()
        return [(each.key, error) for each in staged if (error := self.settle(each))]

    def drop(self, key: SharePartitionKey) -> None:
        """Forget a share partition; the next fetch reads its state again."""
        partition = self._loaded.pop(key, None)
        if partition is not None:
            partition.fence()
            self.wake(partition)

    def _store_now(self, changes: list[tuple[SharePartitionKey, SharePartition, StateChange]]) -> None:
        staged = []
        for key, partition, change in changes:
            try:
                staged.append(self.stage(key, partition, change))
            except ApiError as error:
                logger.warning(
                    "the new state of records cannot be stored",
                    extra={"group": key.group_id, "reason": error.code.name},
                )
                self.wake(partition)
        self.settle_now(staged)
