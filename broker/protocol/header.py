"""Request and response headers.

Called by network for each frame (parse_request_header), by codec for the frames that clients send, and by
readers of responses. Independent of messages. A frame excludes its four-byte size.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from broker.errors import ProtocolViolation
from broker.protocol.api_key import FLEXIBLE_FROM, request_header_version
from broker.protocol.compile_decode import TEXT
from broker.protocol.compile_encode import BodyEncoder
from broker.protocol.schema import Buffer, Records
from broker.protocol.varint import skip_tags

RequestEncoder = Callable[[Any, int, str | None], list[Records]]
"""(message, correlation id, client id) -> the whole frame, with its size, as buffers in order."""

_FIXED_PART: Final = struct.Struct(">hhih")


class RequestHeader:
    """A request's header (Kafka's RequestHeader, version 1 or 2) and the offset of the body in the frame."""

    __slots__ = ("api_key", "version", "correlation_id", "client_id", "body_offset")  # noqa: RUF023 - as on the wire

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body_offset: int

    def __init__(
        self, api_key: int, version: int, correlation_id: int, client_id: str | None, body_offset: int
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_offset = body_offset

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"RequestHeader({fields})"


def parse_request_header(
    frame: Buffer,
    *,
    _unpack_from: Callable[[Buffer, int], tuple[int, int, int, int]] = _FIXED_PART.unpack_from,
    _new: Callable[[type[RequestHeader]], RequestHeader] = object.__new__,
) -> RequestHeader:
    """Parse the header at the start of `frame`. Raises ProtocolViolation, also for an unassigned key.

    The version is not checked: ApiVersions must be answered in any version. Header version 0, of the
    ControlledShutdown v0 of the ZooKeeper era, is read as version 1.
    """
    header = _new(RequestHeader)
    try:
        header.api_key, version, header.correlation_id, n = _unpack_from(frame, 0)
        header.version = version
        if n >= 0:
            offset = 10 + n
            if offset > len(frame):
                raise ProtocolViolation("the client id exceeds the request")
            header.client_id = TEXT[type(frame)](frame[10:offset])
        else:
            header.client_id = None
            offset = 10
        if version >= FLEXIBLE_FROM[header.api_key]:
            count = frame[offset]
            offset += 1
            if count:
                offset = skip_tags(frame, offset, len(frame), count)
    except (struct.error, IndexError, UnicodeDecodeError) as fault:
        raise ProtocolViolation(f"request header: {fault}") from fault
    except KeyError as unknown:
        raise ProtocolViolation(f"unknown API key {unknown}") from unknown
    header.body_offset = offset
    return header


def parse_response_header(frame: Buffer, header_version: int) -> tuple[int, int]:
    """Return the correlation id and the offset of the body. Raises ProtocolViolation."""
    try:
        (correlation_id,) = struct.unpack_from(">i", frame, 0)
        offset = 4
        if header_version:
            offset = skip_tags(frame, 5, len(frame), frame[4])
    except (struct.error, IndexError) as fault:
        raise ProtocolViolation(f"response header: {fault}") from fault
    return correlation_id, offset


def request_framer(api_key: int, version: int, body: BodyEncoder) -> RequestEncoder:
    """Return an encoder of whole frames that uses the encoder of bodies."""
    header_version = request_header_version(api_key, version)

    def frame(message: Any, correlation_id: int, client_id: str | None) -> list[Records]:
        head = struct.pack(">hhi", api_key, version, correlation_id)
        if header_version:
            text = (client_id or "").encode()
            head += struct.pack(">h", -1 if client_id is None else len(text)) + text
        if header_version == 2:
            head += b"\0"
        parts = body(message)
        return [struct.pack(">i", len(head) + sum(map(len, parts))) + head, *parts]

    return frame
