"""Builds a response of any API with one error for every requested item.

Called when a handler fails, and by the gateway for what it does not forward. A response with its own error
code has the error there; any other repeats the items of the request (topics, partitions, resources, groups)
with the error. The schemas drive the construction; the tables list only the names that differ between a
request and its response. (Kafka: AbstractRequest.getErrorResponse)
"""

from collections.abc import Iterable
from typing import Any, Final

from broker.common.errors import ErrorCode
from broker.common.slices import Slices, run_through
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.error_codes import is_error_code
from broker.protocol.schema import Field, Struct, in_version

MESSAGE: Final = "The server experienced an unexpected error when processing the request."


SOURCES: Final = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partition_indexes",),
    "results": ("resources", "topics", "groups_names", "creations"),
    "filter_results": ("filters",),
    "groups": ("group_ids",),
    "coordinators": ("coordinator_keys",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "transaction_states": ("transactional_ids",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
}
"""The request's array for a response's array of another name."""

ALIASES: Final = {
    "partition_index": ("partition",),
    "topic_name": ("name",),
}
"""The request's name for a response item's field."""

BARE: Final = ("name", "key", "group_id", "partition_index", "partition_id", "transactional_id")
"""The response item's field that holds the request's item if that is a bare string or number."""

IDENTITIES: Final = frozenset(
    {
        *("entity_name", "entity_type", "group_id", "group_instance_id", "index", "key", "member_id", "name"),
        *("partition", "partition_index", "resource_name", "resource_type", "topic", "topic_id"),
        *("producer_id", "topic_name", "transactional_id", "user"),
    }
)
"""The fields that identify an item for the client. All other response fields keep their defaults."""


def error_response(api_key: int, version: int, message: Struct | None, error: ErrorCode) -> Struct | None:
    """Build the response to `message`, which is None if the request is no longer available.

    Returns None if the response cannot carry the error: the request has no items, expects no response
    (acks=0), or has items that its response lacks (DescribeLogDirs below version 3).
    """
    if message is None or (api_key == ApiKey.PRODUCE and getattr(message, "acks", None) == 0):
        reply: Struct = codec.response_class(api_key)()
        return reply if _has_own_code(reply, version) and _set_error(reply, version, error, MESSAGE) else None
    reply, count = run_through(error_response_in_slices(api_key, version, message, error, MESSAGE))
    return reply if count else None


def error_response_in_slices(
    api_key: int, version: int, message: Struct, error: ErrorCode, text: str
) -> Slices[tuple[Struct, int]]:
    """Return the response to `message` and the number of its error codes: none if nothing was requested.
    `text` is its error message.
    """
    reply = codec.response_class(api_key)()
    if _has_own_code(reply, version):
        return reply, int(_set_error(reply, version, error, text))
    requested: object = message
    if api_key == ApiKey.ALTER_REPLICA_LOG_DIRS:
        requested = _FlattenedDirs(message)
    elif api_key == ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
        requested = _Users(message)
    elif api_key == ApiKey.DESCRIBE_LOG_DIRS:
        requested = None  # its response has other items
    return reply, (yield from _fill(reply, requested, version, (error, text)))


def _has_own_code(reply: Struct, version: int) -> bool:
    """Return whether the response has an error code besides those of its items."""
    return any(is_error_code(field) for field in in_version(type(reply), version))


class _FlattenedDirs:
    """AlterReplicaLogDirs groups topics by directory, and its response does not."""

    def __init__(self, message: Any) -> None:
        self.topics = [topic for directory in message.dirs for topic in directory.topics]


class _Users:
    """AlterUserScramCredentials may name a user twice; its response names each user once."""

    def __init__(self, message: Any) -> None:
        self.resources = [_User(name) for name in dict.fromkeys(_names(message))]


class _User:
    def __init__(self, name: str) -> None:
        self.user = name


def _names(message: Any) -> Iterable[str]:
    return (each.name for each in (*message.deletions, *message.upsertions))


def _set_error(item: Struct, version: int, error: ErrorCode, text: str) -> bool:
    """Set the error code of `item` if it has one, and return whether it has."""
    has_code = False
    for field in in_version(type(item), version):
        if is_error_code(field):
            setattr(item, field.name, error)
            has_code = True
        elif field.name == "error_message":
            setattr(item, field.name, text)
        elif (
            field.type == "string" and getattr(item, field.name) is None and not _may_be_null(field, version)
        ):
            setattr(item, field.name, "")
    return has_code


def _may_be_null(field: Field, version: int) -> bool:
    return field.nullable is not None and version >= field.nullable


def _fill(item: Struct, requested: object, version: int, error: tuple[ErrorCode, str]) -> Slices[int]:
    """Fill `item` of a response from the request's item and return the number of error codes set."""
    count = int(_set_error(item, version, *error))
    for field in in_version(type(item), version):
        if field.array and not isinstance(field.type, str):
            items, codes = yield from _items(field, requested, version, error)
            setattr(item, field.name, items)
            count += codes
        elif field.type == "records":
            setattr(item, field.name, b"")  # null crashes clients
        elif field.name in IDENTITIES:
            _copy(item, field, requested)
            if getattr(item, field.name) is None and not _may_be_null(field, version):
                setattr(item, field.name, "")
    return count


def _items(
    field: Field, requested: object, version: int, error: tuple[ErrorCode, str]
) -> Slices[tuple[list[Struct], int]]:
    assert not isinstance(field.type, str)
    items: list[Struct] = []
    codes = 0
    for each in _source(field.name, requested):
        item = field.type()
        codes += yield from _fill(item, each, version, error)
        items.append(item)
        yield None
    return items, codes


def _source(name: str, requested: object) -> Iterable[object]:
    for candidate in (name, *SOURCES.get(name, ())):
        found = getattr(requested, candidate, None)
        if found:
            return found  # type: ignore[no-any-return]
    return ()


def _copy(item: Struct, field: Field, requested: object) -> None:
    """Copy one field that identifies the item."""
    if isinstance(requested, str | int):
        if field.name in BARE:
            setattr(item, field.name, requested)
        return
    for candidate in (field.name, *ALIASES.get(field.name, ())):
        value = getattr(requested, candidate, None)
        if value is not None:
            setattr(item, field.name, value)
            return
