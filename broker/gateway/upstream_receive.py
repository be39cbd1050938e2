"""An upstream connection: sends a client's requests, reads the responses and passes them on.

Responses come in the order of the requests. A read takes what the kernel has, counts and completes the
responses in it, fills in the gateway's throttle times, and sends all of them to the client at once. The bytes
of a larger response follow its head without being kept; above gateway.splice.min.bytes they never leave the
kernel. A client that does not read stops its own upstream connection and no other.

Most reads have one whole response that needs nothing but to be passed on: `on_event` does that by itself, as
calls cost more than their work.
"""

import struct
from typing import Final

from broker.common.errors import ProtocolViolation
from broker.common.slices import Steps
from broker.gateway.channel import BLOCKED, DRAINING, HELD, GatewayChannel, LocalRequest, UpstreamState
from broker.gateway.forwarder import COPIES, SMALL_BYTES, Forwarder
from broker.gateway.internal_topics import InternalMarks
from broker.gateway.responses import AT_ONCE
from broker.gateway.routes import AskedRequest, ForwardedRequest, ForwardRoute
from broker.gateway.splice import Splice, TargetError
from broker.gateway.throttle_time import raise_throttle_time
from broker.gateway.upstream.connect import UpstreamSocket
from broker.network.connection.channel import MuteState
from broker.network.connection.read_ahead_channel import ENDED, QUEUE_FULL
from broker.network.connection.receive import EndOfStream
from broker.network.connection.send import Send
from broker.network.connection.transport import Readable, Transport
from broker.network.selector import READ, WRITE

HEAD: Final = struct.Struct(">ii")
"""Size and correlation id."""

BEGINNING_BYTES: Final = 64 * 1024
"""How much of a Metadata response has arrived when its addresses are looked for the second time; ours."""

COPIED_BYTES: Final = 1024 * 1024
"""A collected response of up to this size is copied, which takes 0.3 ms; ours."""

UNEXPECTED: Final = "the upstream broker sent a response that no request expects"
CLOSED: Final = "the upstream broker closed the connection"
CLOSED_WITHIN: Final = "the upstream broker closed the connection within a response"

UNPACK_HEAD: Final = HEAD.unpack_from
INT: Final = struct.Struct(">i")
MIN_SIZE: Final = 4
HEAD_BYTES: Final = 32
"""More bytes than a response has up to its throttle time, at most 27. (RenewDelegationToken)"""


class ForwardedSend(Send):
    """The part of forwarded responses that the client has not taken. While `waits`, more is added later."""

    __slots__ = ("_splice", "_target", "upstream", "waits")

    def __init__(
        self,
        upstream: "UpstreamReceive",
        parts: list[Readable],
        splice: Splice | None = None,
        target: int = -1,
    ) -> None:
        super().__init__(parts)
        self.upstream = upstream
        self._splice = splice
        self._target = target
        self.waits = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write before more is added."""
        return self.waits and self._at >= len(self._parts)

    def add(self, part: bytes) -> None:
        """Write this as the last part."""
        self._parts.append(part)
        self.waits = False

    def write(self, sock: Transport) -> bool:
        """Write as `Send` does, then the bytes that a pipe holds."""
        return (
            super().write(sock)
            and (self._splice is None or self._splice.drain(self._target))
            and not self.waits
        )


class UpstreamReceive:
    """The upstream connection of `channel`, registered in the processor's epoll by `fd`. `credentials`
    are those of the gateway's login, None if the client logs in. `loss` says why the connection has ended,
    once it has, while the client has not taken everything yet.
    """

    __slots__ = (
        "_collected",
        "_forwarder",
        "_interest",
        "_left",
        "_marks",
        "_rest",
        "_size",
        "_splice",
        "_unblocked",
        "_unsent",
        "channel",
        "credentials",
        "fd",
        "is_blocked",
        "is_plain",
        "loss",
        "sock",
    )

    def __init__(self, opened: UpstreamSocket, channel: GatewayChannel, forwarder: Forwarder) -> None:
        self.sock = opened.sock
        self.fd = fd = opened.fd
        self.is_plain = opened.sock.fileno() >= 0
        self.is_blocked = False
        self.channel = channel
        self.credentials = opened.credentials
        self._unblocked = channel.client.unblocked
        self._forwarder = forwarder
        self._interest = READ
        self._rest = b""
        self._left = 0
        self.loss = ""
        self._marks: InternalMarks | None = None
        self._size = 0
        self._splice: Splice | None = None
        self._collected: bytearray | None = None
        self._unsent: memoryview = memoryview(b"")
        forwarder.selector.watch(fd, READ)
        forwarder.upstreams[fd] = self

    def close(self) -> None:
        """Close the connection; responses that have not been passed on are lost."""
        if self.fd < 0:
            return
        if not self.loss:
            self._forwarder.selector.unwatch(self.fd)
        del self._forwarder.upstreams[self.fd]
        self.fd = -1
        if self._splice is not None:
            self._splice.release()
            self._splice = None
        self.sock.close()

    @property
    def is_within_response(self) -> bool:
        """Whether the beginning of a response has arrived, and not its end."""
        return bool(self._left or self._rest or self._collected)

    def on_event(self, mask: int) -> None:
        """Handle an event of the epoll. Raises ProtocolViolation, and OSError from the client's socket, upon
        which the client's connection closes.
        """
        channel = self.channel
        if (mask != READ or channel.send is not None) and not self._may_read(mask):
            return
        if self._left:
            self._relay()
            return
        forwarder, rest = self._forwarder, self._rest
        scratch, now = forwarder.scratch, forwarder.selector.now
        begin = len(rest)
        if begin:
            scratch[:begin] = rest
        try:
            count = self.sock.recv_into(scratch[begin:] if begin else scratch)
        except BlockingIOError:
            return
        except (OSError, EndOfStream) as error:
            self._lost(loss_of(error))
            return
        if count == 0:
            self._lost(CLOSED)
            return
        in_flight = channel.in_flight
        if count < 8 or begin or self._collected is not None or not in_flight:
            self._pass_on(scratch, begin + count, now)
            return
        size, correlation_id = UNPACK_HEAD(scratch)
        request = in_flight[0]
        route = request.route
        if (
            size != count - 4
            or request.correlation_id != correlation_id
            or request.throttle_ms
            or (route.is_fetch and forwarder.quotas.fetch_active)
        ):
            self._pass_on(scratch, count, now)
            return
        data: Readable
        if not route.collects or (
            route.plain_ending is not None and forwarder.buffer.endswith(route.plain_ending, 0, count)
        ):
            data = forwarder.beginning(count)
        else:
            known = None
            if request.__class__ is ForwardedRequest:
                known = self._known(route, count, correlation_id)
            if known is None:
                self._pass_on(scratch, count, now)
                return
            data = known
            count = len(data)
        if forwarder.request_quota_active and forwarder.charge_request(request, channel.quotas, now):
            data = _raised(request, data)
            count = len(data)
        in_flight.popleft()
        route.record(request, now, count)
        self._send_client(data)
        if channel.flags and channel.fd >= 0:
            self.check_turn()

    def _known(self, route: ForwardRoute, count: int, correlation_id: int) -> bytearray | None:
        """Return what the response in the first `count` bytes of the buffer is rewritten to, if it is
        remembered; valid until the next response.
        """
        forwarder = self._forwarder
        kept = forwarder.kept
        again = kept.again(route.last, forwarder.buffer, count, correlation_id)
        if again is not None:
            return again
        last = route.last = kept.known(route.api_key, route.version, forwarder.scratch, count)
        return None if last is None else last.whole

    def _may_read(self, mask: int) -> bool:
        """Handle what is no more than a response that the client can take. Returns whether to read."""
        if mask & WRITE:
            self._unblock()
        if not mask & ~WRITE or self.fd < 0:
            return False
        if self.channel.send is None:
            return True
        if mask & READ:
            self._watch(self._interest & ~READ)
        else:
            self._lost(CLOSED)
        return False

    # Requests

    def send(self, data: memoryview) -> bool:
        """Send `data`, which the caller may reuse. Returns False, and mutes the client, if it does not all
        fit now. Raises OSError, whose text says that it is the upstream connection's.
        """
        unsent = self._unsent
        if unsent:
            self._unsent = memoryview(b"".join((unsent, data)))
            return False
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise OSError(loss_of(error)) from error
        if sent < len(data):
            self._unsent = memoryview(bytes(data[sent:]))
            self.block()
            return False
        return True

    def block(self) -> None:
        """Mute the client until the upstream broker takes more."""
        self.is_blocked = True
        self.channel.set_flag(BLOCKED)
        self._watch(self._interest | WRITE)

    def _unblock(self) -> None:
        unsent = self._unsent
        if unsent:
            try:
                sent = self.sock.send(unsent)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(loss_of(error))
                return
            self._unsent = unsent[sent:]
            if self._unsent:
                return
        channel = self.channel
        try:
            is_sent = self._unblocked()
        except TargetError as error:
            self._lost(loss_of(error))
            return
        if not is_sent:
            return
        self._watch(self._interest & ~WRITE)
        self.is_blocked = False
        if channel.clear_flag(BLOCKED) is MuteState.NOT_MUTED:
            self._forwarder.responder.resume(channel)
        else:
            self.check_turn()

    # Responses

    def resume(self) -> None:
        """Read again after the client has taken everything."""
        if self.fd < 0:
            return
        if self._splice is not None and not self._left:
            self._end_splice()
        self._watch(self._interest | READ)
        if self._rest:
            self._pass_on_rest()
        else:
            self.check_turn()

    def rewritten(self, request: ForwardedRequest, response: bytes) -> None:
        """Pass on a response that was rewritten in slices, after what the client has not taken."""
        channel, forwarder = self.channel, self._forwarder
        send = channel.send
        assert isinstance(send, ForwardedSend)
        response = self._with_throttle_time(request, response, forwarder.ns())
        if channel.in_flight:  # else the upstream connection has been lost
            channel.in_flight.popleft()
        channel.bytes_out += len(response)
        send.add(response)
        forwarder.selector.set_interest(channel, channel.interest | WRITE)

    def _pass_on_rest(self) -> None:
        """Pass on the responses that were read behind one that was rewritten in slices."""
        rest, self._rest = self._rest, b""
        try:
            self._pass_on(memoryview(rest), len(rest), self._forwarder.ns())
        except ProtocolViolation as error:
            self._forwarder.selector.close_channel(self.channel, str(error))

    def _pass_on(self, data: memoryview, end: int, now: int) -> None:
        """Complete the responses in `data[:end]` and send them to the client."""
        forwarder, channel = self._forwarder, self.channel
        in_flight = channel.in_flight
        at = first = 0
        parts: list[Readable] = []
        if self._collected is not None:
            at = first = self._collect(data, end, parts, now)
            if at < 0:
                return
        try:
            while end - at >= HEAD_BYTES or (end - at >= 8 and end - at == 4 + INT.unpack_from(data, at)[0]):
                size, correlation_id = UNPACK_HEAD(data, at)
                if not in_flight or in_flight[0].correlation_id != correlation_id or size < MIN_SIZE:
                    raise ProtocolViolation(UNEXPECTED)
                request = in_flight[0]
                route = request.route
                frame_end = at + 4 + size
                if route.collects:
                    ending = route.plain_ending
                    is_whole = (
                        ending is None
                        or frame_end > end
                        or data[frame_end - len(ending) : frame_end] != ending
                    )
                else:
                    is_whole = request.throttle_ms > 0 and (route.throttle_at or 0) < 0
                if is_whole:
                    if size > route.max_response:
                        raise ProtocolViolation(
                            f"a response of {size} bytes to {route.metrics.name}: expected at most "
                            f"{route.max_response}"
                        )
                    if first < at:
                        parts.append(data[first:at])
                        first = at
                    if frame_end > end:
                        self._size = size
                        self._collected = bytearray(data[at + 4 : end])
                        self._pass_on_beginning(request, parts, now)
                        at = first = end
                        break
                    response = self._rewritten(request, bytes(data[at + 4 : frame_end]), now)
                    if not isinstance(response, bytes):
                        self._wait_for_slices(request, response, parts, bytes(data[frame_end:end]))
                        return
                    if response:
                        parts.append(response)
                    in_flight.popleft()
                    at = first = frame_end
                    continue
                if frame_end > end and size <= SMALL_BYTES:
                    break
                if route.is_fetch and forwarder.quotas.fetch_active:
                    forwarder.charge_fetch(request, channel.quotas, size, now)
                if forwarder.request_quota_active:
                    forwarder.charge_request(request, channel.quotas, now)
                # A throttle time at the end of a response that has not arrived whole is not raised: the
                # connection is muted all the same.
                if request.throttle_ms and (frame_end <= end or (route.throttle_at or 0) >= 0):
                    head_of = data[at + 4 : min(frame_end, end)]
                    raise_throttle_time(head_of, route.api_key, route.version, request.throttle_ms)
                if frame_end > end:
                    self._left = frame_end - end
                    self._size = size
                    at = end
                    break
                in_flight.popleft()
                route.record(request, now, size + 4)
                at = frame_end
        except ProtocolViolation:
            if first < at:
                parts.append(data[first:at])
            if parts:
                self._send_client(b"".join(parts))
            raise
        if first < at:
            parts.append(data[first:at])
        self._rest = bytes(data[at:end]) if at < end else b""
        if parts:
            self._send_client(parts[0] if len(parts) == 1 else b"".join(parts))
        if at < end and self._is_unexpected():
            raise ProtocolViolation(UNEXPECTED)
        if channel.fd >= 0:
            self.check_turn()

    def _is_unexpected(self) -> bool:
        """Return whether the first bytes of a response show that no request expects it."""
        rest, in_flight = self._rest, self.channel.in_flight
        return (
            not in_flight
            or (len(rest) >= 4 and INT.unpack_from(rest)[0] < MIN_SIZE)
            or (len(rest) >= 8 and UNPACK_HEAD(rest)[1] != in_flight[0].correlation_id)
        )

    def _collect(self, data: memoryview, end: int, parts: list[Readable], now: int) -> int:
        """Add to a response that is rewritten as a whole. Returns the offset behind it, or -1 if it is not
        whole yet, or is rewritten in slices.
        """
        collected = self._collected
        assert collected is not None
        in_flight = self.channel.in_flight
        wanted = min(self._size - len(collected), end)
        begun = len(collected)
        collected += data[:wanted]
        if len(collected) < self._size:
            if begun < BEGINNING_BYTES <= len(collected) and self._pass_on_beginning(
                in_flight[0], parts, now
            ):
                return end
            return -1
        self._collected = None
        frame = bytes(collected) if self._size <= COPIED_BYTES else collected
        response = self._rewritten(in_flight[0], frame, now)
        if not isinstance(response, bytes):
            self._wait_for_slices(in_flight[0], response, parts, bytes(data[wanted:end]))
            return -1
        if response:
            parts.append(response)
        in_flight.popleft()
        return wanted

    def _pass_on_beginning(self, request: ForwardedRequest, parts: list[Readable], now: int) -> bool:
        """Pass on what has been collected of a large response if what follows is forwarded as it arrives: of
        Metadata, once its addresses have arrived. Returns whether that is so.
        """
        forwarder, route = self._forwarder, request.route
        if self._size <= AT_ONCE or isinstance(request, AskedRequest):
            return False
        collected = self._collected
        assert collected is not None
        rewritten = forwarder.processor.rewrite_beginning(request, collected, self._size)
        if rewritten is None:
            return False
        begun, self._marks = rewritten
        if forwarder.request_quota_active:
            forwarder.charge_request(request, self.channel.quotas, now)
        if request.throttle_ms:
            raise_throttle_time(memoryview(begun)[4:], route.api_key, route.version, request.throttle_ms)
        parts.append(begun)
        self._left = self._size - len(collected)
        self._collected = None
        return True

    def _rewritten(
        self, request: ForwardedRequest, frame: bytes | bytearray, now: int
    ) -> bytes | Steps[bytes]:
        """Return the response to send to the client, with its size, or the slices that return it; nothing if
        a handler asked for it.
        """
        if isinstance(request, AskedRequest):
            request.answer(self._charged(request, frame, now))
            return b""
        response = (
            self._forwarder.processor.rewrite(request, frame)
            if request.route.collects
            else INT.pack(len(frame)) + frame
        )
        return self._with_throttle_time(request, response, now) if isinstance(response, bytes) else response

    def _charged(self, request: ForwardedRequest, frame: bytes | bytearray, now: int) -> bytes | bytearray:
        """Charge a Fetch that a handler has looked through. Returns its response with the throttle time."""
        forwarder, route = self._forwarder, request.route
        if not (route.is_fetch and forwarder.quotas.fetch_active):
            return frame
        forwarder.charge_fetch(request, self.channel.quotas, len(frame), now)
        if not request.throttle_ms:
            return frame
        raised = bytearray(frame)
        raise_throttle_time(raised, route.api_key, route.version, request.throttle_ms)
        return raised

    def _with_throttle_time(self, request: ForwardedRequest, response: bytes, now: int) -> bytes:
        """Charge and count a rewritten response. Returns it with the throttle time."""
        forwarder, route = self._forwarder, request.route
        if route.is_fetch and forwarder.quotas.fetch_active:
            forwarder.charge_fetch(request, self.channel.quotas, len(response) - 4, now)
        if forwarder.request_quota_active:
            forwarder.charge_request(request, self.channel.quotas, now)
        if request.throttle_ms:
            response = _raised(request, response)
        route.record(request, now, len(response))
        return response

    def _wait_for_slices(
        self, request: ForwardedRequest, slices: Steps[bytes], parts: list[Readable], rest: bytes
    ) -> None:
        """Send what came before a response that is rewritten in slices, and read no more until the client has
        taken that, too.
        """
        channel = self.channel
        self._rest = rest
        if parts:
            self._send_client(parts[0] if len(parts) == 1 else b"".join(parts))
        if channel.fd < 0:
            return
        if channel.send is None:
            channel.send = ForwardedSend(self, [])
        assert isinstance(channel.send, ForwardedSend)
        channel.send.waits = True
        self._forwarder.processor.rewrite_in_slices(self, request, slices)

    def _relay(self) -> None:
        """Move more bytes of a large response."""
        forwarder, channel = self._forwarder, self.channel
        target, marks = channel.sock.fileno(), self._marks
        if (
            marks is None
            and self._splice is None
            and self.is_plain
            and target >= 0
            and forwarder.splices(self._left)
        ):
            self._splice = forwarder.pipes.take()
        splice = self._splice
        if splice is not None:
            try:
                moved, is_blocked = splice.move(self.fd, target, self._left)
            except EOFError:
                self._lost(CLOSED_WITHIN)
                return
            except TargetError:
                raise
            except OSError as error:
                self._lost(loss_of(error))
                return
            self._left -= moved
            channel.bytes_out += moved
            if is_blocked:
                self._wait_for_client([], splice, target)
            if not self._left:
                self._end_response()
                if not is_blocked:
                    self._end_splice()
            return
        scratch = forwarder.scratch
        for _ in range(COPIES):
            try:
                # What TLS has decrypted behind the response is read, too: epoll would not report it.
                count = self.sock.recv_into(scratch[: self._left] if self.is_plain else scratch)
            except BlockingIOError:
                return
            except (OSError, EndOfStream) as error:
                self._lost(loss_of(error))
                return
            if count == 0:
                self._lost(CLOSED_WITHIN)
                return
            if count > self._left:
                self._rest = bytes(scratch[self._left : count])
                count = self._left
            self._left -= count
            if marks is not None:
                marks.mark(scratch[:count])
            self._send_client(scratch[:count])
            if channel.fd < 0:
                return
            if not self._left:
                self._end_response()
                if self._rest and channel.send is None and channel.fd >= 0:
                    rest, self._rest = self._rest, b""
                    self._pass_on(memoryview(rest), len(rest), forwarder.ns())
                return
            if channel.send is not None or marks is not None:
                return

    def _end_response(self) -> None:
        self._marks = None
        self.channel.last_active_ms = self._forwarder.selector.now_ms
        request = self.channel.in_flight.popleft()
        request.route.record(request, self._forwarder.ns(), self._size + 4)
        self.check_turn()

    def _end_splice(self) -> None:
        splice, self._splice = self._splice, None
        if splice is not None:
            splice.release()

    def _send_client(self, data: Readable) -> None:
        """Send to the client; what it does not take waits, and nothing more is read from upstream."""
        channel = self.channel
        size = len(data)
        try:
            sent = channel.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._forwarder.selector.close_channel(channel, str(error))
            return
        channel.last_active_ms = self._forwarder.selector.now_ms
        channel.bytes_out += size
        if sent < size:
            self._wait_for_client([bytes(data[sent:])], None, -1)

    def _wait_for_client(self, parts: list[Readable], splice: Splice | None, target: int) -> None:
        channel = self.channel
        channel.send = ForwardedSend(self, parts, splice, target)
        self._forwarder.selector.set_interest(channel, channel.interest | WRITE)

    def check_turn(self) -> None:
        """Read from the client again if it may send more; close it if it has ended and everything is
        answered; log in again if that is due.
        """
        channel = self.channel
        flags = channel.flags
        if not flags:
            return
        if flags & HELD and self._forwarder.moves is not None:
            self._forwarder.moves.changed(channel)
        in_flight = len(channel.in_flight)
        if flags & QUEUE_FULL and in_flight <= self._forwarder.max_in_flight // 2:
            channel.flags &= ~QUEUE_FULL
        if not in_flight and channel.send is None and not flags & BLOCKED:
            is_answered_here = channel.local_request is LocalRequest.IN_HAND
            if flags & ENDED and not is_answered_here:
                self._forwarder.selector.close_channel(channel, self.loss or "closed by the peer")
                return
            if flags & DRAINING:
                self._forwarder.responder.close_answered(channel)
                if channel.fd < 0:
                    return
            if channel.local_request is LocalRequest.DUE:
                channel.set_local(LocalRequest.NONE)
            if channel.upstream_state is UpstreamState.RENEWAL_DUE and not is_answered_here:
                channel.set_upstream(UpstreamState.RENEWING)
                self._forwarder.processor.renew_login(channel)
                return
        if flags != channel.flags and channel.settle_mute() is MuteState.NOT_MUTED:
            self._forwarder.responder.resume(channel)

    def _lost(self, reason: str) -> None:
        """Close the client's connection, after it has taken what arrived. Until then the upstream socket is
        not watched: epoll reports a reset whatever it is asked for, and would not wait.
        """
        channel, selector = self.channel, self._forwarder.selector
        if channel.send is None:
            selector.close_channel(channel, reason)
            return
        if self.loss:
            return
        channel.in_flight.clear()
        self._rest = b""
        channel.set_flag(ENDED)
        selector.unwatch(self.fd)
        self.loss = reason

    def _watch(self, interest: int) -> None:
        if interest != self._interest and self.fd >= 0 and not self.loss:
            self._forwarder.selector.rewatch(self.fd, interest)
            self._interest = interest


def _raised(request: ForwardedRequest, response: Readable) -> bytes:
    """Return a response, with its size, with the throttle time of its request, unless its own is longer."""
    route, raised = request.route, bytearray(response)
    again = raise_throttle_time(memoryview(raised)[4:], route.api_key, route.version, request.throttle_ms)
    return bytes(raised) if again is None else again


def loss_of(error: OSError | EndOfStream) -> str:
    """Return why an upstream connection ended: TLS that ends without a word is the end of the stream."""
    if isinstance(error, EndOfStream):
        return CLOSED
    return f"the upstream connection failed: {error.strerror or error}"
