"""The embedded protocol of consumers, by which members of the classic protocol state their subscription and
receive their assignment. (Kafka: ConsumerProtocol)

Used when such members are in a consumer group.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode, ProtocolViolation
from broker.common.slices import Steps, sorted_in_steps
from broker.coordinator.group.consumer.assignment import Assignment, Topics, subscribed_names
from broker.coordinator.group.modern_group import MAX_TOPICS
from broker.protocol.codec import decode_data, decode_data_in_slices, encode_data
from broker.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)

_VERSION: Final = Struct(">h")
_HEAD: Final = Struct(">hi")
"""The version and the number of names, with which a subscription of any version begins."""

LATEST: Final = 3

AT_ONCE: Final = 4_096
"""Bytes of metadata that are read in one piece; ours."""


class EmbeddedSubscription(NamedTuple):
    """`topics` are the names, sorted, and `owned` the partitions of topics that exist."""

    topics: tuple[str, ...]
    owned: Assignment
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Steps[EmbeddedSubscription]:
    """Read a member's metadata. Raises ApiError: INCONSISTENT_GROUP_PROTOCOL, INVALID_REQUEST."""
    if len(metadata) >= _HEAD.size and _HEAD.unpack_from(metadata)[1] > MAX_TOPICS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"The subscription has more than {MAX_TOPICS} names.")
    message = yield from _read("consumer_protocol_subscription", metadata)
    names = yield from subscribed_names(message.topics, topics)
    owned = yield from by_id(((each.topic, each.partitions) for each in message.owned_partitions), topics)
    return EmbeddedSubscription(names, owned, message.rack_id)


def read_assignment(assignment: bytes, topics: Topics) -> Steps[Assignment]:
    """Read a member's assignment, without topics that do not exist. Raises ApiError; b"" is none."""
    if not assignment:
        return {}
    message = yield from _read("consumer_protocol_assignment", assignment)
    assigned = ((each.topic, each.partitions) for each in message.assigned_partitions)
    return (yield from by_id(assigned, topics))


def version_of(metadata: bytes) -> int:
    """Return the version of a member's metadata, which has been read before."""
    (version,) = _VERSION.unpack_from(metadata)
    return int(version)


def topic_names(topics: Topics) -> Steps[Mapping[bytes, str]]:
    """Return the names of all topics by id."""
    names: dict[bytes, str] = {}
    for topic in topics.values():
        names[topic.topic_id] = topic.name
        yield
    return names


def write_assignment(assignment: Assignment, version: int, names: Mapping[bytes, str]) -> Steps[bytes]:
    """Write an assignment in the version of the member's metadata, at most LATEST. `names` are those of
    topics by id.
    """
    assigned = []
    for topic_id in (yield from sorted_in_steps(assignment)):
        if topic_id in names:
            assigned.append(TopicPartition(names[topic_id], sorted(assignment[topic_id])))
        yield
    version = min(version, LATEST)
    parts: list[Any] = encode_data("consumer_protocol_assignment", version)(
        ConsumerProtocolAssignment(assigned)
    )
    return _VERSION.pack(version) + b"".join(parts)


def by_id(owned: Iterable[tuple[str, Iterable[int]]], topics: Topics) -> Steps[Assignment]:
    """Return partitions by topic id, without topics that do not exist."""
    found: dict[bytes, frozenset[int]] = {}
    for name, partitions in owned:
        topic = topics.get(name)
        if topic is not None and (some := frozenset(partitions)):
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | some
        yield
    return found


def _read(schema: str, content: bytes) -> Steps[Any]:
    try:
        (version,) = _VERSION.unpack_from(content) if len(content) >= _VERSION.size else (-1,)
        if version < 0:
            raise ProtocolViolation(f"{schema}: no version")
        version = min(version, LATEST)  # a later one only adds fields at the end
        if len(content) > AT_ONCE:
            return (yield from decode_data_in_slices(schema, version)(content, _VERSION.size))
        return decode_data(schema, version)(content, _VERSION.size)
    except ProtocolViolation as error:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
