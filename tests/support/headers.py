"""Reads the header of a request frame with the broker's own code."""

import struct
from typing import NamedTuple

from broker.common.errors import ProtocolViolation
from broker.protocol.api_key import request_header_version
from broker.protocol.client_id import client_id_and_body


class RequestHeader(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: bytes | bytearray | memoryview) -> RequestHeader:
    if len(frame) < 10:
        raise ProtocolViolation("truncated request header")
    api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
    flexible = request_header_version(api_key, version) == 2
    return RequestHeader(api_key, version, correlation_id, *client_id_and_body(frame, flexible))
