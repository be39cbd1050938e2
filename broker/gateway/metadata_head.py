"""Replaces the addresses in a Metadata response without decoding its topics.

Called by responses for large ones. Metadata of 10,000 partitions takes 26 ms to decode and encode, in which
the gateway would serve no other client. Its addresses are in the list of brokers at its beginning: only this
is read, and everything behind it is copied as it is.

Pure. A damaged list of brokers raises ProtocolViolation; damage behind it reaches the client.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.config.listeners import Address
from broker.protocol.api_key import ApiKey, flexible_from
from broker.protocol.codec import parse_response_header
from broker.protocol.schema import Buffer
from broker.protocol.varint import read_uvarint, skip_tags, uvarint

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
FLEXIBLE: Final = flexible_from(ApiKey.METADATA)
THROTTLED: Final = 3
"""The first version with a throttle time before the brokers."""
WITH_RACKS: Final = 1
BROKERS_AT_ONCE: Final = 512
"""Brokers that are read without a pause, in a millisecond; ours. A response with more of them is decoded in
slices.
"""

SMALLEST_BROKER: Final = 10
"""Bytes of a broker with an empty host: id, length, port."""


class MetadataBrokers:
    """The brokers of a Metadata response without its size. Raises ProtocolViolation if they are damaged.

    `node_ids` are in the order of the response. If `count` is above BROKERS_AT_ONCE, none is read.
    """

    __slots__ = ("_before", "_behind", "_flexible", "_frame", "_header", "_racks", "count", "node_ids")

    def __init__(self, frame: Buffer, version: int) -> None:
        self._frame = frame
        self._flexible = version >= FLEXIBLE
        self.node_ids: list[int] = []
        self._racks: list[bytes] = []
        try:
            self._read(version)
        except (StructError, IndexError) as error:
            raise ProtocolViolation(f"Metadata response v{version}: {error}") from error

    def _read(self, version: int) -> None:
        frame, flexible = self._frame, self._flexible
        _, self._header = parse_response_header(frame, int(flexible))
        at = self._before = self._header + (4 if version >= THROTTLED else 0)
        count, at = self._length(at, INT32)
        if not 0 <= count * SMALLEST_BROKER <= len(frame) - at:
            raise ProtocolViolation(f"Metadata response v{version}: {count} brokers in {len(frame)} bytes")
        self.count = count
        for _ in range(count if count <= BROKERS_AT_ONCE else 0):
            self.node_ids.append(INT32.unpack_from(frame, at)[0])
            size, at = self._length(at + 4, INT16)
            if size < 0:
                raise ProtocolViolation(f"Metadata response v{version}: a broker without a host")
            rack = at = at + size + 4
            if version >= WITH_RACKS:
                size, at = self._length(rack, INT16)
                at += max(size, 0)
            if at > len(frame):
                raise ProtocolViolation(f"Metadata response v{version}: a broker exceeds the message")
            self._racks.append(bytes(frame[rack:at]))
            if flexible:
                at = skip_tags(frame, at + 1, len(frame), frame[at])
        self._behind = at

    def _length(self, at: int, fixed: Struct) -> tuple[int, int]:
        if self._flexible:
            size, at = read_uvarint(self._frame, at)
            return size - 1, at
        return fixed.unpack_from(self._frame, at)[0], at + fixed.size

    def at(self, addresses: list[Address]) -> bytes:
        """Return the whole response, with its size, with these addresses in the order of `node_ids`."""
        return self.beginning_at(addresses, len(self._frame))

    def beginning_at(self, addresses: list[Address], whole: int) -> bytes:
        """As `at`, if the frame is the beginning of a response of `whole` bytes, and return the beginning."""
        frame, flexible = self._frame, self._flexible
        count = len(addresses)
        parts = [
            bytes(frame[:4]),
            b"\0" if flexible else b"",
            bytes(frame[self._header : self._before]),
            uvarint(count + 1) if flexible else INT32.pack(count),
        ]
        for node_id, address, rack in zip(self.node_ids, addresses, self._racks, strict=True):
            host = address.host.encode()
            size = uvarint(len(host) + 1) if flexible else INT16.pack(len(host))
            parts += (INT32.pack(node_id), size, host, INT32.pack(address.port), rack)
            if flexible:
                parts.append(b"\0")
        behind = memoryview(frame)[self._behind :]
        size_of_all = sum(map(len, parts)) + whole - self._behind
        return b"".join((INT32.pack(size_of_all), *parts, behind))
