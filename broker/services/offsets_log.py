"""One partition of __consumer_offsets: the last value of each key, and rewriting in place of compaction.

Called only by `group_service`, the only writer of the topic. So it needs no log cleaner: when most records
are obsolete, the current values are written again, and once those are flushed, the records before them are
deleted. Independent of the format of keys and values. (Kafka: CoordinatorLoader, and compaction)
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.errors import ApiError
from broker.groups.messages import Record
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.records.build import NewRecord, build_batch
from broker.records.header import header_at
from broker.records.walk import batches, records

logger = logging.getLogger(__name__)

CHUNK: Final = 4 * 1024 * 1024
"""Bytes per read."""

BATCH: Final = 256 * 1024
"""Bytes of keys and values after which a new batch starts."""

SPARE: Final = 20_000
"""Minimum number of obsolete records before the values are rewritten; reading them takes a sixth of a second.

With many values the threshold is four times their number, so that rewriting stays a fifth of all writes.
"""


class OffsetsLog:
    """A partition's log and values. `values` holds the last value of each key, without deleted keys."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.values: dict[bytes, bytes] = {}
        self._rewritten: tuple[int, int] | None = None
        self._set_due_offset(log.high_watermark)

    def read(self) -> None:
        """Fill `values` from the log.

        Blocks.

        Skips an unreadable batch with an error line; skips damaged ranges and gaps, which the log has
        reported. Raises ApiError KAFKA_STORAGE_ERROR.
        """
        log = self.log
        offset = log.log_start_offset
        chunk: bytes | None = None
        while offset < log.high_watermark and chunk != b"":
            chunk = log.read(log.past_gap(offset), CHUNK, min_one_batch=True).read()
            for batch in batches(chunk):
                offset = header_at(batch).last_offset + 1
                try:
                    self.keep((each.key, each.value) for each in records(batch) if each.key is not None)
                except ApiError as error:
                    logger.error("skipping an unreadable batch of %s: %s", log.topic, error)
        self._set_due_offset(log.log_start_offset + len(self.values))

    def stage(self, new: Iterable[Record], wall_ms: int) -> list[Staged]:
        """Stage the records in batches. Raises ApiError as PartitionLog.stage does."""
        stamped = (NewRecord(key, value, wall_ms) for key, value in new)
        return [
            self.log.stage(build_batch(batch), now_wall_ms=wall_ms, internal=True)
            for batch in _in_batches(stamped)
        ]

    def keep(self, written: Iterable[Record]) -> None:
        """Apply written records to `values`."""
        values = self.values
        for key, value in written:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def tidy(self, wall_ms: int, commit: Callable[[], object]) -> None:
        """Take the next due step of a rewrite. Requires that nothing is staged."""
        log = self.log
        try:
            if self._rewritten is not None:
                start, end = self._rewritten
                if log.recovery_point >= end:
                    self._rewritten = None
                    log.delete_records_before(start)
            elif log.high_watermark >= self._due_at:
                self._rewrite(wall_ms, commit)
        except ApiError as error:
            logger.warning("%s-%d: obsolete records cannot be removed: %s", log.topic, log.index, error)

    def _rewrite(self, wall_ms: int, commit: Callable[[], object]) -> None:
        start = self.log.high_watermark
        self._set_due_offset(start + len(self.values))
        staged = self.stage(self.values.items(), wall_ms)
        commit()
        if all(each.error is None for each in staged):
            self._rewritten = start, self.log.high_watermark

    def _set_due_offset(self, used: int) -> None:
        self._due_at = used + max(SPARE, 4 * len(self.values))


def _in_batches(new: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size = 0
    for each in new:
        if size >= BATCH:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.key or b"") + len(each.value or b"")
    if batch:
        yield batch
