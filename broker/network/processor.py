"""The reactor: one task, one selector, many connections. (Kafka: SocketServer.Processor)

Takes connections from the acceptor, reads frames into requests for the handlers, and writes responses through
its responder. A turn follows Kafka's order: new connections, responses, poll, receives, sends, disconnects.
Everything between two awaits is synchronous.
"""

import contextlib
import logging
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

import trio

from broker.api.security.client_security import Logins
from broker.common.errors import ProtocolViolation
from broker.config.listeners import Address
from broker.network.authentication import FailedLogins, LateLogins, SaslSessions
from broker.network.clock import TrioClock
from broker.network.connection.channel import (
    REQUEST_RECEIVED,
    Channel,
    ConnectionIds,
    NewConnection,
    has_arrivals,
)
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SCRATCH_BYTES, EndOfStream, Frame
from broker.network.connection.tls_socket import TlsError
from broker.network.failures import FailedStep, Failures
from broker.network.handshakes import Handshakes
from broker.network.leased_receive import polling, receiving
from broker.network.requests.request_channel import Request, Requests
from broker.network.requests.request_time import RequestTime
from broker.network.requests.routes import Routes, with_header
from broker.network.responder import NOT_MUTED, Responder
from broker.network.selector import BROKEN, READ, WRITE, Ending, Selector, expire_idle
from broker.network.supervisor import TaskStarter
from broker.network.unauthenticated import OverLimit, UnauthenticatedConnections
from broker.security.tls import Certificates

logger = logging.getLogger(__name__)

HEAD: Final = struct.Struct(">Ii")
"""API key and version as one number, then the correlation id."""

TURNS_NS: Final = 500_000
"""How long a processor that has queued no request may poll before other tasks run; ours."""

NEW_CONNECTIONS: Final = 20
"""Accepted sockets waiting for this processor (Kafka: Processor.ConnectionQueueSize, 20)."""

BUFFERED: Final = 1 << 25
"""The mask of a channel whose next frame may have been read already; no epoll event has this bit."""


class Accepted(NamedTuple):
    """An accepted connection. `peer` is the address and port of its client. `proxy` is the address of the
    balancer whose PROXY header named the client, or has yet to; "" if the client connects by itself.
    """

    sock: socket.socket
    peer: tuple[str, int]
    proxy: str = ""

    @property
    def counted(self) -> str | None:
        """The address that it counts for; None if that is the balancer's own."""
        return None if self.proxy == self.peer[0] else self.peer[0]


Event = tuple[int, int]
"""A descriptor and its mask."""


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """The settings of one processor's listener, and the broker's limits in bytes and milliseconds."""

    listener: str
    requires_login: bool
    max_frame: int
    max_frame_before_login: int
    max_idle_ms: int
    failed_login_delay_ms: int
    authentication_timeout_ms: int
    logins_end: bool = False
    """connections.max.reauth.ms"""
    certificates: Certificates | None = None
    """Set for a TLS listener."""


@dataclass(frozen=True, slots=True)
class ProcessorServices:
    """The services of a processor. `on_drop` closes a connection that fails before it has a channel.
    `failures` reports every unexpected exception that ends a connection.
    """

    routes: Routes
    requests: Requests
    clock: TrioClock
    frames: FramePool
    logins: Logins
    unauthenticated: UnauthenticatedConnections
    failures: Failures
    on_open: Callable[[Channel], None]
    on_close: Callable[[Channel, str], None]
    on_drop: Callable[[Accepted], None]


class Processor:
    """Owns its channels. `id` is unique in the broker. The acceptor sends accepted sockets to
    `new_connections`.
    """

    channel_type: ClassVar[type[Channel]] = Channel
    max_turns: ClassVar[int] = 1
    """Turns before other tasks run, if no request is queued."""

    def __init__(
        self,
        processor_id: int,
        name: str,
        settings: ProcessorSettings,
        services: ProcessorServices,
        new_responder: Callable[..., Responder] = Responder,
    ) -> None:
        clock, frames, failures = services.clock, services.frames, services.failures
        self.id = processor_id
        self.name = name
        self.idle = 0
        self.polls = 0
        self.started: int | None = None
        self._asleep_since: int | None = None
        self.new_connections, self._accepted = trio.open_memory_channel[Accepted](NEW_CONNECTIONS)
        self._settings = settings
        self._routes = services.routes
        self._requests = services.requests
        self._put_nowait = services.requests.put_nowait
        self._clock = clock
        self._frames = frames
        self._logins = services.logins
        self._unauthenticated = services.unauthenticated
        self._on_open = services.on_open
        self._on_drop = services.on_drop
        self._failures = failures
        self.selector = Selector(services.on_close, failures)
        self._failed_logins = FailedLogins(name, self.selector, settings.failed_login_delay_ms, clock)
        self.responder = new_responder(
            self.selector,
            clock,
            self._failed_logins,
            settings.max_frame,
            failures,
            copies_regions=settings.certificates is not None,
        )
        self._late_logins = LateLogins(name, self.selector, settings.authentication_timeout_ms, clock)
        self.handshakes = self._make_handshakes(settings)
        self._sessions = SaslSessions(self.selector, settings.max_frame_before_login)
        self._ids = ConnectionIds(processor_id)
        self._reading = True
        self._has_accepted = False
        self._has_queued = False
        self._request_time: RequestTime | None = None
        self._new_receive = receiving(frames, memoryview(bytearray(SCRATCH_BYTES)), self.selector)
        self._poll = polling(frames, self.selector)

    def measure(self, request_time: RequestTime | None) -> None:
        """Measure the thread time of each connection, or stop doing so (None)."""
        self._request_time = request_time
        self.responder.measure(request_time)

    async def run(self) -> None:
        """Serve until cancelled, then close every connection."""
        clock, selector, channels = self._clock, self.selector, self.selector.channels
        now_of, base_ms = clock.ns, clock.base_ms
        responder = self.responder
        epoll_fd, poll = selector.fileno(), self._poll
        admit = self._admit_in_session if self._settings.logins_end else self._admit
        self.started = now_of()
        ready: list[Event] = []
        events: Iterable[Event] = ready
        is_polled = True
        max_turns = self.max_turns
        turns = due = 0
        try:
            while True:
                if self._has_accepted and is_polled:
                    self._configure_new_connections()
                if responder.responses:
                    responder.flush(now_of())
                if is_polled and responder.buffered:
                    is_polled = False
                    events, now = self._buffered_events(), now_of()
                else:
                    is_polled = True
                    asleep = now_of()
                    if ready:
                        # Under load the next requests have arrived by the time the handlers have run, and a
                        # poll costs a tenth of a wake-up.
                        if self._has_queued or asleep >= due or turns == max_turns:
                            self._has_queued = False
                            turns = 0
                            await trio.lowlevel.checkpoint()
                        ready = poll(0, 4096)
                    if not ready:
                        self._asleep_since = asleep
                        await trio.lowlevel.wait_readable(epoll_fd)
                        self._asleep_since = None
                        self._has_queued = False
                        turns = 0
                        ready = poll(0, 4096)
                    events, now = ready, now_of()
                    if turns == 0:
                        due = now + TURNS_NS
                    turns += 1
                    self.idle += now - asleep
                    self.polls += 1
                selector.now = now
                now_ms = selector.now_ms = now // 1_000_000 + base_ms
                if self._request_time is not None:
                    events = self._timed(events, now)
                for fd, mask in events:
                    channel = channels.get(fd)
                    if channel is None:
                        self._on_unregistered(fd, mask)
                        continue
                    try:
                        if mask == READ and channel.mute_state is NOT_MUTED and self._reading:
                            frame = channel.read(channel.sock)
                        elif mask == BUFFERED and channel.mute_state is NOT_MUTED and self._reading:
                            frame = channel.receive.next_buffered()
                        else:
                            frame = self._on_event(channel, mask)
                        if frame is None:
                            continue
                        channel.last_active_ms = now_ms
                        request = admit(channel, frame, now)
                    except Exception as error:  # noqa: BLE001 - sorted by `_close_on_error`
                        self._end_lap(channel)
                        self._close_on_error(channel, error)
                        continue
                    if request is not None:
                        await self._wait_for_space(request)
        finally:
            self.close()

    def _on_unregistered(self, fd: int, _mask: int) -> None:
        """Handle an event of a descriptor that is not a channel's: of a connection that lingers, or the
        wake-up, which the acceptor uses.
        """
        if self.responder.lingering.on_event(fd):
            return
        self.selector.reset_wakeup(fd)
        self._has_accepted = True

    def _buffered_events(self) -> Iterator[Event]:
        """Yield an event for each unmuted channel with bytes that were already read."""
        buffered, self.responder.buffered = self.responder.buffered, []
        for channel in dict.fromkeys(buffered):  # a channel may have been added twice: one receive each
            if channel.fd >= 0:
                yield channel.fd, BUFFERED

    def _timed(self, events: Iterable[Event], now: int) -> Iterator[Event]:
        """Yield the events, and measure the thread time that each takes: the first from `now` on, every other
        from the end of the one before.
        """
        channels, measured = self.selector.channels, self._request_time
        if measured is not None:
            measured.begin_at(now)
        for event in events:
            channel, time = channels.get(event[0]), self._request_time
            yield event
            if time is None:
                continue
            if channel is None or time is not measured:
                measured = time
                time.begin()
            else:
                time.add_network(channel)

    def _end_lap(self, channel: Channel) -> None:
        """End the measured lap of a channel that is about to close, which records its time."""
        if self._request_time is not None:
            self._request_time.add_network(channel)

    def close(self) -> None:
        """Close all connections, including unregistered ones. An acceptor that is sending to
        `new_connections` gets trio.BrokenResourceError.
        """
        self.responder.lingering.close()
        self.selector.close()
        with contextlib.suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                self._drop_accepted(self._accepted.receive_nowait())
        self._accepted.close()

    def idle_ns(self, now_ns: int) -> int:
        """Return the total time spent waiting, including the wait in progress, which can last for hours,
        while no other task wrote responses or took a step of a handshake for this processor.
        """
        waiting = self.idle + (0 if self._asleep_since is None else now_ns - self._asleep_since)
        handshaking = 0 if self.handshakes is None else self.handshakes.busy_ns
        return waiting - self.responder.delivering_ns - handshaking

    def busy_ns(self, now_ns: int) -> int:
        """Return the total of all other time since `run` began."""
        return 0 if self.started is None else now_ns - self.started - self.idle_ns(now_ns)

    def start_expiry(self, nursery: TaskStarter) -> None:
        """Start the tasks that close connections by time."""
        nursery.start_soon(
            expire_idle,
            self.selector,
            self._settings.max_idle_ms,
            self._clock,
            name=f"{self.name}-idle-expiry",
        )
        nursery.start_soon(self._failed_logins.reaper.run, name=self._failed_logins.reaper.name)
        nursery.start_soon(self.responder.lingering.reaper.run, name=f"{self.name}-lingering")
        if self._settings.requires_login or self.handshakes is not None:
            nursery.start_soon(self._late_logins.reaper.run, name=self._late_logins.reaper.name)
        if self.handshakes is not None:
            nursery.start_soon(self.handshakes.run, name=f"{self.name}-handshakes")

    async def drain(self) -> None:
        """Take no new requests, close every connection when its requests in flight are answered in full, and
        wait for the last one. The caller sets a deadline.
        """
        self._reading = False
        await self.responder.drain()

    # Receives

    def _close_on_error(self, channel: Channel, error: Exception) -> None:
        """Close the connection for an exception. Sorts expected errors of the peer from unexpected ones."""
        match error:
            case ProtocolViolation():
                self.selector.close_channel(channel, str(error), logging.WARNING, Ending.UNEXPECTED_ERROR)
            case EndOfStream():
                reason = str(error) or "closed by the peer"
                self.selector.close_channel(channel, reason, ending=Ending.DISCONNECTED)
            case OverLimit():
                self.selector.close_channel(channel, str(error))
            case TlsError():
                self.selector.counts.failed_logins += 1
                self.selector.close_channel(channel, str(error), logging.INFO, Ending.FAILED_AUTHENTICATION)
            case OSError():
                self.selector.close_channel(channel, str(error), ending=Ending.DISCONNECTED)
            case _:
                self.responder.fail(channel, FailedStep.RECEIVE, error)

    def _on_reset(self, channel: Channel) -> None:
        """Handle a connection that the peer has reset. Requests that have already arrived are still served in
        order, since acks=0 expects no response; a response that cannot be delivered ends it. (Kafka:
        CloseMode.GRACEFUL, NOTIFY_ONLY)
        """
        may_be_read = channel.mute_state is NOT_MUTED and not channel.receive.waits_for_memory
        is_over = may_be_read or channel.waiting is not None
        if not is_over and (channel.receive.has_buffered or has_arrivals(channel)):
            self.selector.stop_watching(channel)
        else:
            reason = "connection reset by the peer"
            self.selector.close_channel(channel, reason, ending=Ending.DISCONNECTED)

    def _on_event(self, channel: Channel, mask: int) -> Frame | None:
        """Handle any event but a read of an unmuted channel. Returns a complete frame, if any."""
        if mask & WRITE:
            self.responder.continue_send(channel)
        if channel.fd < 0:
            return None
        is_read = self._reading and (channel.mute_state is NOT_MUTED or channel.receive.has_memory)
        if mask == BUFFERED and is_read:
            return channel.receive.next_buffered()
        if not mask & READ:
            if mask & BROKEN:
                self._on_reset(channel)
            return None
        if not is_read:
            self.selector.set_interest(channel, channel.interest & ~READ)
            return None
        return channel.read(channel.sock)

    def _admit(self, channel: Channel, frame: Frame, now: int) -> Request | None:
        """Mute the channel and queue the request. Returns the request if the request queue is full: the
        caller waits for space, and this processor reads nothing meanwhile.
        """
        try:
            if channel.sends_raw_tokens:
                return self._admit_token(channel, frame, now)
            size = len(frame)
            if size < 10:
                self._refuse(channel, frame, f"a request of {size} bytes has no header: expected at least 10")
                return None
            head, correlation_id = HEAD.unpack_from(frame)
            route = self._routes.get(head) or self._routes.build(head)
            if route is None:
                self._refuse(channel, frame, f"API key {head >> 16} version {head & 0xFFFF} is not served")
                return None
            if not channel.authenticated:
                if not route.before_login:
                    self._refuse(channel, frame, f"{route.metrics.name} before authentication")
                    return None
                try:
                    self._unauthenticated.admit(channel)
                except OverLimit as over:
                    self._drop(frame)
                    self._close_on_error(channel, over)
                    return None
            channel.requests += 1
            size += 4
            channel.bytes_in += size
            if route.cached_responses and frame.__class__ is bytes:
                cached = route.cached_responses.get(frame[8:])
                time = self._request_time
                if cached is not None and (time is None or time.admits_cached(channel, cached.client_id)):
                    self.responder.send_cached(channel, route, cached, frame, now)
                    return None
            channel.on(REQUEST_RECEIVED)
            request = Request(self.responder, channel, route, frame, correlation_id, now)
            self._has_queued = True
            try:
                self._put_nowait(request)
            except trio.WouldBlock:
                return request
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self._drop(frame)
            self.responder.fail(channel, FailedStep.ADMIT, error)
        return None

    def _admit_token(self, channel: Channel, token: Frame, now: int) -> Request | None:
        """Admit a frame that is a SASL token, as `_admit` does a request."""
        frame = with_header(token, channel.client_id)
        size = 4 + len(token)
        self._drop(token)
        if not channel.authenticated:
            try:
                self._unauthenticated.admit(channel)
            except OverLimit as over:
                self._close_on_error(channel, over)
                return None
        channel.requests += 1
        channel.bytes_in += size
        channel.on(REQUEST_RECEIVED)
        channel.read_no_further()
        request = Request(self.responder, channel, self._routes.tokens(), frame, 0, now)
        self._has_queued = True
        try:
            self._put_nowait(request)
        except trio.WouldBlock:
            return request
        return None

    def _admit_in_session(self, channel: Channel, frame: Frame, now: int) -> Request | None:
        """Admit a frame on a listener where logins expire."""
        if channel.sends_raw_tokens:
            return self._admit(channel, frame, now)
        reason = self._sessions.refusal(channel, frame, now // 1_000_000 + self._clock.base_ms)
        if reason is None:
            return self._admit(channel, frame, now)
        self._drop(frame)
        self.selector.close_channel(channel, reason, logging.INFO)
        return None

    async def _wait_for_space(self, request: Request) -> None:
        """Wait for space in the request queue, unmeasured. If cancelled, drops the request."""
        time = self._request_time
        if time is not None:
            time.add_network(request.channel)
        try:
            await self._requests.put(request)
        except trio.Cancelled:
            assert request.frame is not None
            self._drop(request.frame)
            raise
        if time is not None:
            time.begin()

    def _drop(self, frame: Frame) -> None:
        if isinstance(frame, memoryview):
            self._frames.release(frame)

    def _refuse(self, channel: Channel, frame: Frame, reason: str) -> None:
        """Close the connection of a request that is not served."""
        self._drop(frame)
        self._close_on_error(channel, ProtocolViolation(reason))

    # Connections

    def _make_handshakes(self, settings: ProcessorSettings) -> Handshakes | None:
        """Return None for a listener without TLS."""
        if settings.certificates is None:
            return None
        return Handshakes(
            settings.certificates,
            self.selector,
            self.responder,
            self._clock,
            self._close_on_error,
            self._logins,
            self._unauthenticated.meter,
            names_users=not settings.requires_login,
        )

    def _configure_new_connections(self) -> None:
        settings = self._settings
        for _ in range(NEW_CONNECTIONS):
            try:
                accepted = self._accepted.receive_nowait()
            except trio.WouldBlock:
                self._has_accepted = False
                return
            if not self._reading:
                self._drop_accepted(accepted)
                continue
            try:
                channel = self._channel(accepted)
                self.selector.register(channel)
            except OSError as error:  # the peer has gone, or the kernel cannot watch more connections
                logger.warning(
                    "cannot register a connection",
                    extra={
                        "listener": settings.listener,
                        "address": accepted.peer[0],
                        "reason": str(error),
                    },
                )
                self._drop_accepted(accepted)
                continue
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                self._failures.report(FailedStep.REGISTER, error, connection=str(Address(*accepted.peer)))
                self._drop_accepted(accepted)
                continue
            try:
                self._on_open(channel)
                if not channel.authenticated:
                    self._late_logins.add(channel)
                    self._unauthenticated.add(channel, self.selector)
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                self.responder.fail(channel, FailedStep.REGISTER, error)

    def _drop_accepted(self, accepted: Accepted) -> None:
        self._failures.attempt(FailedStep.REGISTER, str(Address(*accepted[1])), self._on_drop, accepted)

    def _channel(self, accepted: Accepted) -> Channel:
        """Create a channel for a new connection, not yet registered; begins TLS on a TLS listener."""
        settings, (sock, peer, proxy) = self._settings, accepted
        local = sock.getsockname()[:2]
        logger.debug("Processor %d listening to new connection from %s:%d", self.id, *peer)
        limit = settings.max_frame_before_login if settings.requires_login else settings.max_frame
        connection = NewConnection(
            self._ids.new(local, peer, self.selector.ids),
            settings.listener,
            peer,
            authenticated=not settings.requires_login and self.handshakes is None,
            now_ms=self._clock.ms(),
            wall_ms=self._clock.wall_ms(),
            proxy=proxy,
        )
        channel = self.channel_type(sock, self.responder, self._new_receive(limit, sock), connection)
        if self.handshakes is not None:
            self.handshakes.begin(channel)
        elif settings.requires_login:
            self._unauthenticated.measure(channel)
        return channel
