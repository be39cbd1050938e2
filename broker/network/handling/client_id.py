"""The part of a request header that a processor has not read: the client id and, in flexible versions,
tagged fields.

A client sends the same id with every request, so the decoded strings are kept and found by their bytes.
`protocol.header` has the whole header for everybody who is not on the path of every request.
"""

from typing import Final

from broker.errors import ProtocolViolation
from broker.protocol.varint import skip_tags

KEPT_IDS: Final = 4096
KEPT_ID_BYTES: Final = 256
"""Client ids are chosen by clients, so what is kept of them is bounded, and longer ones are not kept."""

_known: dict[bytes, str] = {}


def client_id_and_body(frame: bytes | bytearray | memoryview, flexible: bool) -> tuple[str | None, int]:
    """The client id of a frame of at least ten bytes, and the offset at which the body begins. Raises
    ProtocolViolation.
    """
    length = frame[8] << 8 | frame[9]
    at = 10
    client_id: str | None = None
    if length < 0x8000:
        at += length
        raw = bytes(frame[10:at])
        if len(raw) != length:
            raise ProtocolViolation(f"a client id of {length} bytes in a frame of {len(frame)}")
        client_id = _known.get(raw)
        if client_id is None:
            client_id = _decoded(raw)
    if flexible:
        if at >= len(frame):
            raise ProtocolViolation("the request ends within its header")
        tags = frame[at]
        at += 1
        if tags:
            try:
                at = skip_tags(frame, at, len(frame), tags)
            except IndexError as error:
                raise ProtocolViolation("the request ends within its header") from error
    return client_id, at


def _decoded(raw: bytes) -> str:
    try:
        client_id = raw.decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation("a client id that is not UTF-8") from error
    if len(raw) > KEPT_ID_BYTES:
        return client_id
    if len(_known) >= KEPT_IDS:
        _known.clear()
    _known[raw] = client_id
    return client_id
