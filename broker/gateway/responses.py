"""Replaces the addresses of upstream brokers in responses by those that the client must use.

Called by the gateway for each response with addresses. These are all responses of Kafka with a host and a
port that a broker sends to clients: Produce from 10, Metadata, FindCoordinator, DescribeQuorum from 2,
DescribeCluster, ShareFetch and ShareAcknowledge. (Fetch has addresses from 16, after its records:
api_versions advertises up to 15.) The hosts in DescribeGroups, ACLs and the endpoints of Kafka Streams
applications are those of clients, and stay. Metadata is also given the marks of `internal_topics`.

A rewritten response is decoded and encoded again without its unknown tagged fields, which could contain
addresses, and the tagged fields of its header. Only of a large Metadata response the topics are copied as
they are (`MetadataBrokers`): 10,000 partitions would take 26 ms, in which the gateway would serve no other
client. Any other large response is rewritten in slices, such as an answer of FindCoordinator for 10,000
groups. A node without an advertised address is left out of lists of nodes; where a client waits for that very
node, it gets the error that Kafka has for a broker without the client's listener.

Pure. A damaged frame raises ProtocolViolation.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final, cast

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.common.slices import SLICE, Steps, advance, run_through
from broker.config.listeners import Address
from broker.gateway.internal_topics import (
    PREFIX,
    InternalMarks,
    internal_marks,
    mark_beginning,
    with_marks,
)
from broker.metadata.image import OUR_TOPICS
from broker.protocol.api_key import ApiKey, flexible_from, response_header_version
from broker.protocol.codec import (
    decode_response,
    decode_response_in_slices,
    encode_response,
    encode_response_in_slices,
    parse_response_header,
)
from broker.protocol.dismantle import dismantle
from broker.protocol.messages.describe_cluster import DescribeClusterResponse
from broker.protocol.messages.describe_quorum import DescribeQuorumResponse
from broker.protocol.messages.find_coordinator import FindCoordinatorResponse
from broker.protocol.messages.metadata import MetadataResponse
from broker.protocol.schema import Buffer, Message
from broker.protocol.varint import read_uvarint, skip_tags, uvarint

Advertised = Callable[[int], Address | None]
"""Node id -> the address at which this client reaches the node; None if it does not."""

Rewriter = Callable[[Buffer, Advertised], bytes]
"""(response without its size, advertised addresses) -> the whole response, with its size."""

AT_ONCE: Final = 16 * 1024
"""Bytes of a response up to which it is rewritten at once, in two milliseconds; our own limit."""

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""The largest response that the gateway collects; ours. Metadata of 100,000 partitions has 5 MB, and is not
collected.
"""

MAX_COLLECTED: Final = {
    ApiKey.API_VERSIONS: AT_ONCE,
    ApiKey.SASL_HANDSHAKE: AT_ONCE,
    ApiKey.SASL_AUTHENTICATE: 512 * 1024,
}
"""The largest responses that are read at once, with nothing else in between; ours. They have 1 kB usually."""

KNOWN_ADDRESSES: Final = 512
"""Addresses that are remembered while one response is rewritten; ours."""

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
FLEXIBLE: Final = flexible_from(ApiKey.METADATA)
THROTTLED: Final = 3
"""The first version with a throttle time before the brokers."""
WITH_RACKS: Final = 1
WITH_CONTROLLER: Final = 1
WITH_CLUSTER_ID: Final = 2
BROKERS_AT_ONCE: Final = 512
"""Brokers that are read without a pause, in a millisecond; ours. A response with more of them is decoded in
slices.
"""

SMALLEST_BROKER: Final = 10
"""Bytes of a broker with an empty host: id, length, port."""

NO_NODE: Final = -1
NO_PORT: Final = -1
BROKERS: Final = 1
"""DescribeCluster: the endpoints are those of brokers. (KIP-919)"""


def rewriter(api_key: int, version: int) -> Rewriter | None:
    """Return the function that rewrites the responses of this API and version; None if they contain no
    addresses.

    The function raises ProtocolViolation if the frame is damaged. Raises ProtocolViolation if the responses
    contain addresses in a layout that the codec does not know; see `api_versions.is_allowed`.
    """
    found = _REPLACERS.get(api_key)
    if found is None or version < found[0]:
        return None
    return _rewriter(api_key, version)


def rewritten(frame: Buffer, api_key: int, version: int, advertised: Advertised) -> bytes | Steps[bytes]:
    """Rewrite a response of an API and version with addresses. Returns it, or, if it has more than AT_ONCE
    bytes, the slices that are left after the first. Raises ProtocolViolation.
    """
    if len(frame) <= AT_ONCE:
        return _rewriter(api_key, version)(frame, advertised)
    slices = _rewriter_in_slices(api_key, version)(frame, advertised)
    try:
        advance(slices)
    except StopIteration as end:
        whole: bytes = end.value
        return whole
    return slices


def readdress(message: Any, version: int, advertised: Advertised) -> Generator[None, None, None]:
    """Replace the addresses in a decoded response that has some, and mark the internal topics of Metadata;
    yields after every slice of them.
    """
    _, replace = _REPLACERS[message.API_KEY]
    yield from replace(message, version, lru_cache(KNOWN_ADDRESSES)(advertised))
    if isinstance(message, MetadataResponse):
        for number, topic in enumerate(message.topics, 1):
            if topic.name is not None and topic.name.startswith(OUR_TOPICS):
                topic.is_internal = True
            if number % SLICE == 0:
                yield


@cache
def _rewriter(api_key: int, version: int) -> Rewriter:
    _, replace = _REPLACERS[api_key]
    decode_response(api_key, version)  # raises for an unknown version here and not for each response

    def rewrite(frame: Buffer, advertised: Advertised) -> bytes:
        if api_key == ApiKey.METADATA and PREFIX in bytes(frame):
            frame = run_through(_marked(frame, version))
        message, correlation_id = decoded(frame, api_key, version)
        for _ in replace(message, version, lru_cache(KNOWN_ADDRESSES)(advertised)):
            pass
        return encoded(message, version, correlation_id)

    return rewrite


@cache
def _rewriter_in_slices(api_key: int, version: int) -> Callable[[Buffer, Advertised], Steps[bytes]]:
    _, replace = _REPLACERS[api_key]
    header_version = response_header_version(api_key, version)

    def rewrite(frame: Buffer, advertised: Advertised) -> Steps[bytes]:
        if api_key == ApiKey.METADATA:
            frame = yield from _marked(frame, version)
            copied = _with_addresses(frame, version, advertised)
            if copied is not None:
                return copied
        correlation_id, body = parse_response_header(frame, header_version)
        decode = decode_response_in_slices(api_key, version)  # compiled by the first call
        yield
        try:
            message: Any = yield from decode(frame, body)
        except ProtocolViolation as violation:
            yield from dismantle(violation.take_partial())
            raise
        yield from replace(message, version, lru_cache(KNOWN_ADDRESSES)(advertised))
        encode = encode_response_in_slices(api_key, version)
        yield
        parts = yield from encode(message, correlation_id)
        freeing = dismantle(message)
        del message
        yield from freeing
        return b"".join(cast(list[Buffer], parts))

    return rewrite


def _marked(frame: Buffer, version: int) -> Steps[Buffer]:
    """Return a Metadata response in which the gateways' topics are internal, in slices; see `with_marks`."""
    marks = internal_marks(ApiKey.METADATA, version)
    if marks is None:
        return frame
    return (yield from with_marks(frame, MetadataBrokers(frame, version).topics_at(), marks))


def decoded(frame: Buffer, api_key: int, version: int) -> tuple[Any, int]:
    """Return the message and the correlation id of a response without its size. Raises ProtocolViolation."""
    correlation_id, body = parse_response_header(frame, response_header_version(api_key, version))
    return decode_response(api_key, version)(frame, body), correlation_id


def encoded(message: Message, version: int, correlation_id: int) -> bytes:
    """Return the whole response, with its size. Its records, if it has any, must be buffers."""
    assert message.API_KEY is not None
    parts = encode_response(message.API_KEY, version)(message, correlation_id)
    return b"".join(cast(list[Buffer], parts))


def plain_ending(api_key: int, version: int) -> bytes | None:
    """Return the bytes at the end of a response that needs no rewriting, if they suffice to recognize it.

    A response with this ending contains no addresses and is forwarded as it is. Any other response of this
    API and version, though it may contain none either, goes through its rewriter.

    Produce ends in throttle_time_ms and the number of tagged fields: five zero bytes. With node endpoints,
    the last bytes are an endpoint's port, a rack of one byte at least, and the endpoint's number of tagged
    fields: the port would be zero. ShareFetch and ShareAcknowledge end in an array of endpoints and the
    number of tagged fields: an empty array is 1, and the last byte of an endpoint is 0.
    """
    if rewriter(api_key, version) is None:
        return None
    return _PLAIN_ENDINGS.get(api_key)


_PLAIN_ENDINGS: Final[dict[int, bytes]] = {
    ApiKey.PRODUCE: bytes(5),
    ApiKey.SHARE_FETCH: b"\1\0",
    ApiKey.SHARE_ACKNOWLEDGE: b"\1\0",
}


def max_response(api_key: int) -> int:
    """Return the largest response that is collected, in bytes."""
    return MAX_COLLECTED.get(api_key, MAX_RESPONSE_BYTES)  # type: ignore[call-overload, no-any-return]


class MetadataBrokers:
    """The brokers of a Metadata response without its size, whose topics are not decoded. Raises
    ProtocolViolation if the brokers are damaged; damage behind them reaches the client.

    `node_ids` are in the order of the response. If `count` is above BROKERS_AT_ONCE, none is read.
    """

    __slots__ = (
        "_before",
        "_behind",
        "_flexible",
        "_frame",
        "_header",
        "_racks",
        "_version",
        "count",
        "node_ids",
    )

    def __init__(self, frame: Buffer, version: int) -> None:
        self._frame = frame
        self._version = version
        self._flexible = version >= FLEXIBLE
        self.node_ids: list[int] = []
        self._racks: list[bytes] = []
        try:
            self._read()
        except (StructError, IndexError) as error:
            raise ProtocolViolation(f"Metadata response v{version}: {error}") from error

    def _read(self) -> None:
        frame, version, flexible = self._frame, self._version, self._flexible
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

    def topics_at(self) -> int:
        """Return where the topics begin, or the brokers if they are not read. Raises ProtocolViolation."""
        at = self._behind
        if self.count > BROKERS_AT_ONCE:
            return at
        if self._version >= WITH_CLUSTER_ID:
            try:
                size, at = self._length(at, INT16)
            except (StructError, IndexError) as error:
                raise ProtocolViolation(f"Metadata response v{self._version}: {error}") from error
            at += max(size, 0)
        if self._version >= WITH_CONTROLLER:
            at += INT32.size
        return at

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


def _with_addresses(frame: Buffer, version: int, advertised: Advertised) -> bytes | None:
    """Return a Metadata response with other addresses and the same topics; None if a node has no address, or
    if there are more brokers than are read at once.
    """
    brokers = MetadataBrokers(frame, version)
    if brokers.count > BROKERS_AT_ONCE:
        return None
    addresses = [address for node_id in brokers.node_ids if (address := advertised(node_id)) is not None]
    return brokers.at(addresses) if len(addresses) == len(brokers.node_ids) else None


def metadata_beginning(
    begun: Buffer, size: int, version: int, advertised: Advertised
) -> tuple[bytearray, InternalMarks | None] | None:
    """Return what the beginning of a Metadata response of `size` bytes, without its size, is rewritten to,
    with the size of the rewritten response, and what marks internal topics in what follows, which is else
    forwarded unchanged; None if there are none to mark. None if the topics have not begun yet, or addresses
    are found only in the whole response.
    """
    try:
        brokers = MetadataBrokers(begun, version)
        topics_at = brokers.topics_at()
    except ProtocolViolation:
        return None  # more has to arrive, or the whole response is damaged
    if brokers.count > BROKERS_AT_ONCE:
        return None
    addresses = [address for node_id in brokers.node_ids if (address := advertised(node_id)) is not None]
    if len(addresses) < len(brokers.node_ids) or topics_at >= len(begun):
        return None
    made = bytearray(brokers.beginning_at(addresses, size))
    marks = internal_marks(ApiKey.METADATA, version)
    if marks is not None:
        marks = mark_beginning(made, len(made) - len(begun) + topics_at, marks)
    return made, marks


# Each of these yields after every SLICE elements.


def _metadata(message: MetadataResponse, version: int, advertised: Advertised) -> Iterator[None]:
    unreachable: set[int] = set()
    message.brokers = yield from _reachable(message.brokers, advertised, unreachable=unreachable)
    if not unreachable:
        return
    if message.controller_id in unreachable:
        message.controller_id = NO_NODE
    # As Kafka for a leader without the client's listener: MetadataCache.getPartitionMetadata.
    error = ErrorCode.LEADER_NOT_AVAILABLE if version < 6 else ErrorCode.LISTENER_NOT_FOUND
    left = SLICE
    for topic in message.topics:
        for partition in topic.partitions:
            if partition.leader_id in unreachable:
                partition.leader_id = NO_NODE
                partition.error_code = error
        left -= 1 + len(topic.partitions)
        if left < 0:
            left = SLICE
            yield


def _find_coordinator(
    message: FindCoordinatorResponse, version: int, advertised: Advertised
) -> Iterator[None]:
    coordinators: Sequence[Any] = [message] if version < 4 else message.coordinators
    for each in coordinators:
        yield
        address = advertised(each.node_id) if each.error_code == ErrorCode.NONE else None
        if address is not None:
            each.host, each.port = address.host, address.port
            continue
        each.node_id, each.host, each.port = NO_NODE, "", NO_PORT
        if each.error_code == ErrorCode.NONE:
            each.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _describe_cluster(
    message: DescribeClusterResponse, version: int, advertised: Advertised
) -> Iterator[None]:
    if message.endpoint_type != BROKERS and not message.error_code:
        # A client that asks for controllers connects to them, and the gateway has no addresses for these.
        message.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message.error_message = "The gateway advertises the addresses of brokers only."
    if message.error_code:
        message.brokers = []
        message.controller_id = NO_NODE
        return
    message.brokers = yield from _reachable(message.brokers, advertised, "broker_id")
    has_controller = False
    for broker in message.brokers:
        has_controller = has_controller or broker.broker_id == message.controller_id
        yield
    if not has_controller:
        message.controller_id = NO_NODE


def _describe_quorum(message: DescribeQuorumResponse, version: int, advertised: Advertised) -> Iterator[None]:
    """Remove the listeners of the nodes: they are those of controllers, which clients do not reach."""
    for node in message.nodes:
        node.listeners = []
        yield


def _node_endpoints(message: Any, version: int, advertised: Advertised) -> Iterator[None]:
    message.node_endpoints = yield from _reachable(message.node_endpoints, advertised)


def _reachable(
    nodes: list[Any],
    advertised: Advertised,
    id_field: str = "node_id",
    unreachable: set[int] | None = None,
) -> Generator[None, None, list[Any]]:
    """Return the nodes that have an advertised address, with this address. Adds the ids of the others to
    `unreachable`.
    """
    reachable = []
    for number, node in enumerate(nodes, 1):
        node_id = getattr(node, id_field)
        address = advertised(node_id)
        if address is not None:
            node.host, node.port = address.host, address.port
            reachable.append(node)
        elif unreachable is not None:
            unreachable.add(node_id)
        nodes[number - 1] = None  # frees it now and not with all others
        yield
    return reachable


_REPLACERS: Final[dict[int, tuple[int, Callable[[Any, int, Advertised], Iterator[None]]]]] = {
    ApiKey.PRODUCE: (10, _node_endpoints),
    ApiKey.METADATA: (0, _metadata),
    ApiKey.FIND_COORDINATOR: (0, _find_coordinator),
    ApiKey.DESCRIBE_QUORUM: (2, _describe_quorum),
    ApiKey.DESCRIBE_CLUSTER: (0, _describe_cluster),
    ApiKey.SHARE_FETCH: (0, _node_endpoints),
    ApiKey.SHARE_ACKNOWLEDGE: (0, _node_endpoints),
}
"""The first version with addresses, and the function that replaces them in a decoded response."""
