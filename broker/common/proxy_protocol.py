"""The PROXY protocol, versions 1 and 2: the header in which a TCP balancer says who its client is.

The balancer sends it before the first byte of the client, before TLS. (HAProxy: doc/proxy-protocol.txt)
Decodes headers from bytes; `proxy_headers` reads them from sockets and says who may send them.
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from crc32c import crc32c


class HeaderRefusal(StrEnum):
    """Why a connection closes before its first request or its TLS handshake."""

    UNTRUSTED = "untrusted"
    """Its address may not send headers; it sent one, or one is required."""
    MISSING = "missing"
    """A header is required, and something else came."""
    MALFORMED = "malformed"
    TOO_LONG = "too-long"
    CHECKSUM = "checksum"
    """The CRC32C in the header is not that of the header."""
    CUT = "cut"
    """The peer closed the connection within the header."""
    TIMEOUT = "timeout"
    """The header was not complete in time, or nothing came that shows whether there is one."""
    TOO_MANY = "too-many"
    """Too many headers were outstanding, and this one for longest."""


class HeaderError(Exception):
    """The connection has to be closed. `reason` None: its peer has left without a byte, as many checks do."""

    def __init__(self, reason: HeaderRefusal | None) -> None:
        super().__init__(reason)
        self.reason = reason


Client = tuple[str, int]
"""A canonical address and a port."""

V1: Final = b"PROXY "
V2: Final = b"\r\n\r\n\0\r\nQUIT\n"

LONGEST_V1: Final = 107
"""Bytes of the longest line of version 1, with its end."""

LONGEST_V2: Final = 4_096
"""Bytes of a header of version 2 with its TLVs; ours. The addresses take 16 to 232; a client certificate's
names and a cloud's ids some hundreds.
"""

TELLING: Final = 2
"""Bytes that tell a header from a Kafka request, a TLS handshake and an HTTP request. A request that began
with them would have 218 MB or more; PUT and PATCH share only one with PROXY.
"""

HEAD: Final = 16
"""Bytes of version 2 before the addresses."""

_ADDRESSES: Final = (0, 12, 36, 216)
"""Bytes of both addresses and ports by family: unspecified, IPv4, IPv6, AF_UNIX."""

IPV4: Final = 1
IPV6: Final = 2
LOCAL: Final = 0
PROXY: Final = 1
MAX_TRANSPORT: Final = 2
CRC32C: Final = 3
"""The type of the TLV with the checksum of the header."""


def may_be_header(seen: bytes) -> bool:
    """Return whether these bytes, of which TELLING suffice, may begin a header."""
    return any(each[:TELLING].startswith(seen[:TELLING]) for each in (V1, V2))


class HeaderDecoder:
    """Decodes one header. `client` is set once it `is_complete`; None: the connection keeps its own address.
    That is so for LOCAL, for UNKNOWN, and for families without an IP address.
    """

    __slots__ = ("_held", "client", "is_complete")

    def __init__(self) -> None:
        self._held = bytearray()
        self.client: Client | None = None
        self.is_complete = False

    @property
    def has_begun(self) -> bool:
        return bool(self._held)

    def belonging(self, seen: bytes) -> int:
        """Return how many of the next bytes, of which there is one at least, belong to the header: all of
        them, or those before its end. Raises HeaderError.
        """
        held = len(self._held)
        begun = bytes(self._held) + seen
        if _begins(begun, V1):
            end = begun.find(b"\r\n", max(held - 1, 0), LONGEST_V1)
            if end >= 0:
                return end + 2 - held
            if len(begun) >= LONGEST_V1:
                raise HeaderError(HeaderRefusal.TOO_LONG)
            return len(seen)
        if not _begins(begun, V2):
            is_header = len(begun) >= TELLING and may_be_header(begun)
            raise HeaderError(HeaderRefusal.MALFORMED if is_header else HeaderRefusal.MISSING)
        if len(begun) < HEAD:
            return len(seen)
        return min(len(seen), _size(begun) - held)

    def feed(self, taken: bytes) -> None:
        """Take bytes that belong to the header. Raises HeaderError."""
        self._held += taken
        header = bytes(self._held)
        if header.startswith(V1):
            if header.endswith(b"\r\n"):
                self.client = _decode_v1(header)
                self.is_complete = True
        elif len(header) >= HEAD and len(header) == _size(header):
            self.client = _decode_v2(header)
            self.is_complete = True


def _begins(begun: bytes, signature: bytes) -> bool:
    return signature.startswith(begun[: len(signature)])


def _size(begun: bytes) -> int:
    """Return the bytes of a header of version 2 whose head has arrived. Raises HeaderError."""
    if begun[12] >> 4 != 2:
        raise HeaderError(HeaderRefusal.MALFORMED)
    size = HEAD + int.from_bytes(begun[14:HEAD], "big")
    if size > LONGEST_V2:
        raise HeaderError(HeaderRefusal.TOO_LONG)
    return size


def _decode_v1(line: bytes) -> Client | None:
    try:
        family, *rest = line[len(V1) : -2].decode("ascii").split(" ")
        if family == "UNKNOWN":
            return None
        source, destination, source_port, destination_port = rest
        if family == "TCP4":
            address: IPv4Address | IPv6Address = IPv4Address(source)
            IPv4Address(destination)
        elif family == "TCP6" and "%" not in source + destination:
            address = IPv6Address(source)
            IPv6Address(destination)
        else:
            raise ValueError("not a family")
        _port(destination_port)
        return _client(address, _port(source_port))
    except ValueError as error:
        raise HeaderError(HeaderRefusal.MALFORMED) from error


def _port(text: str) -> int:
    if not text.isdigit() or len(text) > 5 or (text[0] == "0" and text != "0") or int(text) > 65_535:
        raise ValueError("not a port")
    return int(text)


def _decode_v2(header: bytes) -> Client | None:
    command, family, transport = header[12] & 15, header[13] >> 4, header[13] & 15
    if command == LOCAL:
        return None  # the rest has no meaning
    if command != PROXY or family >= len(_ADDRESSES) or transport > MAX_TRANSPORT:
        raise HeaderError(HeaderRefusal.MALFORMED)
    tlvs = HEAD + _ADDRESSES[family]
    if tlvs > len(header):
        raise HeaderError(HeaderRefusal.MALFORMED)
    _check_tlvs(header, tlvs)
    try:
        if family == IPV4:
            return _client(IPv4Address(header[16:20]), int.from_bytes(header[24:26], "big"))
        if family == IPV6:
            return _client(IPv6Address(header[16:32]), int.from_bytes(header[48:50], "big"))
    except ValueError as error:
        raise HeaderError(HeaderRefusal.MALFORMED) from error
    return None


def _client(address: IPv4Address | IPv6Address, port: int) -> Client:
    """Raises ValueError for an address that no client has."""
    if address.is_unspecified:
        raise ValueError("no address")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address), port


def _check_tlvs(header: bytes, at: int) -> None:
    """Check the lengths of the TLVs, and the checksum if one of them has it. Raises HeaderError."""
    has_checksum = False
    while at < len(header):
        value = at + 3
        end = value + int.from_bytes(header[at + 1 : value], "big")
        if value > len(header) or end > len(header):
            raise HeaderError(HeaderRefusal.MALFORMED)
        if header[at] == CRC32C:
            if has_checksum or end - value != 4:
                raise HeaderError(HeaderRefusal.MALFORMED)
            has_checksum = True
            without = header[:value] + bytes(4) + header[end:]
            if crc32c(without) != int.from_bytes(header[value:end], "big"):
                raise HeaderError(HeaderRefusal.CHECKSUM)
        at = end
