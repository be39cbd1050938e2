"""Headers of the PROXY protocol as a balancer writes them, written by the specification's tables alone."""

import socket
import struct
from typing import Final

from crc32c import crc32c

SIGNATURE: Final = bytes.fromhex("0d0a0d0a000d0a515549540a")

CLIENT: Final = ("192.0.2.7", 40_000)
"""A client, behind a balancer."""

LOCAL_COMMAND: Final = 0x20
PROXY_COMMAND: Final = 0x21
TCP4, TCP6, UNIX = 0x11, 0x21, 0x31


def v1(client: tuple[str, int] = CLIENT) -> bytes:
    family, other = ("TCP6", "2001:db8::9") if ":" in client[0] else ("TCP4", "192.0.2.9")
    return f"PROXY {family} {client[0]} {other} {client[1]} 9092\r\n".encode()


def head(length: int, command: int = PROXY_COMMAND, family: int = TCP4) -> bytes:
    return SIGNATURE + bytes((command, family)) + struct.pack(">H", length)


def v2(client: tuple[str, int] = CLIENT, tlvs: bytes = b"") -> bytes:
    """TCP over IPv4 or IPv6."""
    kind, family, other = (
        (socket.AF_INET6, TCP6, "2001:db8::9") if ":" in client[0] else (socket.AF_INET, TCP4, "192.0.2.9")
    )
    ends = socket.inet_pton(kind, client[0]) + socket.inet_pton(kind, other)
    body = ends + struct.pack(">HH", client[1], 9_092) + tlvs
    return head(len(body), family=family) + body


def local(rest: bytes = b"") -> bytes:
    """A balancer's own connection, such as a health check."""
    return head(len(rest), LOCAL_COMMAND, 0) + rest


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def with_checksum(client: tuple[str, int] = CLIENT, *, behind: bytes = b"", wrong: int = 0) -> bytes:
    """A header whose checksum differs from the right one by `wrong`."""
    empty = v2(client, tlv(3, bytes(4)) + behind)
    at = len(empty) - len(behind) - 4
    return empty[:at] + struct.pack(">I", crc32c(empty) ^ wrong) + empty[at + 4 :]
