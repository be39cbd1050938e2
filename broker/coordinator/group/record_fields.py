"""The keys of the records of consumer groups and share groups, and the fields that their values have in
common, in Kafka's format.

Used by `consumer.records` and `share.records`. A key has plain strings; a value begins with its
version, and has compact lengths and tagged fields.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from itertools import islice
from struct import Struct, pack
from typing import Final, NamedTuple

from broker.common.slices import SLICE, Steps
from broker.coordinator.group.messages import Record
from broker.records.stored_fields import FlexibleFields, UnreadableRecord, varint

_INT16, _INT32 = (Struct(f">{code}") for code in "hi")

_VALUE_VERSION: Final = 0


class KeyType(IntEnum):
    """What a record is about: the version of its key. (Kafka: CoordinatorRecordType)"""

    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET = 6
    TARGET_OF_MEMBER = 7
    CURRENT = 8
    EXPRESSION = 16

    SHARE_MEMBER = 10
    SHARE_GROUP = 11
    SHARE_TARGET = 12
    SHARE_TARGET_OF_MEMBER = 13
    SHARE_CURRENT = 14
    SHARE_STATES = 15

    @property
    def is_of_share_group(self) -> bool:
        return KeyType.SHARE_MEMBER <= self <= KeyType.SHARE_STATES


NAMED: Final = frozenset(
    {
        KeyType.MEMBER,
        KeyType.TARGET_OF_MEMBER,
        KeyType.CURRENT,
        KeyType.EXPRESSION,
        KeyType.SHARE_MEMBER,
        KeyType.SHARE_TARGET_OF_MEMBER,
        KeyType.SHARE_CURRENT,
    }
)
"""The types whose keys have a name."""


class ModernKey(NamedTuple):
    """`name` is the member id or the regular expression; "" for the types without."""

    type: KeyType
    group_id: str
    name: str = ""


def encode_key(key: ModernKey) -> bytes:
    parts = [_INT16.pack(key.type), plain_string(key.group_id)]
    if key.type in NAMED:
        parts.append(plain_string(key.name))
    return b"".join(parts)


def decode_key(key: bytes) -> ModernKey | None:
    """Decode a key; None for records of other types. Raises UnreadableRecord."""
    reader = FlexibleFields(key)
    number = reader.integer(_INT16)
    if number not in KeyType.__members__.values():
        return None
    key_type = KeyType(number)
    group_id = reader.text(reader.integer(_INT16))
    return ModernKey(key_type, group_id, reader.text(reader.integer(_INT16)) if key_type in NAMED else "")


def tombstone(key_type: KeyType, group_id: str, name: str = "") -> Record:
    return encode_key(ModernKey(key_type, group_id, name)), None


def tombstones(key_types: Iterable[KeyType], group_id: str, name: str = "") -> list[Record]:
    return [tombstone(each, group_id, name) for each in key_types]


NO_TAGS: Final = b"\0"
"""The end of a struct without tagged fields."""


def head() -> bytes:
    """Return the version of a value."""
    return _INT16.pack(_VALUE_VERSION)


def value_of(value: bytes) -> FlexibleFields:
    """Return the fields after the version. Raises UnreadableRecord for another version."""
    reader = FlexibleFields(value)
    version = reader.integer(_INT16)
    if version != _VALUE_VERSION:
        raise UnreadableRecord(f"unsupported value version {version}: expected {_VALUE_VERSION}")
    return reader


SHORT: Final = 127
"""Bytes of a string whose length takes more than one byte."""

_LENGTHS: Final = [varint(length + 1) for length in range(SHORT)]


def plain_string(value: str) -> bytes:
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def string(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    return string_of(value.encode())


def string_of(encoded: bytes) -> bytes:
    return varint(len(encoded) + 1) + encoded


def strings(values: Collection[str]) -> Steps[bytes]:
    parts = [varint(len(values) + 1)]
    left = iter(values)
    while some := [value.encode() for value in islice(left, SLICE)]:
        parts += [_LENGTHS[len(each)] + each if len(each) < SHORT else string_of(each) for each in some]
        yield
    return b"".join(parts)


def indexes(partitions: Collection[int]) -> bytes:
    """Encode partitions in ascending order."""
    return varint(len(partitions) + 1) + pack(f">{len(partitions)}i", *sorted(partitions))


def decode_indexes(reader: FlexibleFields) -> frozenset[int]:
    """Raises UnreadableRecord."""
    return frozenset(reader.integer(_INT32) for _ in range(reader.count()))


def assignment(partitions: Mapping[bytes, frozenset[int]]) -> Steps[bytes]:
    """Encode partitions by topic id."""
    parts = [varint(len(partitions) + 1)]
    for topic_id, some in partitions.items():
        parts += (topic_id, indexes(some), NO_TAGS)
        yield
    return b"".join(parts)


def decode_assignment(reader: FlexibleFields) -> dict[bytes, frozenset[int]]:
    """Raises UnreadableRecord."""
    found = {}
    for _ in range(reader.count()):
        topic_id = reader.take(16)
        found[topic_id] = decode_indexes(reader)
        reader.skip_tagged()
    return found


def decode_target_epoch(value: bytes) -> int:
    """Raises UnreadableRecord."""
    return value_of(value).integer(_INT32)


def decode_target(value: bytes) -> dict[bytes, frozenset[int]]:
    """Raises UnreadableRecord."""
    return decode_assignment(value_of(value))
