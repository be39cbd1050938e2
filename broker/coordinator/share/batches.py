"""The batches of a slice of a log: their offsets, and which of them belong to aborted transactions.

Called for ShareFetch. Reads only the headers of large batches, so that records go from the page cache to the
socket.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.share_partition import Span
from broker.log.aborted_transactions import AbortedTransaction
from broker.log.slice import FileSlice
from broker.records.control import marker_of
from broker.records.header import HEADER_BYTES, TRANSACTIONAL_FLAG, header_at

CHUNK: Final = 65_536
"""Bytes that are read at once for the headers of small batches."""

_MARKER_BYTES: Final = 256
"""More than a control batch has."""


class LogBatch(NamedTuple):
    """A whole batch: its position from the start of the slice and its size in bytes. `producer_id` is -1
    outside of transactions; `ends_abort`: it is the marker that aborts its producer's transaction.
    """

    span: Span
    position: int
    size: int
    producer_id: int
    ends_abort: bool


def batches_of(records: FileSlice, end: int) -> list[LogBatch]:
    """Return the whole batches that begin before offset `end`.

    Raises ApiError CORRUPT_MESSAGE for an impossible length, UnreadableRegion.
    """
    found: list[LogBatch] = []
    length = len(records)
    chunk, chunk_at = b"", 0
    at = 0
    while at + HEADER_BYTES <= length:
        if at + _MARKER_BYTES > chunk_at + len(chunk):
            chunk_at = at
            chunk = records.part(at, min(at + CHUNK, length)).read()
        header = header_at(chunk, at - chunk_at)
        if header.size < HEADER_BYTES or header.last_offset_delta < 0:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Impossible batch length {header.length}")
        if at + header.size > length or header.base_offset >= end:
            break
        in_transaction = header.attributes & TRANSACTIONAL_FLAG != 0
        ends_abort = False
        if header.is_control:
            start = at - chunk_at
            marker = marker_of(chunk[start : start + header.size])
            ends_abort = marker is not None and not marker.is_commit
        found.append(
            LogBatch(
                Span(header.base_offset, header.last_offset),
                at,
                header.size,
                header.producer_id if in_transaction else -1,
                ends_abort,
            )
        )
        at += header.size
    return found


def aborted_of(batches: Sequence[LogBatch], aborted: Iterable[AbortedTransaction]) -> list[Span]:
    """Return the batches with records of aborted transactions, without their markers."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    if not waiting:
        return []
    producers: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[-1].first_offset <= batch.span.last:
            producers.add(waiting.pop().producer_id)
        if batch.ends_abort:
            producers.discard(batch.producer_id)
        elif batch.producer_id in producers:
            found.append(batch.span)
    return found
