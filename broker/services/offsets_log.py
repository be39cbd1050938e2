"""One partition of __consumer_offsets: what was written under each key last, and a log that does not grow for
ever. (Kafka: CoordinatorLoader, and compaction)

Called by `group_service` only, which is the only one that writes to the topic. That is why there is no
cleaner: when most records no longer count, the values that do are written once more, and when the disk has
those, the records before them are deleted. Knows nothing of what keys and values mean.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.errors import ApiError
from broker.groups.replies import Record
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.records.build import NewRecord, build_batch
from broker.records.header import header_at
from broker.records.walk import batches, records

logger = logging.getLogger(__name__)

CHUNK: Final = 4 * 1024 * 1024
"""Bytes that are read at once."""

BATCH: Final = 256 * 1024
"""Bytes of keys and values from which on another batch is begun."""

SPARE: Final = 20_000
"""Records that no longer count, at which the values are written again at the earliest; reading them takes a
sixth of a second. For many values it is four times as many, so that writing them again stays a fifth of all.
"""


class OffsetsLog:
    """`values` holds the last value of each key, those that were removed not."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.values: dict[bytes, bytes] = {}
        self._rewritten: tuple[int, int] | None = None
        self._put_off(log.high_watermark)

    def read(self) -> None:
        """Fills `values` from the log; blocks. A batch that cannot be read is passed over with an error line,
        and so are a damaged stretch and a gap, which the log has reported.

        Raises ApiError KAFKA_STORAGE_ERROR.
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
                    logger.error("a batch of %s is passed over: %s", log.topic, error)
        self._put_off(log.log_start_offset + len(self.values))

    def stage(self, new: Iterable[Record], wall_ms: int) -> list[Staged]:
        """Raises ApiError as PartitionLog.stage."""
        stamped = (NewRecord(key, value, wall_ms) for key, value in new)
        return [
            self.log.stage(build_batch(batch), now_wall_ms=wall_ms, internal=True)
            for batch in _in_batches(stamped)
        ]

    def keep(self, written: Iterable[Record]) -> None:
        """These are in the log now."""
        values = self.values
        for key, value in written:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def tidy(self, wall_ms: int, commit: Callable[[], object]) -> None:
        """Takes the next step that is due, if any. Nothing is staged when this is called."""
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
            logger.warning("%s-%d keeps what it no longer needs: %s", log.topic, log.index, error)

    def _rewrite(self, wall_ms: int, commit: Callable[[], object]) -> None:
        start = self.log.high_watermark
        self._put_off(start + len(self.values))
        staged = self.stage(self.values.items(), wall_ms)
        commit()
        if all(each.error is None for each in staged):
            self._rewritten = start, self.log.high_watermark

    def _put_off(self, used: int) -> None:
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
