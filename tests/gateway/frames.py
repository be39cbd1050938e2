"""Responses as an upstream broker sends them, and what a client reads of the gateway's."""

from collections.abc import Iterator
from typing import Any

from broker.config.listeners import Address
from broker.protocol.api_key import ApiKey, response_header_version
from broker.protocol.codec import decode_response, encode_response, parse_response_header, response_class
from broker.protocol.messages import APIS
from broker.protocol.schema import Message, Struct, in_version

CORRELATION_ID = 77
UPSTREAM = "upstream.internal"


def versions_of(key: int) -> range:
    first, last = response_class(key).VERSIONS
    return range(first, last + 1)


EVERY = [(ApiKey(key), version) for key in APIS for version in versions_of(key)]


def frame_of(message: Any, version: int) -> bytes:
    """The response without its size."""
    return b"".join(encode_response(message.API_KEY, version)(message, CORRELATION_ID))[4:]


def read(response: bytes, key: int, version: int) -> Any:
    """The message of a whole response."""
    assert int.from_bytes(response[:4], "big") == len(response) - 4
    frame = response[4:]
    correlation_id, body = parse_response_header(frame, response_header_version(key, version))
    assert correlation_id == CORRELATION_ID
    return decode_response(key, version)(frame, body)


def with_header_tags(frame: bytes) -> bytes:
    """The response with a tagged field in its header, which must have none."""
    assert frame[4] == 0
    return frame[:4] + b"\1\x09\3abc" + frame[5:]


def nodes_in(message: Struct, version: int) -> Iterator[Any]:
    """The structs of a message that have an address."""
    fields = in_version(type(message), version)
    if {"host", "port"} <= {field.name for field in fields}:
        yield message
    for field in fields:
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Struct):
                yield from nodes_in(each, version)


def upstream_only(message: Message, version: int) -> Message:
    """The message with upstream hosts wherever it has a host."""
    for node in nodes_in(message, version):
        node.host = UPSTREAM
    return message


def even_nodes(node_id: int) -> Address | None:
    """The address of each node with an even id; the others are not reachable."""
    return Address(f"gateway-{node_id}.example", 31_000 + node_id % 100) if node_id % 2 == 0 else None
