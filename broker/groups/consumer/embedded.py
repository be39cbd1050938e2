"""The embedded protocol of consumers, by which members of the classic protocol state their subscription and
receive their assignment. (Kafka: ConsumerProtocol)

Used when such members are in a consumer group.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, NamedTuple

from broker.errors import ApiError, ErrorCode, ProtocolViolation
from broker.groups.consumer.assignment import Assignment, Topics
from broker.protocol.codec import decode_data, encode_data
from broker.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)

_VERSION: Final = Struct(">h")
LATEST: Final = 3


class Subscription(NamedTuple):
    """`owned` are the partitions by topic name; `version` is that of the metadata."""

    topics: tuple[str, ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    rack_id: str | None
    version: int


def read_subscription(metadata: bytes) -> Subscription:
    """Read a member's metadata. Raises ApiError INCONSISTENT_GROUP_PROTOCOL."""
    version, message = _read("consumer_protocol_subscription", metadata)
    owned = tuple((each.topic, tuple(each.partitions)) for each in message.owned_partitions)
    return Subscription(tuple(sorted(set(message.topics))), owned, message.rack_id, version)


def read_assignment(assignment: bytes, topics: Topics) -> Assignment:
    """Read a member's assignment, without topics that do not exist. Raises ApiError; b"" is none."""
    if not assignment:
        return {}
    _, message = _read("consumer_protocol_assignment", assignment)
    return by_id(((each.topic, each.partitions) for each in message.assigned_partitions), topics)


def write_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    """Write an assignment in the version of the member's metadata, at most LATEST."""
    names = {topic.topic_id: topic.name for topic in topics.values() if topic.topic_id in assignment}
    assigned = [
        TopicPartition(name, sorted(assignment[topic_id])) for topic_id, name in sorted(names.items())
    ]
    version = min(version, LATEST)
    parts: list[Any] = encode_data("consumer_protocol_assignment", version)(
        ConsumerProtocolAssignment(assigned)
    )
    return _VERSION.pack(version) + b"".join(parts)


def by_id(owned: Iterable[tuple[str, Iterable[int]]], topics: Topics) -> Assignment:
    """Return partitions by topic id, without topics that do not exist."""
    found: dict[bytes, frozenset[int]] = {}
    for name, partitions in owned:
        topic = topics.get(name)
        some = frozenset(partitions)
        if topic is not None and some:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | some
    return found


def _read(schema: str, content: bytes) -> tuple[int, Any]:
    try:
        (version,) = _VERSION.unpack_from(content) if len(content) >= _VERSION.size else (-1,)
        if version < 0:
            raise ProtocolViolation(f"{schema}: no version")
        # A later version only adds fields at the end.
        return version, decode_data(schema, min(version, LATEST))(content, _VERSION.size)
    except ProtocolViolation as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
