"""Extracts the failed resources of a response that contains only errors. (AutoMQ: ResourceErrorExtractor)

One function for each API of `quotas.retry_storm.TRANSIENT`. A resource is what a client retries: a partition,
a topic, a group. Clients do not retry a response at once if it has a valid result.
"""

from collections.abc import Callable
from typing import Any, Final

from broker.protocol.api_key import ApiKey

Errors = list[tuple[str, int]]
"""(resource, error code), as in the response."""

UNKNOWN_OFFSET: Final = -1
TRANSACTIONS: Final = 1


def errors_of(api: int, message: Any, reply: Any) -> Errors:
    """Return the errors of a response without a valid result, else an empty list."""
    found = _READERS[api](message, reply)
    return [] if any(not code for _, code in found) else found


def _produce(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.name or topic.topic_id.hex()}-{part.index}", part.error_code)
        for topic in reply.responses
        for part in topic.partition_responses
    ]


def _fetch(_message: Any, reply: Any) -> Errors:
    found = [
        (f"{topic.topic or topic.topic_id.hex()}-{part.partition_index}", part.error_code)
        for topic in reply.responses
        for part in topic.partitions
    ]
    return [*found, ("", reply.error_code)] if reply.error_code else found


def _list_offsets(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.name}-{part.partition_index}", part.error_code)
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code or part.offset != UNKNOWN_OFFSET
    ]


def _offset_for_leader_epoch(_message: Any, reply: Any) -> Errors:
    return [
        (f"{topic.topic}-{part.partition}", part.error_code)
        for topic in reply.topics
        for part in topic.partitions
        if part.error_code or part.end_offset != UNKNOWN_OFFSET
    ]


def _metadata(message: Any, reply: Any) -> Errors:
    found = _topics(message, reply)
    # A request for all topics also requests the brokers, which are a valid result.
    return [("", 0)] if not message.topics and reply.brokers else found


def _topics(_message: Any, reply: Any) -> Errors:
    found: Errors = []
    for topic in reply.topics:
        name = topic.name or topic.topic_id.hex()
        found += [
            (f"{name}-{part.partition_index}", part.error_code)
            for part in topic.partitions
            if part.error_code or part.leader_id >= 0
        ]
        if topic.error_code:
            found.append((name, topic.error_code))
    return found


def _find_coordinator(message: Any, reply: Any) -> Errors:
    kind = "transaction" if message.key_type == TRANSACTIONS else "group"
    if not reply.coordinators:
        return [(f"{kind}-{message.key}", reply.error_code)]
    return [(f"{kind}-{each.key}", each.error_code) for each in reply.coordinators]


def _group(message: Any, reply: Any) -> Errors:
    return [(f"group-{message.group_id}", reply.error_code)]


def _leave_group(message: Any, reply: Any) -> Errors:
    codes = [reply.error_code] if reply.error_code else [each.error_code for each in reply.members]
    return [(f"group-{message.group_id}", code) for code in codes]


def _offset_commit(message: Any, reply: Any) -> Errors:
    return [
        (f"group-{message.group_id}", part.error_code) for topic in reply.topics for part in topic.partitions
    ]


def _offset_fetch(message: Any, reply: Any) -> Errors:
    if not reply.groups:
        return [(f"group-{message.group_id}", reply.error_code)]
    return [(f"group-{each.group_id}", each.error_code) for each in reply.groups]


def _init_producer_id(message: Any, reply: Any) -> Errors:
    name = message.transactional_id
    return [(f"transaction-{name}" if name else f"producer-{message.producer_id}", reply.error_code)]


_READERS: Final[dict[int, Callable[[Any, Any], Errors]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _topics,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: _group,
    ApiKey.SYNC_GROUP: _group,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}
