"""Reads a client's requests, decides about each by its head, and forwards them.

Takes the place of a connection's `Receive`. A read takes what the kernel has, usually one or several whole
requests, and forwards all of them in one send. What a quota, a limit or a request that is answered here holds
back stays in `_rest` until the connection is unmuted. The bytes of a larger frame follow its head without
being kept; above gateway.splice.min.bytes they never leave the kernel.

Most reads have one whole request, with the client id of the one before, that needs nothing but to be
forwarded: `read` does that by itself, as calls cost more than their work.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import islice
from struct import Struct
from typing import Final

from broker.api.requests.topics_used import MAX_TOPICS
from broker.common.errors import ProtocolViolation
from broker.gateway.channel import DRAINING, GatewayChannel, LocalRequest, UpstreamState
from broker.gateway.client_racks import MAX_BYTES, Rack, lacks_rack, with_rack
from broker.gateway.forwarder import COPIES, SCRATCH_BYTES, SMALL_BYTES, Forwarder
from broker.gateway.internal_topics import PREFIX
from broker.gateway.own_topics import IDS_FROM, TRANSACTIONAL_FROM, FetchTopics, ProduceTopics
from broker.gateway.routes import (
    NEVER,
    AskedRequest,
    ForwardedRequest,
    ForwardRoute,
    ForwardRoutes,
    Treatment,
)
from broker.gateway.splice import Splice, TargetError
from broker.gateway.topics_named import fetched_topics
from broker.gateway.upstream_receive import UpstreamReceive, loss_of
from broker.network.connection.channel import has_arrivals
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.read_ahead_channel import QUEUE_FULL
from broker.network.connection.receive import EndOfStream, Frame, Receive, invalid_size
from broker.network.connection.transport import Transport
from broker.protocol.api_key import ApiKey
from broker.protocol.client_id import known_client_id
from broker.protocol.varint import read_uvarint, skip_tags

HEAD: Final = Struct(">iIih")
"""Size, API key and version as one number, correlation id, length of the client id."""

BURST: Final = 256
"""Requests forwarded for one connection before others have their turn; ours. At 4 us each this is a
millisecond.
"""

MAX_WHOLE: Final = SCRATCH_BYTES - 4
"""The largest request that is read whole before it is forwarded: ApiVersions, SASL messages; ours."""

ACKS: Final = Struct(">h")
INT: Final = Struct(">i")
MIN_SIZE: Final = 10

SHORTEST: Final = 14
"""Bytes of the shortest request, with its size."""

MAX_PREFIX: Final = 6
"""Bytes before the transactional id of a flexible Produce: the number of tagged fields, and a length."""

NO_ACKS: Final = "a Produce without acks"
NO_REPLICA: Final = "a Fetch without a replica id"
REPLICA: Final = "a Fetch of a replica"

UNPACK_HEAD: Final = HEAD.unpack_from

Read = Callable[[Transport], Frame | None]


class UsualHead:
    """The head of requests with one client id, and how it is read: `unpack` returns the size, API key and
    version, correlation id, client id with its length, and the four bytes behind it as a number. It reads
    `size` bytes. `id_bytes` are the client id with its length.
    """

    def __init__(self, id_bytes: bytes, client_id: str | None) -> None:
        layout = Struct(f">iIi{len(id_bytes)}sI")
        self.unpack: Callable[[memoryview], tuple[int, int, int, bytes, int]] = layout.unpack_from
        self.size = layout.size if id_bytes else 1 << 31
        self.id_bytes = id_bytes
        self.client_id = client_id


NO_HEAD: Final = UsualHead(b"", None)
"""Of a connection that has not sent two requests with the same client id: no read has so many bytes."""

MAX_USUAL_HEAD: Final = 128
KEPT_HEADS: Final = 4096
"""The longest head that is a usual one, and how many of them all connections share; ours."""

PRODUCE: Final = Treatment.PRODUCE
FETCH: Final = Treatment.FETCH
WHOLE: Final = Treatment.WHOLE
LOCALLY: Final = Treatment.LOCAL

REFUSED: Final = "a request for topics that only gateways use"

TOPICS_AT: Final = 8
"""Where the topics begin in a flexible Produce without tags in its header and without transactional id."""

UNUSUAL: Final = b"\xff" * 16
"""What no topics of a Produce begin with: its timeout would be negative."""

NO_TAGS: Final = 1 << 24
"""Of the four bytes behind a client id, when the first says that the header has no tags, an upper bound."""

ONE_TOPIC: Final = 2
"""How the array of topics of a flexible request with one topic begins."""

KEPT_BEGINNINGS: Final = 64
"""Beginnings of topics of a Fetch by which a connection's repeated topics are recognized; ours."""

NOTED_BYTES: Final = 256
"""The largest request whose repetition is recognized; ours."""


class ClientReceive(Receive):
    """`upstream` is set while the upstream connection is open; it closes with this one. `local` receives
    requests that are answered here. `rack` is what requests are given that name none. `produces` says whether
    it has sent a Produce that is answered.
    """

    __slots__ = (
        "_approved",
        "_approved_route",
        "_asked",
        "_beginnings",
        "_forwarder",
        "_left",
        "_local",
        "_local_is_partial",
        "_noted",
        "_noted_route",
        "_renews",
        "_routes",
        "_splice",
        "_topics",
        "_unfinished",
        "_usual_head",
        "_usual_route",
        "channel",
        "produces",
        "rack",
        "upstream",
    )

    channel: GatewayChannel

    def __init__(
        self, limit: int, forwarder: Forwarder, routes: ForwardRoutes, local: Receive, frames: FramePool
    ) -> None:
        super().__init__(limit, forwarder.scratch, frames)
        self._forwarder = forwarder
        self._routes = routes
        self._local = local
        self._local_is_partial = False
        self._left = 0
        self._splice: Splice | None = None
        self._unfinished: ForwardedRequest | None = None
        self.upstream: UpstreamReceive | None = None
        self._asked: tuple[ForwardedRequest, bytes] | None = None
        self._renews = False
        self._usual_head = NO_HEAD
        self._usual_route: ForwardRoute | None = None
        self._noted = b""
        self._noted_route: ForwardRoute | None = None
        self._topics: FetchTopics | ProduceTopics | None = None
        self._beginnings: tuple[bytes, ...] = ()
        """How the topics of its Fetches begin that are noted already."""
        self._approved = UNUSUAL
        self._approved_route: ForwardRoute | None = None
        self.rack: Rack | None = None
        self.produces = False

    def attach(self, channel: GatewayChannel) -> None:
        """Receive for `channel`, once, before the first read."""
        self.channel = channel
        channel.client = self

    @property
    def has_buffered(self) -> bool:
        return bool(self._rest) or self._local.has_buffered

    @property
    def is_within_request(self) -> bool:
        """Whether the beginning of a request has been forwarded, and not its end."""
        return self._left > 0

    @property
    def waits_for_memory(self) -> bool:
        """Whether this connection must not be read now, whatever has been decrypted."""
        return bool(self.channel.flags & ~DRAINING) or self._local.waits_for_memory

    def read(self, sock: Transport) -> Frame | None:
        """Read once and forward. Returns a request that is to be answered here, if there is one.

        Raises EndOfStream, ProtocolViolation for what is not forwarded, and OSError from either socket.
        """
        if self._left:
            try:
                self._relay(sock)
            except EndOfStream:
                self._give_up_unfinished()
                raise
            return None
        if self._local_is_partial:
            return self._read_local(sock)
        scratch, rest = self._scratch, self._rest
        begin = len(rest)
        if begin:
            scratch[:begin] = rest
        try:
            count = sock.recv_into(scratch[begin:] if begin else scratch)
        except BlockingIOError:
            return None
        usual = self._usual_head
        if count < usual.size or begin:
            if count == 0:
                return self._forward_last(rest)
            return self._forward(scratch, begin + count)
        size, head, correlation_id, id_bytes, start = usual.unpack(scratch)
        forwarder, channel, upstream = self._forwarder, self.channel, self.upstream
        session = channel.session
        route = self._usual_route
        if route is None or route.head != head:
            route = self._usual_route = self._routes.get(head)
        if (
            size != count - 4
            or size > self.limit
            or id_bytes != usual.id_bytes
            or route is None
            or not route.usual_above < start < route.usual_below
            or upstream is None
            or not channel.authenticated
            or (session is not None and (session.renewing or session.is_over(forwarder.selector.now_ms)))
        ):
            return self._forward(scratch, count)
        selector, treatment, client_id = forwarder.selector, route.treatment, usual.client_id
        request = ForwardedRequest(channel, route, client_id, correlation_id, size, selector.now)
        if treatment is PRODUCE:
            if not self.produces:
                return self._forward(scratch, count)
            if (
                route is not self._approved_route
                or not forwarder.buffer.startswith(self._approved, usual.size)
            ) and self._names_ours(route, scratch[usual.size - 4 : count], is_whole=True):
                return self._forward(scratch, count)
            if forwarder.quotas.produce_active:
                forwarder.charge_produce(request, channel.quotas, selector.now)
        elif treatment is FETCH:
            if route.topics_at:
                # One topic, or none that is new to the fetch session; see `_may_fetch_ours` for others.
                ids, at = forwarder.own.refused_ids, usual.size + route.topics_at
                if (
                    ids
                    and (
                        at >= count
                        or start >= NO_TAGS
                        or forwarder.buffer[at] > ONE_TOPIC
                        or forwarder.buffer.startswith(ids, at + 1)
                    )
                    and self._may_fetch_ours(route, start, at, count)
                ):
                    return self._forward(scratch, count)
            elif forwarder.buffer.find(PREFIX, usual.size, count) >= 0:
                return self._forward(scratch, count)
            at = usual.size + route.names_at
            if forwarder.buffer[at] > route.no_topics and not forwarder.buffer.startswith(
                self._beginnings, at
            ):
                self._note_fetched(route, scratch[usual.size - 4 : count])
            if self.rack is not None:
                channel.bytes_in += count  # of what the client has sent
                count = self._name_rack(self.rack, route, usual.size - 4, count)
                channel.bytes_in -= count
        elif (treatment is WHOLE or treatment is LOCALLY) and (
            route is not self._noted_route
            or len(self._noted) != count - 12
            or not forwarder.buffer.startswith(self._noted, 12)
        ):
            if treatment is LOCALLY:
                return self._forward(scratch, count)
            self._observe(request, count)
        in_flight = channel.in_flight
        in_flight.append(request)
        channel.client_id = client_id
        channel.requests += 1
        channel.bytes_in += count
        channel.last_active_ms = selector.now_ms
        if len(in_flight) >= forwarder.max_in_flight:
            channel.set_flag(QUEUE_FULL)
        upstream.send(forwarder.beginning(count))
        return None

    def _name_rack(self, rack: Rack, route: ForwardRoute, body: int, count: int) -> int:
        """Let a usual Fetch in the first `count` bytes name its client's rack, unless it names one. Returns
        the number of its bytes.
        """
        forwarder = self._forwarder
        if not route.takes_rack or count > MAX_BYTES:
            return count
        if not lacks_rack(forwarder.buffer, body, count, route.version):
            return count
        ending = rack.ending(route.version)
        end = count - 2 + len(ending)
        forwarder.scratch[count - 2 : end] = ending
        INT.pack_into(forwarder.buffer, 0, end - 4)
        return end

    def _may_fetch_ours(self, route: ForwardRoute, start: int, at: int, count: int) -> bool:
        """Return whether a usual Fetch by id in the first `count` bytes may name a topic of the gateways; its
        topics begin at `at` if it has no tags before its body.
        """
        own = self._forwarder.own
        return (
            start >= NO_TAGS
            or at >= count
            or not own.is_known
            or own.are_fetched(self._scratch[at:count], route.version)
        )

    def _names_ours(self, route: ForwardRoute, body: memoryview, *, is_whole: bool) -> bool:
        """Return whether a Produce or Fetch names topics of the gateways. `body` begins with the tags of its
        header, and has what has arrived; what follows is looked through later if it may name some.
        """
        own = self._forwarder.own
        self._topics = None
        if route.treatment is FETCH:
            if own.are_fetched(body, route.version):
                return True
            if route.no_topics < NEVER:
                self._note_fetched(route, body)
            if not is_whole:
                self._topics = FetchTopics(route.version, own, body)
            return False
        approved = self._approved
        if (
            route is self._approved_route
            and len(body) >= 4 + len(approved)
            and route.usual_above < int.from_bytes(body[:4], "big") < route.usual_below
            and body[4 : 4 + len(approved)] == approved
        ):
            return False
        if (
            is_whole
            and route.flexible
            and len(body) <= SMALL_BYTES
            and (own.is_known or route.version < IDS_FROM)
            and _names_none(body, route.version, own.ids)
        ):
            self._note_written((_first_written(body, route.version),))
            return False
        topics = ProduceTopics(route.version, own, flexible=route.flexible)
        if topics.find(body):
            return True
        self._note_written(topics.names)
        if topics.only:
            if route.usual_above < int.from_bytes(body[:4], "big") < route.usual_below:
                self._approved, self._approved_route = bytes(body[4 : topics.only]), route
        elif not topics.is_done:
            if is_whole:
                return True
            self._topics = topics
        return False

    def _note_written(self, topics: Iterable[str | bytes]) -> None:
        """Note topics that a Produce names, up to MAX_TOPICS of the connection."""
        written = self.channel.topics_written
        new = [each for each in topics if each not in written]
        if new and len(written) < MAX_TOPICS:
            self.channel.topics_written = written.union(new[: MAX_TOPICS - len(written)])

    def _note_fetched(self, route: ForwardRoute, body: memoryview) -> None:
        """Note the topics that a Fetch names, up to MAX_TOPICS of the connection, and how they begin. `body`
        begins behind the client id.
        """
        at = end = route.names_at + 4
        known = self.channel.topics_read
        new: set[str | bytes] = set()
        for topic, topic_end in islice(
            fetched_topics(body, route.version, flexible=route.flexible), MAX_TOPICS
        ):
            if not new:
                end = topic_end
            new.add(topic)
        if not new <= known:
            known = self.channel.topics_read = known.union(
                sorted(new - known, key=str)[: MAX_TOPICS - len(known)]
            )
        if len(known) >= MAX_TOPICS:
            self._beginnings = (b"",)  # of everything: no more are noted
        elif new:
            self._beginnings = (bytes(body[at:end]), *self._beginnings[: KEPT_BEGINNINGS - 1])

    def reconsider(self) -> None:
        """Look again through the topics that were approved: the ids of the gateways' topics have changed."""
        self._approved_route = None

    def _observe(self, request: ForwardedRequest, count: int) -> None:
        """Observe a request of `count` bytes. What an ApiVersions says need not be read again if the next one
        equals it.
        """
        data = self._scratch[4:count]
        self._forwarder.processor.observe(request, data)
        if request.route.api_key == ApiKey.API_VERSIONS and count <= NOTED_BYTES:
            self._noted, self._noted_route = bytes(data[8:]), request.route

    def _forward_last(self, rest: bytes | memoryview) -> Frame | None:
        """Forward what was held back at the end of the stream. Raises EndOfStream if no request of it is
        whole.
        """
        frame = self._forward(memoryview(rest), len(rest)) if rest else None
        if frame is None and len(self._rest) == len(rest) and not self.channel.flags & ~DRAINING:
            raise EndOfStream
        return frame

    def next_buffered(self) -> Frame | None:
        """Forward what was held back. Returns a request that is to be answered here, if there is one. Raises
        what `read` raises.
        """
        if self._local_is_partial:
            frame = self._local.next_buffered()
            return None if frame is None else self._local_frame(frame)
        rest = self._rest
        if not rest or self._left:
            return None
        return self._forward(memoryview(rest), len(rest))

    def close(self) -> None:
        """Close the upstream connection, and give back buffers and pipe."""
        self._local.close()
        self._release_splice()
        if self.upstream is not None:
            self.upstream.close()
            self.upstream = None
        self._rest = b""
        self._left = 0
        self._unfinished = None
        asked, self._asked = self._asked, None
        for request in (*self.channel.in_flight, *((asked[0],) if asked else ())):
            if isinstance(request, AskedRequest):
                request.lose()

    def connected(self, upstream: UpstreamReceive) -> None:
        """Forward to this upstream connection, and close it with the client's."""
        self.upstream = upstream
        self._send_asked(upstream)

    def ask(self, request: ForwardedRequest, frame: bytes) -> None:
        """Send the request of a handler, whose response arrives as an `AskedRequest`'s; opens the upstream
        connection if there is none, and logs in on it again if that is due.
        """
        channel = self.channel
        self._asked = request, frame
        if self.upstream is None:
            channel.set_upstream(UpstreamState.CONNECTING)
            self._forwarder.processor.open_upstream(channel)
        elif channel.upstream_state is UpstreamState.RENEWAL_DUE:
            self._begin_renewal()
        else:
            self._send_asked(self.upstream)

    def renew(self) -> None:
        """Let the gateway log in upstream again before the next request: after the responses in flight, or,
        if the connection is idle, when a request arrives. A large request is sent to its end first.
        """
        channel, upstream = self.channel, self.upstream
        if upstream is None or channel.upstream_state is UpstreamState.RENEWING:
            return
        if self._left:
            self._renews = True
        elif channel.flags or channel.in_flight or channel.send is not None or channel.receive.has_buffered:
            channel.set_upstream(UpstreamState.RENEWAL_DUE)
            upstream.check_turn()
        else:
            channel.read_with(partial(self._read_after_renewal, channel.read))

    def renewed(self) -> None:
        """Send what a handler has asked meanwhile."""
        if self.upstream is not None:
            self._send_asked(self.upstream)

    def _read_after_renewal(self, read: Read, sock: Transport) -> Frame | None:
        """Log in again when the first bytes of a request arrive, which stay in the kernel until `read` takes
        them.
        """
        channel = self.channel
        channel.read_with(read)
        if not has_arrivals(channel):
            return read(sock)  # the end of the stream
        self._begin_renewal()
        return None

    def _begin_renewal(self) -> None:
        channel = self.channel
        channel.set_upstream(UpstreamState.RENEWING)
        self._forwarder.processor.renew_login(channel)

    def _send_asked(self, upstream: UpstreamReceive) -> None:
        """Send the request of a handler."""
        if self._asked is None:
            return
        (request, frame), self._asked = self._asked, None
        self.channel.in_flight.append(request)
        try:
            upstream.send(memoryview(frame))
        except OSError as error:
            self._forwarder.selector.close_channel(self.channel, str(error))

    def unblocked(self) -> bool:
        """Continue after the upstream broker has taken what it was sent. Returns whether all held bytes of a
        large frame have been moved. Raises TargetError.
        """
        splice = self._splice
        if splice is None:
            return True
        assert self.upstream is not None
        if not splice.drain(self.upstream.fd):
            return False
        if not self._left:
            self._splice = None
            splice.release()
            self._end_frame()
        return True

    def _forward(self, data: memoryview, end: int) -> Frame | None:
        """Forward the requests in `data[:end]`, and keep what cannot be forwarded yet."""
        forwarder, channel, upstream = self._forwarder, self.channel, self.upstream
        get_route, in_flight = self._routes.get, channel.in_flight
        now = forwarder.selector.now
        at = first = 0
        left = BURST
        try:
            while end - at >= SHORTEST:
                size, head, correlation_id, id_length = UNPACK_HEAD(data, at)
                if size < MIN_SIZE or size > self.limit:
                    raise self._invalid_size(size)
                route = get_route(head) or self._routes.build(head)
                treatment = route.treatment
                if not channel.authenticated and not route.before_login:
                    raise ProtocolViolation(f"{route.metrics.name} before authentication")
                frame_end = at + 4 + size
                if treatment is LOCALLY:
                    if route.answers is None:
                        self._send(data, first, at)
                        first = at
                        return self._begin_local(data, at, end)
                    is_small = size <= SMALL_BYTES
                    if is_small and frame_end > end:
                        break
                    if route.answers(data[at + 4 : frame_end] if is_small else None, channel):
                        self._send(data, first, at)
                        first = at
                        return self._begin_local(data, at, end)
                if channel.session is not None and forwarder.processor.ends_session(channel, route.api_key):
                    return None
                if upstream is None:
                    channel.set_upstream(UpstreamState.CONNECTING)
                    forwarder.processor.open_upstream(channel)
                    break
                is_racked = self.rack is not None and route.takes_rack and size <= MAX_BYTES - 4
                if frame_end > end and (size <= SMALL_BYTES or treatment is WHOLE or is_racked):
                    if size > MAX_WHOLE:
                        raise invalid_size(size, MAX_WHOLE)
                    break
                if id_length >= 0:
                    body = at + 14 + id_length
                    if body > frame_end:
                        raise ProtocolViolation(f"invalid client id: {id_length} bytes in a frame of {size}")
                    if body > end:
                        break
                    client_id = known_client_id(bytes(data[at + 14 : body]))
                else:
                    body, client_id = at + 14, None
                known = self._usual_head
                if (
                    (known.client_id != client_id or not known.id_bytes)
                    and client_id == channel.client_id
                    and body - at <= MAX_USUAL_HEAD
                ):
                    self._usual_head = _usual_head(bytes(data[at + 12 : body]), client_id)
                if forwarder.moves is not None and route.api_key == ApiKey.METADATA and frame_end <= end:
                    channel.client_id = client_id
                    if not forwarder.moves.may_ask(channel):
                        break
                acks = 1
                if treatment is PRODUCE:
                    try:
                        acks = _acks(data, body, end, frame_end, route)
                    except IndexError:
                        if frame_end <= end:
                            raise ProtocolViolation(NO_ACKS) from None
                        break
                elif route.refuses_replicas:
                    try:
                        is_replica = _is_replica(data, body, end, frame_end, flexible=route.flexible)
                    except IndexError:
                        if frame_end <= end:
                            raise ProtocolViolation(NO_REPLICA) from None
                        break
                    if is_replica:
                        if not route.max_refused:
                            raise ProtocolViolation(REPLICA)
                        self._send(data, first, at)
                        first = at
                        return self._begin_local(data, at, end)
                if (treatment is PRODUCE and acks and not self.produces) and not self._may_produce(client_id):
                    break
                if (treatment is PRODUCE or treatment is FETCH) and self._names_ours(
                    route, data[body : min(frame_end, end)], is_whole=frame_end <= end
                ):
                    if size > route.max_refused:
                        raise ProtocolViolation(REFUSED)
                    self._send(data, first, at)
                    first = at
                    return self._begin_local(data, at, end)
                request = ForwardedRequest(channel, route, client_id, correlation_id, size, now)
                if not channel.authenticated:
                    forwarder.processor.count_request(channel)
                if treatment is PRODUCE:
                    if acks:
                        in_flight.append(request)
                    else:
                        request.has_response = False
                        route.record(request, now, 0)
                    if frame_end <= end:
                        self._charge_produce(request, now)
                else:
                    if treatment is WHOLE:
                        self._noted_route = None
                        forwarder.processor.observe(request, data[at + 4 : frame_end])
                    elif route.repeats and size <= NOTED_BYTES:
                        self._noted, self._noted_route = bytes(data[at + 12 : frame_end]), route
                    in_flight.append(request)
                channel.client_id = client_id
                channel.requests += 1
                channel.bytes_in += size + 4
                if frame_end > end:
                    self._left = frame_end - end
                    self._unfinished = request
                    at = end
                    break
                if is_racked and self._send_racked(data, first, at, body, route):
                    first = frame_end
                at = frame_end
                if len(in_flight) >= forwarder.max_in_flight:
                    channel.set_flag(QUEUE_FULL)
                left -= 1
                if (channel.flags and channel.flags != DRAINING) or not left:
                    break
            if 4 <= end - at < SHORTEST:
                (size,) = INT.unpack_from(data, at)
                if size < MIN_SIZE or size > self.limit:
                    raise self._invalid_size(size)
            if not at and end >= SCRATCH_BYTES and not channel.flags:
                raise ProtocolViolation(f"a request header of more than {SCRATCH_BYTES} bytes")
        except ProtocolViolation:
            self._rest = b""
            self._send(data, first, at)
            raise
        channel.last_active_ms = forwarder.selector.now_ms
        self._rest = bytes(data[at:end]) if at < end else b""
        if at:
            self._send(data, first, at)
        if not left and not channel.flags & ~DRAINING:
            forwarder.responder.resume(channel)
        return None

    def _may_produce(self, client_id: str | None) -> bool:
        """Return whether to forward the first Produce that is answered now."""
        self.produces = True
        self.channel.client_id = client_id
        moves = self._forwarder.moves
        return moves is None or moves.may_produce(self.channel)

    def resume(self) -> None:
        """Read again from a client that nothing mutes any more."""
        self._forwarder.responder.resume(self.channel)

    def leave(self, reason: str) -> None:
        """Close the connection of a client that has ended it, whatever it has sent."""
        self._forwarder.selector.close_channel(self.channel, reason)

    def _invalid_size(self, size: int) -> ProtocolViolation:
        if size < 0 or size > self.limit:
            return invalid_size(size, self.limit)
        return ProtocolViolation(f"a request of {size} bytes has no header: expected at least {MIN_SIZE}")

    def _charge_produce(self, request: ForwardedRequest, now: int) -> None:
        """Charge a Produce whose last byte has arrived; without a response, also the thread's time."""
        forwarder, quotas = self._forwarder, self.channel.quotas
        if forwarder.quotas.produce_active:
            forwarder.charge_produce(request, quotas, now)
        if forwarder.request_quota_active and not request.has_response:
            forwarder.charge_request(request, quotas, now)

    def _end_frame(self) -> None:
        """Charge a large request, whose last byte has been sent."""
        request, self._unfinished = self._unfinished, None
        assert request is not None
        forwarder, channel = self._forwarder, self.channel
        if request.route.treatment is PRODUCE:
            self._charge_produce(request, forwarder.ns())
        if len(channel.in_flight) >= forwarder.max_in_flight:
            channel.set_flag(QUEUE_FULL)
        if self._renews:
            self._renews = False
            self.renew()
        if forwarder.moves is not None:
            forwarder.moves.changed(channel)
        forwarder.responder.close_answered(channel)

    def _send(self, data: memoryview, begin: int, end: int) -> None:
        if begin < end:
            assert self.upstream is not None
            self.upstream.send(data[begin:end])

    def _send_racked(self, data: memoryview, first: int, at: int, body: int, route: ForwardRoute) -> bool:
        """Send the request at `at` with its client's rack, after what begins at `first`. Returns False, and
        sends nothing, if it names a rack, or needs none.
        """
        assert self.rack is not None and self.upstream is not None
        size = INT.unpack_from(data, at)[0]
        frame = bytes(data[at : at + 4 + size])
        changed = with_rack(frame, route.api_key, route.version, body - at, self.rack)
        if changed is None:
            return False
        self._send(data, first, at)
        self.upstream.send(memoryview(changed))
        return True

    def _relay(self, sock: Transport) -> None:
        """Move more bytes of a large frame."""
        upstream, forwarder, topics = self.upstream, self._forwarder, self._topics
        assert upstream is not None
        unseen = self._left if topics is None else min(topics.skip, self._left - 1)
        if self._splice is None and forwarder.splices(unseen):
            self._splice = self._new_splice(sock)
        splice = self._splice
        if splice is not None and unseen > 0:
            try:
                moved, is_blocked = splice.move(sock.fileno(), upstream.fd, unseen)
            except EOFError:
                raise EndOfStream from None
            except TargetError as error:
                raise OSError(loss_of(error)) from error
            self._left -= moved
            if isinstance(topics, ProduceTopics):
                topics.skipped(moved)
            if is_blocked:
                upstream.block()
            elif not self._left:
                self._splice = None
                splice.release()
                self._end_frame()
            return
        scratch = self._scratch
        for _ in range(COPIES):
            try:
                count = sock.recv_into(scratch[: self._left])
            except BlockingIOError:
                return
            if count == 0:
                raise EndOfStream
            self._left -= count
            if self._topics is not None:
                self._look_through(self._topics, scratch[:count])
            is_sent = upstream.send(scratch[:count])
            if not self._left:
                self._release_splice()
                self._end_frame()
                return
            if not is_sent:
                return

    def _look_through(self, topics: FetchTopics | ProduceTopics, data: memoryview) -> None:
        """Raise ProtocolViolation if the next bytes of a large request name topics of the gateways: its end
        is not sent.
        """
        if topics.find(data) or not (self._left or topics.is_complete):
            self._give_up_unfinished()
            raise ProtocolViolation(REFUSED)
        if isinstance(topics, ProduceTopics):
            self._note_written(topics.names)
        if topics.is_done or not self._left:
            self._topics = None

    def _release_splice(self) -> None:
        if self._splice is not None:
            self._splice.release()
            self._splice = None

    def _give_up_unfinished(self) -> None:
        """Expect no response to the request that the client has not sent whole."""
        in_flight = self.channel.in_flight
        if in_flight and in_flight[-1] is self._unfinished:
            in_flight.pop()

    def _new_splice(self, sock: Transport) -> Splice | None:
        """Return a pipe for the present frame, or None if it must be copied."""
        assert self.upstream is not None
        if sock.fileno() < 0 or self.upstream.fd < 0 or not self.upstream.is_plain:
            return None
        return self._forwarder.pipes.take()

    # Requests that are answered here

    def _begin_local(self, data: memoryview, at: int, end: int) -> Frame | None:
        """Return the request at `at` if it is whole and all requests before it have been answered."""
        channel = self.channel
        if channel.in_flight or channel.send is not None or (self.upstream and self.upstream.is_blocked):
            self._rest = bytes(data[at:end])
            channel.set_local(LocalRequest.DUE)
            return None
        self._rest = b""
        self._local.limit = self.limit
        frame = self._local.read_from(data[at:end])
        if frame is None:
            self._local_is_partial = True
            return None
        return self._local_frame(frame)

    def _read_local(self, sock: Transport) -> Frame | None:
        frame = self._local.read(sock)
        return None if frame is None else self._local_frame(frame)

    def _local_frame(self, frame: Frame) -> Frame:
        """Hand over a whole request, and take back the bytes behind it."""
        self._local_is_partial = False
        self._rest = self._local.take_rest()
        self.channel.set_local(LocalRequest.IN_HAND)
        return frame


@lru_cache(KEPT_HEADS)
def _usual_head(id_bytes: bytes, client_id: str | None) -> UsualHead:
    """Return how to read heads with this client id; `id_bytes` begin with its length."""
    return UsualHead(id_bytes, client_id)


def _names_none(body: memoryview, version: int, ids: tuple[bytes, ...]) -> bool:
    """Return whether a whole Produce with several topics, of an ordinary form, names none of the gateways.

    A shorter way through it than `ProduceTopics`, which decides about all others: most requests with several
    topics have nothing that takes more than these few steps.
    """
    data, at = bytes(body), TOPICS_AT
    by_id = version >= IDS_FROM
    try:
        topics = data[at]
        if data[0] or data[1] or not ONE_TOPIC < topics < 0x80:
            return False
        at += 1
        for _ in range(topics - 1):
            if by_id:
                if data.startswith(ids, at):
                    return False
                at += 16
            else:
                length = data[at]
                if not 0 < length < 0x80 or data.startswith(PREFIX, at + 1):
                    return False
                at += length
            partitions = data[at]
            if not 0 < partitions < 0x80:
                return False
            at += 1
            for _ in range(partitions - 1):
                size, shift = data[at + 4] & 0x7F, 7
                at += 5
                while data[at - 1] > 0x7F:
                    if shift > 21:
                        return False
                    size |= (data[at] & 0x7F) << shift
                    shift += 7
                    at += 1
                at += size
                if size == 0 or data[at - 1]:  # the partition's tags
                    return False
            if data[at]:
                return False
            at += 1
    except IndexError:
        return False
    return at <= len(data)


def _first_written(body: memoryview, version: int) -> str | bytes:
    """Return the first topic of a Produce of which `_names_none` is true."""
    at = TOPICS_AT + 1
    if version >= IDS_FROM:
        return bytes(body[at : at + 16])
    return bytes(body[at + 1 : at + body[at]]).decode(errors="replace")


def _acks(data: memoryview, at: int, end: int, frame_end: int, route: ForwardRoute) -> int:
    """Return acks of a Produce whose body, or header tags, begin at `at`; bytes have arrived up to `end`.
    Raises IndexError if acks have not arrived, ProtocolViolation.
    """
    last = frame_end - 2
    if route.flexible:
        if at + MAX_PREFIX > end or data[at]:
            data = data[: min(end, frame_end)]  # behind it are bytes of other connections
        tags = data[at]
        at += 1
        if tags:
            at = skip_tags(data, at, frame_end, tags)
        length, at = read_uvarint(data, at)
        at += max(length - 1, 0)
    elif route.version >= TRANSACTIONAL_FROM and at <= last and at + 2 <= end:
        length = data[at] << 8 | data[at + 1]
        at += 2 + (length if length < 0x8000 else 0)
    if at > last:
        raise ProtocolViolation(NO_ACKS)
    if at + 2 > end:
        raise IndexError
    acks: int = ACKS.unpack_from(data, at)[0]
    return acks


def _is_replica(data: memoryview, at: int, end: int, frame_end: int, *, flexible: bool) -> bool:
    """Return whether a Fetch up to version 14, whose body, or header tags, begin at `at`, has the id of a
    replica; bytes have arrived up to `end`. Raises IndexError if the id has not arrived, ProtocolViolation.
    """
    if flexible:
        data = data[: min(end, frame_end)]
        tags = data[at]
        at += 1
        if tags:
            at = skip_tags(data, at, frame_end, tags)
    if at + 4 > frame_end:
        raise ProtocolViolation(NO_REPLICA)
    if at + 4 > end:
        raise IndexError
    replica: int = INT.unpack_from(data, at)[0]
    return replica >= 0
