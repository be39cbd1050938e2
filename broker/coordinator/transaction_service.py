"""The transaction coordinator with its log, __transaction_state, and the markers that it writes.

Called by the transaction handlers of `api`, by Produce and TxnOffsetCommit to verify their partitions, and by
the transaction timer. A handler stages a change, which `settle` applies after the commit; the timer then
writes the markers of a decided transaction, a few at a time, and its completion. So a kill at any point
leaves in the log what the next start needs to go on: a decided transaction is completed, an ongoing one times
out. (Kafka: TransactionCoordinator, TransactionMarkerChannelManager)
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.common.limited_lines import LimitedLines, shown
from broker.config.sections.transactions import TransactionConfig
from broker.coordinator.group.groups import COORDINATOR_ERRORS
from broker.coordinator.group.messages import Now
from broker.coordinator.group_service import OFFSETS_TOPIC, GroupService
from broker.coordinator.offsets_log import OffsetsLog
from broker.coordinator.topic_logs import TopicLogs, coordinator_partition
from broker.coordinator.transaction.changes import fence
from broker.coordinator.transaction.coordinator import RETRY_MS, TransactionCompletion, TransactionCoordinator
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.coordinator.transaction.state import (
    DECIDED,
    CoordinatorAbort,
    TopicPartition,
    Transaction,
    TransactionChange,
    TransactionState,
)
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.partitions.partitions import LEADER_EPOCH, Partitions
from broker.records.control import Marker

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC: Final = "__transaction_state"

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
TIMED_OUT: Final = "timed_out"
ABORTED_BY_OPERATOR: Final = "aborted_by_operator"
DECISIONS: Final = (COMMITTED, ABORTED, TIMED_OUT, ABORTED_BY_OPERATOR)
"""ABORTED: by the producer, or by an InitProducerId of the same transactional id."""

MARKERS_AT_ONCE: Final = 64
"""Markers written between two pauses, in about a millisecond; ours."""


LOGGED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The refusals with a line in the log: those that a repeated request does not mend. The authorizer has lines
of its own.
"""


class RefusedRequest(NamedTuple):
    """A refused request, for its line in the log. `principal` is a text such as "User:alice"."""

    transactional_id: str
    producer_id: int
    epoch: int
    error: ErrorCode
    api: str
    principal: str
    host: str


class WrittenChange(NamedTuple):
    """A change whose record is staged in `log`."""

    change: TransactionChange
    log: OffsetsLog
    staged: list[Staged]


class _WrittenMarker(NamedTuple):
    """A marker that is staged, or the reason why it is not."""

    completion: TransactionCompletion
    partition: TopicPartition
    log: PartitionLog | None
    result: Staged | ErrorCode


class TransactionService:
    """The service, one per broker. Read-only calls go directly to `coordinator`."""

    def __init__(self, config: TransactionConfig, partitions: Partitions, groups: GroupService) -> None:
        self.coordinator = TransactionCoordinator(config)
        self._partitions = partitions
        self._groups = groups
        self._logs = TopicLogs(TRANSACTIONS_TOPIC, partitions, OffsetsLog, logger, "transactions")
        self._paused_until_ms = 0
        self._unsettled = 0
        """Changes that are staged and not settled."""
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Called with each deadline that is added, in ms."""
        self.coordinator.on_deadline = self._deadline_added
        self._refusals = LimitedLines()
        self.decisions = dict.fromkeys(DECISIONS, 0)
        """Transactions since the start, by decision. (DECISIONS)"""
        self.on_abort: Callable[[CoordinatorAbort], None] | None = None
        """Called after the coordinator, not the producer, has aborted an open transaction."""

    @property
    def is_available(self) -> bool:
        """Whether transactions can begin."""
        return self._logs.is_available

    @property
    def is_unreadable(self) -> bool:
        return self._logs.is_unreadable

    def load(self, now: Now) -> None:
        """Load all transactional ids, once, before the first request. Blocks."""
        logs = list(self._logs.read())
        if self.is_unreadable:
            return
        for log in logs:
            self._logs.replay(log.values.items(), self.coordinator.replay)
        self.coordinator.loaded(now.ms)

    # Changes

    def stage(self, change: TransactionChange, now: Now) -> WrittenChange | ErrorCode:
        """Stage the record of a change; call `settle` after the commit. Returns the error if that fails."""
        transactional_id = change.transaction.transactional_id
        try:
            log = self._logs.of(transactional_id)
            staged = log.stage([_record(change)], now.wall_ms)
        except ApiError as error:
            return COORDINATOR_ERRORS.get(error.code, error.code)
        change.begin()
        self._unsettled += 1
        return WrittenChange(change, log, staged)

    def settle(self, written: WrittenChange, now: Now, decision: str | None = None) -> ErrorCode:
        """Apply a committed change, or withdraw it and return the error. `decision` None: a producer's."""
        change, log, staged = written
        self._unsettled -= 1
        error = next((each.error for each in staged if each.error is not None), None)
        if error is not None:
            change.withdraw()
            return COORDINATOR_ERRORS.get(error, error)
        log.keep([_record(change)])
        transaction = change.transaction
        before = transaction.data
        self.coordinator.apply(change, now.ms)
        if change.data.state in DECIDED:
            of_producer = COMMITTED if change.data.state is TransactionState.PREPARE_COMMIT else ABORTED
            self.decisions[decision or of_producer] += 1
            if decision is not None and self.on_abort is not None:
                transactional_id, client = transaction.transactional_id, transaction.client
                abort = CoordinatorAbort(transactional_id, decision, before, client, now.wall_ms)
                self.on_abort(abort)
        if not self._unsettled:  # nothing is written that is not applied
            log.tidy(now.wall_ms, self._partitions.commit)
        return ErrorCode.NONE

    def abort(self, transaction: Transaction, now: Now) -> ErrorCode:
        """Abort an ongoing transaction for an operator and commit that; return the error or NONE.

        Never call it between staging and commit of another append.
        """
        (error,) = self._write_now([fence(transaction, now.wall_ms)], now, ABORTED_BY_OPERATOR)
        return error

    def note_refused(self, request: RefusedRequest, now_ms: int) -> None:
        """Log a refused request of a transactional id, unless there are too many."""
        if request.error not in LOGGED:
            return
        left_out = self._refusals.line(request.principal, request.host, now_ms)
        if left_out is None:
            return
        details: dict[str, object] = {
            "transactional_id": shown(request.transactional_id),
            "producer_id": request.producer_id,
            "epoch": request.epoch,
            "error": request.error.name,
            "request": request.api,
            "principal": shown(request.principal),
            "host": request.host,
        }
        if left_out:
            details["left_out"] = left_out
        logger.warning("a request of a transactional id was refused", extra=details)

    def offsets_partition(self, group_id: str, default_count: int) -> TopicPartition:
        """Return the partition with a group's offsets; the topic will have `default_count` if it is
        missing."""
        topic = self._partitions.by_name.get(OFFSETS_TOPIC)
        count = default_count if topic is None else topic.count
        return OFFSETS_TOPIC, coordinator_partition(group_id, count)

    # Writes in transactions

    def verify(self, transactional_id: str, producer_id: int, epoch: int, log: PartitionLog) -> ErrorCode:
        """Return whether the producer may write to this partition in its transaction."""
        if log.producers.has_ongoing(producer_id, epoch):
            return ErrorCode.NONE
        return self.coordinator.verify(transactional_id, producer_id, epoch, (log.topic, log.index))

    def marked(self, log: PartitionLog, producer_id: int, *, is_commit: bool) -> None:
        """Apply a written marker: a transaction's offsets take effect, or are dropped."""
        if log.topic == OFFSETS_TOPIC:
            self._groups.end_transaction(producer_id, log.index, is_commit=is_commit)

    # Time

    def next_deadline(self) -> int | None:
        """Return the monotonic time of the next `run`, in ms; None if nothing is due."""
        deadline = self.coordinator.next_deadline()
        return None if deadline is None else max(deadline, self._paused_until_ms)

    def _deadline_added(self, deadline_ms: int) -> None:
        self.on_deadline(max(deadline_ms, self._paused_until_ms))

    def pause(self, now_ms: int) -> None:
        """Try again later, after an unexpected exception of `run`."""
        self._paused_until_ms = now_ms + RETRY_MS

    def run(self, now: Now) -> list[PartitionLog]:
        """Do some of the due work, and commit it: timeouts, expiry, markers, completions.

        Returns the logs that have grown. Never call it between staging and commit of another append.
        """
        self._write_now(self.coordinator.overdue(now.ms, now.wall_ms), now, TIMED_OUT)
        touched: dict[TransactionCompletion, None] = {}
        markers: list[_WrittenMarker] = []
        left = MARKERS_AT_ONCE
        for completion in self.coordinator.due_completions(now.ms):
            if left <= 0:
                break
            touched[completion] = None
            left -= 1
            for partition in completion.next_partitions(left):
                markers.append(self._stage_completion(completion, partition, now))
                left -= 1
        if markers:
            self._partitions.commit()
        grown = [log for each in markers if (log := self._settle_marker(each, now)) is not None]
        marked = [each for each in touched if each.is_marked]
        changes = [self.coordinator.completed(each, now.wall_ms) for each in marked]
        for completion, error in zip(marked, self._write_now(changes, now), strict=True):
            if error:
                self._delay(completion, error, now)
        return grown

    def _write_now(
        self, changes: Iterable[TransactionChange], now: Now, decision: str | None = None
    ) -> list[ErrorCode]:
        """Write changes together and return the error of each."""
        results = [self.stage(change, now) for change in changes]
        if not results:
            return []
        self._partitions.commit()
        return [each if isinstance(each, ErrorCode) else self.settle(each, now, decision) for each in results]

    def _stage_completion(
        self, completion: TransactionCompletion, partition: TopicPartition, now: Now
    ) -> _WrittenMarker:
        log, data = None, completion.transaction.data
        try:
            log = self._partitions.log(*partition)
            if log is None:
                return _WrittenMarker(completion, partition, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            marker = Marker(data.state is TransactionState.PREPARE_COMMIT, LEADER_EPOCH)
            staged = log.stage_marker(marker, data.producer_id, data.producer_epoch, now.wall_ms)
        except ApiError as error:
            return _WrittenMarker(completion, partition, log, error.code)
        return _WrittenMarker(completion, partition, log, staged)

    def _settle_marker(self, marker: _WrittenMarker, now: Now) -> PartitionLog | None:
        """Note the result of a marker; return the log if it has grown."""
        completion, partition, log, result = marker
        error = (result.error or ErrorCode.NONE) if isinstance(result, Staged) else result
        if not completion.note(partition, error):
            self._delay(completion, error, now)
        if error or log is None:
            return None
        data = completion.transaction.data
        self.marked(log, data.producer_id, is_commit=data.state is TransactionState.PREPARE_COMMIT)
        return log

    def _delay(self, completion: TransactionCompletion, error: ErrorCode, now: Now) -> None:
        if not completion.has_failed:
            completion.has_failed = True
            logger.warning(
                "a transaction cannot be completed, and is tried again",
                extra={
                    "transactional_id": completion.transaction.transactional_id,
                    "reason": error.name,
                },
            )
        self.coordinator.delay(completion, now.ms)


def _record(change: TransactionChange) -> tuple[bytes, bytes | None]:
    value = None if change.data.state is TransactionState.DEAD else encode_value(change.data)
    return encode_key(change.transaction.transactional_id), value
