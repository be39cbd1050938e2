"""Keys and values of __transaction_state in Kafka's format. (Kafka: TransactionLog, TransactionLogKey 0,
TransactionLogValue 0 and 1)

The log decides the value of an id by its last record; a value of None forgets it.
"""

from collections.abc import Iterable
from struct import Struct

from broker.coordinator.transaction.state import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionData,
    TransactionState,
)
from broker.records.stored_fields import FlexibleFields, UnreadableRecord, varint

Record = tuple[bytes, bytes | None]

_INT8, _INT16, _INT32, _INT64 = (Struct(f">{code}") for code in "bhiq")
_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")

_KEY_VERSION = 0
_VALUE_VERSION = 1

_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION = range(3)
"""Tags of version 1."""


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _INT16.pack(_KEY_VERSION) + _INT16.pack(len(name)) + name


def encode_value(data: TransactionData) -> bytes:
    """Encode version 1, which has compact lengths and tagged fields."""
    parts = [
        _HEAD.pack(_VALUE_VERSION, data.producer_id, data.producer_epoch, data.timeout_ms, data.state),
        _topics(data),
        _TIMES.pack(data.updated_ms, data.started_ms),
    ]
    tagged: list[tuple[int, bytes]] = []
    if data.previous_producer_id != NO_PRODUCER_ID:
        tagged.append((_PREVIOUS_PRODUCER_ID, _INT64.pack(data.previous_producer_id)))
    if data.next_producer_id != NO_PRODUCER_ID:
        tagged.append((_NEXT_PRODUCER_ID, _INT64.pack(data.next_producer_id)))
    if data.client_version:
        tagged.append((_CLIENT_VERSION, _INT16.pack(data.client_version)))
    parts.append(varint(len(tagged)))
    for tag, content in tagged:
        parts += (varint(tag), varint(len(content)), content)
    return b"".join(parts)


def decode_key(key: bytes) -> str | None:
    """Return the transactional id; None for a key of another version. Raises UnreadableRecord."""
    reader = FlexibleFields(key)
    return reader.text(reader.integer(_INT16)) if reader.integer(_INT16) == _KEY_VERSION else None


def decode_value(value: bytes) -> TransactionData:
    """Decode versions 0 and 1. Raises UnreadableRecord."""
    reader = FlexibleFields(value)
    version = reader.integer(_INT16)
    if version not in (0, 1):
        raise UnreadableRecord(f"unsupported value version {version}: expected 0 or 1")
    producer_id, epoch = reader.integer(_INT64), reader.integer(_INT16)
    timeout_ms, number = reader.integer(_INT32), reader.integer(_INT8)
    try:
        state = TransactionState(number)
    except ValueError as unknown:
        raise UnreadableRecord(f"unknown state {number}") from unknown
    partitions = frozenset(_partitions(reader, is_compact=version == 1))
    updated_ms, started_ms = reader.integer(_INT64), reader.integer(_INT64)
    tagged: dict[int, int] = {}
    if version == 1:
        forms = {
            _PREVIOUS_PRODUCER_ID: _INT64,
            _NEXT_PRODUCER_ID: _INT64,
            _CLIENT_VERSION: _INT16,
        }
        for _ in range(reader.varint()):
            tag, size = reader.varint(), reader.varint()
            content = reader.take(size)
            if tag in forms:
                tagged[tag] = FlexibleFields(content).integer(forms[tag])
    return TransactionData(
        producer_id,
        epoch,
        timeout_ms,
        state,
        partitions,
        started_ms,
        updated_ms,
        # The log does not have it: a retry across a restart is fenced, as in Kafka.
        NO_EPOCH,
        tagged.get(_PREVIOUS_PRODUCER_ID, NO_PRODUCER_ID),
        tagged.get(_NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        tagged.get(_CLIENT_VERSION, 0),
    )


def _topics(data: TransactionData) -> bytes:
    if data.state is TransactionState.EMPTY:
        return varint(0)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(data.partitions):
        topics.setdefault(topic, []).append(partition)
    parts = [varint(len(topics) + 1)]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += (varint(len(name) + 1), name, varint(len(indexes) + 1))
        parts += (_INT32.pack(index) for index in indexes)
        parts.append(b"\0")
    return b"".join(parts)


def _partitions(reader: FlexibleFields, *, is_compact: bool) -> Iterable[TopicPartition]:
    def count() -> int:
        return reader.varint() - 1 if is_compact else reader.integer(_INT32)

    for _ in range(count()):
        topic = reader.text(reader.varint() - 1 if is_compact else reader.integer(_INT16))
        for _ in range(count()):
            yield topic, reader.integer(_INT32)
        if is_compact:
            reader.skip_tagged()
