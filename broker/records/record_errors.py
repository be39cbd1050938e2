"""Finds the records of a batch that a topic refuses, with the reasons (KIP-467; Kafka's
LogValidator.processRecordErrors).

Called by `inspect` once it has found the first such record. The whole batch is refused, and the producer
learns which of its records are the reason.
"""

from typing import Final, NamedTuple

from broker.common.errors import ErrorCode, RecordsRefused
from broker.common.slices import SLICE, Slices
from broker.records.header import NO_TIMESTAMP, BatchHeader, Buffer
from broker.records.varint import read_int, read_varint
from broker.records.walk import corrupt_record

MAX_NAMED_RECORDS: Final = 1_000
"""Records that a response names, at most; ours. A batch may have a quarter of a million."""

_SHOWN: Final = 3


class RecordRules(NamedTuple):
    """The record rules of a topic, times in ms.

    `max_parts` limits the records and their headers together. A record without a timestamp (-1) is never too
    early.
    """

    keys_needed: bool
    earliest_ms: int
    latest_ms: int
    max_parts: int


def refusal_of_records(header: BatchHeader, data: Buffer, rules: RecordRules) -> Slices[RecordsRefused]:
    """Return the refusal of a batch with the decompressed records `data`.

    Its code is INVALID_TIMESTAMP if a record has a wrong timestamp, else INVALID_RECORD. Raises ApiError
    CORRUPT_MESSAGE.
    """
    named: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    count = at = 0
    for number in range(header.record_count):
        if number % SLICE == SLICE - 1:
            yield None
        length, at = read_int(data, at)
        end = at + length
        if length < 0 or end > len(data):
            raise corrupt_record("its length exceeds the batch")
        delta, at = read_varint(data, at + 1)
        _, at = read_int(data, at)
        key_length, _ = read_int(data, at)
        at = end
        timestamp = header.base_timestamp + delta
        is_early = timestamp < rules.earliest_ms and timestamp != NO_TIMESTAMP
        if rules.keys_needed and key_length < 0:
            why = "A compacted topic cannot accept a record without a key"
        elif is_early or timestamp > rules.latest_ms:
            code = ErrorCode.INVALID_TIMESTAMP
            why = f"Timestamp {timestamp} is not from {rules.earliest_ms} to {rules.latest_ms}"
        else:
            continue
        count += 1
        if len(named) < MAX_NAMED_RECORDS:
            named.append((number, why))
    return RecordsRefused(code, _summary(count, named), named)


def _summary(count: int, named: list[tuple[int, str]]) -> str:
    shown = "; ".join([f"record {index}: {why}" for index, why in named[:_SHOWN]])
    return f"{count} of the batch's records are refused, the first {min(count, _SHOWN)}: {shown}"
