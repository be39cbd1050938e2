"""Whether every single record of a batch may be taken, where a topic asks for that.

Called by PartitionLog.stage for compacted topics and for topics that bound how old records may be; other
topics are served by the header alone (`validate`), which costs a hundredth. Follows Kafka's LogValidator.
"""

from broker.errors import ApiError, ErrorCode
from broker.records.header import Buffer
from broker.records.walk import records


def check_records(batch: Buffer, *, keys_needed: bool, earliest_ms: int) -> None:
    """Raises ApiError: INVALID_RECORD (no key, or offsets that do not go up by one), INVALID_TIMESTAMP
    (before `earliest_ms`), and what `walk.records` raises.
    """
    for expected, record in enumerate(records(batch)):
        if record.offset != expected:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"Inner record offsets are not incremental: expected {expected}, got {record.offset}",
            )
        if keys_needed and record.key is None:
            raise ApiError(ErrorCode.INVALID_RECORD, "A compacted topic cannot accept a record without a key")
        if 0 <= record.timestamp < earliest_ms:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP, f"Timestamp {record.timestamp} is before {earliest_ms}"
            )
