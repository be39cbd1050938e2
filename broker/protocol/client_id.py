"""Reads the rest of a request header: the client id and, in flexible versions, tagged fields.

A client sends the same id with every request, so decoded strings are cached by their bytes.
"""

from typing import Final

from broker.common.errors import ProtocolViolation
from broker.protocol.varint import skip_tags

KEPT_IDS: Final = 4096
KEPT_ID_BYTES: Final = 256
"""Clients choose their ids, so the cache is bounded and skips longer ids."""

_known: dict[bytes, str] = {}


def client_id_and_body(frame: bytes | bytearray | memoryview, flexible: bool) -> tuple[str | None, int]:
    """Return the client id of a frame of at least ten bytes, and the offset of the body. Raises
    ProtocolViolation.
    """
    length = frame[8] << 8 | frame[9]
    at = 10
    client_id: str | None = None
    if length < 0x8000:
        at += length
        raw = bytes(frame[10:at])
        if len(raw) != length:
            raise ProtocolViolation(f"invalid client id: {length} bytes in a frame of {len(frame)}")
        client_id = _known.get(raw)
        if client_id is None:
            client_id = _decoded(raw)
    if flexible:
        if at >= len(frame):
            raise ProtocolViolation("truncated request header")
        tags = frame[at]
        at += 1
        if tags:
            try:
                at = skip_tags(frame, at, len(frame), tags)
            except IndexError as error:
                raise ProtocolViolation("truncated request header") from error
    return client_id, at


def known_client_id(raw: bytes) -> str:
    """Return the client id of these bytes. Raises ProtocolViolation."""
    client_id = _known.get(raw)
    return _decoded(raw) if client_id is None else client_id


def _decoded(raw: bytes) -> str:
    try:
        client_id = raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation("invalid client id: expected UTF-8") from error
    if len(raw) > KEPT_ID_BYTES:
        return client_id
    if len(_known) >= KEPT_IDS:
        _known.clear()
    _known[raw] = client_id
    return client_id
