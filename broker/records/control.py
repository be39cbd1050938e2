"""Markers that end a transaction in a partition (Kafka's control batches and EndTransactionMarker).

Built by the transaction coordinator, read by the log at each append and by its recovery.

    key: version i16 | type i16 (0 abort, 1 commit)     value: version i16 | coordinator epoch i32
"""

from struct import Struct, error
from typing import Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.records.build import NewRecord, build_batch
from broker.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG, Buffer
from broker.records.walk import records

ABORT: Final = 0
COMMIT: Final = 1

NEW_EPOCH_SINCE: Final = 2
"""The first version of transactions whose markers have a new epoch. (KIP-890)"""

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class Marker(NamedTuple):
    """The end of a producer's transaction: committed, else aborted. `transaction_version` says whether it
    has a new epoch of the producer; 0 if that is not checked. (KIP-1228)
    """

    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


def build_marker(marker: Marker, producer_id: int, producer_epoch: int, now_wall_ms: int) -> memoryview:
    """Build the control batch of one marker."""
    record = NewRecord(
        _KEY.pack(_VERSION, COMMIT if marker.is_commit else ABORT),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        now_wall_ms,
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=CONTROL_FLAG | TRANSACTIONAL_FLAG,
    )


def marker_of(batch: Buffer) -> Marker | None:
    """Return the marker of a control batch; None for a control record of another type.

    Raises ApiError CORRUPT_MESSAGE.
    """
    record = next(records(batch), None)
    if record is None or record.key is None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A control batch has no key")
    try:
        _, kind = _KEY.unpack_from(record.key)
        if kind not in (ABORT, COMMIT):
            return None
        _, epoch = _VALUE.unpack_from(record.value or b"")
    except error as short:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "A control record is too short") from short
    return Marker(kind == COMMIT, epoch)
