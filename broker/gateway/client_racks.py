"""The racks of clients by their addresses (gateway.client.racks), and how a request is given one. (KIP-392,
KIP-848, KIP-932, KIP-1071)

`processor` looks the rack of a connection up once, and `channel` whether its client's software follows where
it leads. `client_receive` gives it to the requests of a client that
names none: to each Fetch, as brokers read it anew each time, and to the heartbeat by which a member joins its
group. JoinGroup has a rack only in data of the client's own, which brokers do not read.
"""

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from struct import Struct
from typing import Any, Final

from broker.common.errors import ProtocolViolation
from broker.config.sections.gateway import RackOf
from broker.gateway.own_topics import IDS_FROM
from broker.protocol.api_key import FLEXIBLE_FROM, ApiKey
from broker.protocol.client_id import client_id_and_body
from broker.protocol.codec import decode_request, encode_request, known_versions
from broker.protocol.varint import read_rest, uvarint

FETCH_FROM: Final = 11
"""The first version of Fetch with a rack."""

FETCH_TO: Final = 15
"""The last version of Fetch that the gateway forwards; `lacks_rack` knows no later one."""

HEARTBEATS: Final = frozenset(
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT)
)

MAX_BYTES: Final = 64 * 1024
"""The largest request that is given a rack, which it waits for to be whole; ours. A Fetch of more has 2,000
partitions; the next ones of its session name only those that have changed.
"""

CONSUMER: Final = b"\xff\xff\xff\xff"
"""The replica id of a Fetch that no replica sends."""

NO_RACK: Final = b"\0\0"
NO_RACK_COMPACT: Final = b"\1\0"
"""How a Fetch without a rack ends, the flexible ones with the number of their tagged fields."""

NOTHING_MORE: Final = b"\0\0\0\0" + NO_RACK
NOTHING_MORE_COMPACT: Final = b"\1" + NO_RACK_COMPACT
"""The same, with an empty array of forgotten topics."""

ID_BYTES: Final = 16
INT_BYTES: Final = 4
REPLICA_TO: Final = 14
"""The last version of Fetch that begins with a replica id."""

HEAD_BYTES: Final = 21
"""What follows it, up to the topics."""

PARTITION_BYTES: Final = 28
PARTITION_BYTES_FLEXIBLE: Final = 33
"""A partition of Fetch 11, and of 12 to 15 with the number of its tagged fields."""

EVERY: Final = "*"

INT: Final = Struct(">i")
SHORT: Final = Struct(">h")


class Rack:
    """`plain` ends a Fetch of version 11 that names this rack, `compact` a later one."""

    __slots__ = ("compact", "name", "plain")

    def __init__(self, name: str) -> None:
        text = name.encode()
        self.name = name
        self.plain = SHORT.pack(len(text)) + text
        self.compact = uvarint(len(text) + 1) + text + b"\0"

    def ending(self, version: int) -> bytes:
        """Return how a Fetch that names this rack ends, in place of its last two bytes without one."""
        return self.plain if version == FETCH_FROM else self.compact


class ClientRacks:
    """The racks of all clients; `software` is gateway.client.racks.software."""

    def __init__(self, entries: Iterable[RackOf] = (), software: Collection[str] = (EVERY,)) -> None:
        self._software = software
        racks: dict[str, Rack] = {}
        self._networks = [
            (each.network, racks.setdefault(each.rack, Rack(each.rack)))
            for each in sorted(entries, key=lambda entry: -entry.network.prefixlen)
        ]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def suit(self, name: str, version: str) -> bool:
        """Return whether clients of this software read from where a rack leads them."""
        return any(each == EVERY or each in name or each in version for each in self._software)

    def of(self, address: str) -> Rack | None:
        """Return the rack of an address in canonical form, None if it is in no network."""
        if not self._networks:
            return None
        parsed = ip_address(address)
        return next((rack for network, rack in self._networks if parsed in network), None)


def takes_rack(api_key: int, version: int) -> bool:
    """Return whether a request of this API can name a rack, and be given one here."""
    if api_key == ApiKey.FETCH:
        return FETCH_FROM <= version <= FETCH_TO
    first, last = known_versions(api_key) if api_key in HEARTBEATS else (0, -1)
    return first <= version <= last


def with_rack(frame: bytes, api_key: int, version: int, body: int, rack: Rack) -> bytes | None:
    """Return a request, with its size, that names this rack; None if it names one already, or must stay as it
    is. `body` is where its body, or the tags of its header, begin.
    """
    if api_key == ApiKey.FETCH:
        if not lacks_rack(frame, body, len(frame), version):
            return None
        changed = frame[4:-2] + rack.ending(version)
        return INT.pack(len(changed)) + changed
    return _joining_with_rack(frame, api_key, version, rack)


def lacks_rack(buffer: bytes | bytearray, at: int, end: int, version: int) -> bool:
    """Return whether a Fetch of a consumer, in `buffer` up to `end`, has no rack, and nothing but this at its
    end. Its body, or the tags of its header, begin at `at`. False for one that is damaged, or that has tagged
    fields, as no client's has.

    The last bytes alone would not say: a rack may end with them, or a tagged field. They cannot, if the bytes
    of all elements, which have at least this size each, end where the frame does.
    """
    try:
        if version >= FLEXIBLE_FROM[ApiKey.FETCH]:
            return buffer.endswith(NO_RACK_COMPACT, 0, end) and _ends_compact(buffer, at, end, version)
        return buffer.endswith(NO_RACK, 0, end) and _ends_plain(buffer, at, end)
    except (IndexError, ProtocolViolation):
        return False


def _ends_compact(buffer: bytes | bytearray, at: int, end: int, version: int) -> bool:
    if buffer[at]:
        return False
    at += 1
    if version <= REPLICA_TO:
        if not buffer.startswith(CONSUMER, at):
            return False
        at += len(CONSUMER)
    by_id = version >= IDS_FROM
    at = _skip_topics(buffer, at + HEAD_BYTES, end, PARTITION_BYTES_FLEXIBLE, by_id=by_id)
    if buffer.startswith(NOTHING_MORE_COMPACT, at):
        return at + len(NOTHING_MORE_COMPACT) == end
    at = _skip_topics(buffer, at, end, INT_BYTES, by_id=by_id)
    return at + len(NO_RACK_COMPACT) == end


def _skip_topics(buffer: bytes | bytearray, at: int, end: int, size: int, *, by_id: bool) -> int:
    """Return where an array of topics ends that begins at `at`, and whose partitions have `size` bytes; more
    than `end` if a topic or partition has tagged fields. Raises IndexError, ProtocolViolation.
    """
    topics, at = _count(buffer, at)
    for _ in range(topics):
        if by_id:
            at += ID_BYTES
        else:
            length, at = _count(buffer, at)
            at += length
        partitions, first = _count(buffer, at)
        at = first + partitions * size
        if at >= end or buffer[at]:
            return end + 1
        if size > INT_BYTES and partitions and any(buffer[first + size - 1 : at : size]):
            return end + 1
        at += 1
    return at


def _count(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return the compact length at `at`, and where it ends. Raises IndexError, ProtocolViolation."""
    count = buffer[at]
    if 0 < count < 0x80:
        return count - 1, at + 1
    count, at = read_rest(buffer, at + 1, count)
    if not count:
        raise ProtocolViolation("null")
    return count - 1, at


def _ends_plain(buffer: bytes | bytearray, at: int, end: int) -> bool:
    if not buffer.startswith(CONSUMER, at):
        return False
    at = _skip_plain(buffer, at + len(CONSUMER) + HEAD_BYTES, end, PARTITION_BYTES)
    if buffer.startswith(NOTHING_MORE, at):
        return at + len(NOTHING_MORE) == end
    return _skip_plain(buffer, at, end, INT_BYTES) + len(NO_RACK) == end


def _skip_plain(buffer: bytes | bytearray, at: int, end: int, size: int) -> int:
    """As `_skip_topics`, of version 11."""
    topics, at = _number(buffer, at, end, INT), at + INT.size
    for _ in range(topics):
        at += SHORT.size + _number(buffer, at, end, SHORT)
        at += INT.size + _number(buffer, at, end, INT) * size
    return at


def _number(buffer: bytes | bytearray, at: int, end: int, layout: Struct) -> int:
    """Return a length. Raises IndexError if there is none."""
    if at + layout.size > end:
        raise IndexError
    found: int = layout.unpack_from(buffer, at)[0]
    if found < 0:
        raise IndexError
    return found


def fill(message: Any, rack: Rack | None) -> bool:
    """Let a heartbeat by which a member joins its group name this rack, unless it names one. Later ones name
    none if nothing has changed. Returns whether the message has changed.
    """
    if rack is None or message.member_epoch or message.rack_id is not None:
        return False
    message.rack_id = rack.name
    return True


def _joining_with_rack(frame: bytes, api_key: int, version: int, rack: Rack) -> bytes | None:
    """Return a heartbeat that names this rack if it is one that joins; None for any other, and for one that
    the codec does not write in the same bytes.
    """
    try:
        client_id, body = client_id_and_body(frame[4:], flexible=True)
        message = decode_request(api_key, version)(frame[4:], body)
    except ProtocolViolation:
        return None
    encode = encode_request(api_key, version)
    correlation_id: int = INT.unpack_from(frame, 8)[0]
    before: bytes = b"".join(encode(message, correlation_id, client_id))  # type: ignore[arg-type] # no files
    if before != frame or not fill(message, rack):
        return None
    return b"".join(encode(message, correlation_id, client_id))  # type: ignore[arg-type] # no files
