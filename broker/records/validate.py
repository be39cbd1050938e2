"""Validates a produced batch by its header and its CRC alone.

Called for every append (PartitionLog.stage). Follows Kafka's
ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator.validateBatch in the
refused batches and their error codes. Independent of existing offsets, of producers, and of the records,
which `inspect` reads.
"""

from typing import Final, cast

from crc32c import crc32c

from broker.common.errors import ApiError, ErrorCode, RecordsRefused
from broker.records.header import (
    APPEND_TIME_FLAG,
    CONTROL_FLAG,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    PREFIX,
    TRANSACTIONAL_FLAG,
    HeaderFields,
)

SPECIAL_FLAGS: Final = APPEND_TIME_FLAG | CONTROL_FLAG | TRANSACTIONAL_FLAG
"""Flags that a client's batch does not have outside a transaction."""

_LEAST_LENGTH: Final = HEADER_BYTES - LENGTH_OVERHEAD
_unpack = HEADER.unpack_from


def check_batch(batch: memoryview, max_bytes: int, max_records: int) -> HeaderFields:
    """Return the header of the one batch that fills the buffer.

    Raises ApiError: INVALID_RECORD (not exactly one batch, an older format, inconsistent counts, an unknown
    codec), CORRUPT_MESSAGE (an impossible length or magic, a wrong CRC), MESSAGE_TOO_LARGE (more than
    `max_bytes`, or more than `max_records`: Kafka's producer then splits a compressed batch).
    """
    size = len(batch)
    if size < HEADER_BYTES:
        raise _too_short(batch)
    header = cast(HeaderFields, _unpack(batch, 0))
    length = header[1]
    if length + LENGTH_OVERHEAD != size or header[3] != MAGIC:
        raise _not_one_batch(size, length, header[3])
    if size > max_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {size} bytes, which exceeds the maximum of {max_bytes}",
        )
    if crc32c(batch[CRC_FROM:]) != header[4]:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "Record is corrupt (its CRC does not match)")
    count = header[12]
    if count <= 0 or header[6] != count - 1:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"Inconsistent batch: {count} records, but a last offset delta of {header[6]}",
        )
    if count > max_records:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch has {count} records, which exceeds the maximum of {max_records}",
        )
    if header[5] & 0x07 > 4:
        raise ApiError(ErrorCode.INVALID_RECORD, f"Unknown compression type {header[5] & 0x07}")
    if header[9] >= 0 and header[11] < 0 and not header[5] & CONTROL_FLAG:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD, f"Invalid sequence number {header[11]} with producer id {header[9]}"
        )
    return header


def check_flags(header: HeaderFields, *, internal: bool, transactional: bool = False) -> None:
    """Check the base offset and the SPECIAL_FLAGS of a produced batch.

    `internal`: the broker produced it. `transactional`: its partition belongs to the producer's transaction.

    Raises ApiError: INVALID_RECORD (a base offset, a control batch), INVALID_TIMESTAMP (LogAppendTime),
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    base_offset, attributes = header[0], header[5]
    if base_offset != 0:
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"The base offset of a produced batch should be 0, but it is {base_offset}",
        )
    if attributes & APPEND_TIME_FLAG:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP, "Producers are not allowed to set the timestamp type LogAppendTime"
        )
    if attributes & CONTROL_FLAG and not internal:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    if attributes & TRANSACTIONAL_FLAG and not (internal or transactional):
        raise ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "A transactional batch needs a request with a transactional id",
        )


def _too_short(batch: memoryview) -> ApiError:
    """Return INVALID_RECORD for an incomplete batch, as Kafka does: resending it would not help."""
    if len(batch) > MAGIC_AT:
        _, length, _ = PREFIX.unpack_from(batch)
        return _not_one_batch(len(batch), length, batch[MAGIC_AT])
    return ApiError(ErrorCode.INVALID_RECORD, "A produce request must have one record batch per partition")


def _not_one_batch(size: int, length: int, magic: int) -> ApiError:
    if length < _LEAST_LENGTH or not 0 <= magic <= MAGIC:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"Impossible batch length {length} or magic {magic}")
    if magic != MAGIC:
        return ApiError(ErrorCode.INVALID_RECORD, f"Unsupported magic {magic}: expected 2")
    return ApiError(
        ErrorCode.INVALID_RECORD,
        f"A partition must have one record batch: {size} bytes, the batch has {length + LENGTH_OVERHEAD}",
    )
