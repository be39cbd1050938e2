"""One partition of __consumer_offsets or __transaction_state: the last value of each key, and compaction by
rewriting those values.

Called only by `group_service` and `transaction_service`, each the only writer of its topic. The log cleaner
leaves the active segment alone, which a start would have to read. So when most records are obsolete, the
current values are written again, some of them with each commit, and once they are flushed, the records before
them are deleted. Independent of the format of keys and
values. (Kafka: CoordinatorLoader, and compaction)
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.group.messages import Record
from broker.coordinator.pending import Pending
from broker.coordinator.topic_logs import read_batches
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.records.build import NewRecord, build_batch
from broker.records.control import marker_of
from broker.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    header_at,
)
from broker.records.walk import records

logger = logging.getLogger(__name__)

BATCH: Final = 256 * 1024
"""Bytes of keys and values of a batch with several records, and of the values that a commit rewrites."""

SPARE: Final = 20_000
"""Minimum number of obsolete records before the values are rewritten; reading them takes a sixth of a second.

With many values the threshold is four times their number, so that rewriting stays a fifth of all writes.
"""

REWRITTEN_AT_ONCE: Final = 128
"""Values that a commit writes again during a rewrite, or fewer large ones; they take half a millisecond."""


class OffsetsLog:
    """A partition's log and values. `values` holds the last value of each key, without deleted keys.

    `pending` holds the last record of each key of each producer's open transaction; with its commit marker it
    becomes the value, unless a later one has been written. A tombstone removes it.
    """

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.values: dict[bytes, bytes] = {}
        self.pending = Pending[bytes, bytes]()
        self._rewriting: tuple[int, deque[bytes]] | None = None
        """While a rewrite runs: the offset before which everything will be obsolete, and the keys left."""
        self._rewrote_ms = 0
        self._rewritten: tuple[int, int] | None = None
        self._set_due_offset(log.high_watermark)

    def read(self) -> None:
        """Fill `values` from the log, as `read_batches` does."""
        read_batches(self.log, self._read_batch, logger)
        self._set_due_offset(self.log.log_start_offset + len(self.values))

    def _read_batch(self, batch: memoryview) -> None:
        header = header_at(batch)
        if header.is_control:
            marker = marker_of(batch)
            if marker is not None:
                self.end_transaction(header.producer_id, is_commit=marker.is_commit)
            return
        found = [(each.key, each.value) for each in records(batch) if each.key is not None]
        if header.attributes & TRANSACTIONAL_FLAG:
            self.pend(header.producer_id, found)
        else:
            self.keep(found)

    def prepare(
        self, new: Iterable[Record], wall_ms: int, producer: tuple[int, int] | None = None
    ) -> list[memoryview]:
        """Return batches with the records, for `stage_prepared`. Raises ApiError for what the log would
        refuse, so that of several batches all are staged or none.

        `producer`: the id and epoch whose transaction they belong to. Refuses a record that is too large
        before it is copied; a group's record may have megabytes.
        """
        self.log.check_usable()
        new = list(new)
        settings = self.log.settings
        most = min(settings.max_message_bytes, settings.segment_bytes)
        if any(value is not None and len(value) > most for _, value in new):
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"A value has more than {most} bytes")
        stamped = (NewRecord(key, value, wall_ms) for key, value in new)
        producer_id, epoch = producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        sequence = 0 if producer else NO_SEQUENCE
        flags = TRANSACTIONAL_FLAG if producer else 0
        batches = [
            build_batch(
                batch,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                attributes=flags,
            )
            for batch in _in_batches(stamped)
        ]
        if any(len(each) > most for each in batches):
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"A record has more than {most} bytes")
        return batches

    def stage_prepared(self, batches: Iterable[memoryview], wall_ms: int) -> list[Staged]:
        """Stage what `prepare` has returned. Raises ApiError as PartitionLog.stage does."""
        return [self.log.stage(each, now_wall_ms=wall_ms, internal=True) for each in batches]

    def stage(
        self, new: Iterable[Record], wall_ms: int, producer: tuple[int, int] | None = None
    ) -> list[Staged]:
        """Stage the records in batches. Raises ApiError as `prepare` and `stage_prepared` do."""
        return self.stage_prepared(self.prepare(new, wall_ms, producer), wall_ms)

    def keep(self, written: Iterable[Record]) -> None:
        """Apply written records to `values`."""
        values, pending = self.values, self.pending
        for key, value in written:
            if value is None:
                values.pop(key, None)
                pending.drop(key)
            else:
                values[key] = value
                if pending:
                    pending.supersede(key)

    def pend(self, producer_id: int, written: Iterable[Record]) -> None:
        """Note written records of an open transaction; a tombstone applies at once, as in Kafka."""
        for key, value in written:
            if value is None:
                self.keep(((key, None),))
            else:
                self.pending.add(producer_id, key, value)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a written marker."""
        for key in self.pending.keys_of(producer_id):
            value = self.pending.end(producer_id, key, is_commit=is_commit)
            if value is not None:
                self.values[key] = value

    def tidy(self, wall_ms: int, commit: Callable[[], object]) -> None:
        """Take the next due step of a rewrite. Requires that all written records are applied: an older value
        would be written after a newer one.
        """
        log = self.log
        try:
            if self._rewriting is not None:
                # Many commits are finished together; of those of a millisecond, one continues.
                if wall_ms != self._rewrote_ms:
                    self._rewrite_some(*self._rewriting, wall_ms, commit)
            elif self._rewritten is not None:
                start, end = self._rewritten
                if log.recovery_point >= end:
                    self._rewritten = None
                    log.delete_records_before(start)
            elif log.high_watermark >= self._due_at:
                # What an open transaction has written stays: only its marker makes it a value.
                start = log.last_stable_offset
                self._set_due_offset(log.high_watermark + len(self.values))
                self._rewrite_some(start, deque(self.values), wall_ms, commit)
        except ApiError as error:
            logger.warning("%s-%d: obsolete records cannot be removed: %s", log.topic, log.index, error)

    def _rewrite_some(
        self, start: int, keys: deque[bytes], wall_ms: int, commit: Callable[[], object]
    ) -> None:
        """Write the current values of the next keys again. A key that is gone meanwhile has a tombstone.

        The value of a pending key waits for the marker: written after the pending record, it would supersede
        it.
        """
        self._rewriting = None
        self._rewrote_ms = wall_ms
        some: list[Record] = []
        size = 0
        for _ in range(min(len(keys), REWRITTEN_AT_ONCE)):
            key = keys[0]
            value = self.values.get(key)
            if value is not None and any(True for _ in self.pending.of(key)):
                keys.rotate(-1)
                continue
            if value is not None:
                size += len(key) + len(value)
                if some and size > BATCH:
                    break
                some.append((key, value))
            keys.popleft()
        staged = self.stage(some, wall_ms)
        commit()
        if any(each.error is not None for each in staged):
            return  # begins anew when due
        if keys:
            self._rewriting = start, keys
        else:
            self._rewritten = start, self.log.high_watermark

    def _set_due_offset(self, used: int) -> None:
        self._due_at = used + max(SPARE, 4 * len(self.values))


def _in_batches(new: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size = 0
    for each in new:
        length = len(each.key or b"") + len(each.value or b"")
        if batch and size + length > BATCH:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += length
    if batch:
        yield batch
