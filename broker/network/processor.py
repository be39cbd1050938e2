"""The reactor: one task, one epoll, many connections. (Kafka: SocketServer.Processor and Selector)

Takes connections from the acceptor, reads frames into requests for the handlers, writes their responses. A turn follows
Kafka's order: new connections, responses, poll, receives, sends, disconnects. Everything between two awaits is
synchronous, so a handler that has finished a batch may call `flush` itself and save a task switch.

Read interest is taken away lazily: a muted channel keeps it until it really becomes readable, because most clients send
nothing before they have their answer.
"""

import logging
import os
import select
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import trio

from broker.api.context import Connection
from broker.errors import BrokerBug, ProtocolViolation
from broker.network.channel import Channel
from broker.network.clock import TrioClock
from broker.network.frame_pool import FramePool
from broker.network.mute import MuteEvent, MuteState
from broker.network.receive import SCRATCH_BYTES, EndOfStream, Frame, Receive
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.routes import Routes
from broker.network.send import Send

logger = logging.getLogger(__name__)

HEAD: Final = struct.Struct(">Ii")
"""API key and version as one number, then the correlation id."""

NEW_CONNECTIONS: Final = 20
"""Accepted sockets waiting for this processor (Kafka: Processor.ConnectionQueueSize, 20)."""

READ: Final = select.EPOLLIN
WRITE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP

NOT_MUTED: Final = MuteState.NOT_MUTED
PENDING: Final = MuteState.MUTED_AND_RESPONSE_PENDING

Accepted = tuple[socket.socket, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ProcessorSettings:
    """What a processor needs to know of its listener and the broker's limits; bytes and milliseconds."""

    listener: str
    requires_login: bool
    max_frame: int
    max_frame_before_login: int
    max_idle_ms: int


class Processor:
    """Owns its channels. `id` is unique in the broker; `new_connections` is the acceptor's door."""

    def __init__(
        self,
        processor_id: int,
        name: str,
        settings: ProcessorSettings,
        *,
        routes: Routes,
        requests: RequestChannel,
        clock: TrioClock,
        frames: FramePool,
        on_close: Callable[[Channel], None],
    ) -> None:
        self.id = processor_id
        self.name = name
        self.responses: deque[Request] = deque()
        self.responses_peak = 0
        self.idle = 0.0
        self.started = 0.0
        self.new_connections, self._accepted = trio.open_memory_channel[Accepted](NEW_CONNECTIONS)
        self._settings = settings
        self._routes = routes
        self._requests = requests
        self._clock = clock
        self._frames = frames
        self._on_close = on_close
        self._channels: dict[int, Channel] = {}
        self._buffered: list[Channel] = []
        self._next_index = 0
        self._reading = True
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, READ)

    def channels(self) -> Iterator[Channel]:
        """The open connections, for the console."""
        return iter(self._channels.values())

    @property
    def connection_count(self) -> int:
        return len(self._channels)

    @property
    def in_flight(self) -> int:
        """Requests that were received and not yet answered in full."""
        return sum(1 for channel in self._channels.values() if channel.mute_state is not NOT_MUTED)

    def wakeup(self) -> None:
        """Makes `run` take another turn soon."""
        os.eventfd_write(self._wake_fd, 1)

    async def run(self) -> None:
        """Serves until cancelled; then every connection is closed."""
        clock, epoll, channels = self._clock, self._epoll, self._channels
        now_of = clock.now
        epoll_fd = epoll.fileno()
        self.started = now_of()
        try:
            while True:
                self._configure_new_connections()
                if self.responses:
                    self.flush()
                if self._buffered:
                    await self._submit_buffered()
                asleep = now_of()
                await trio.lowlevel.wait_readable(epoll_fd)
                now = now_of()
                self.idle += now - asleep
                for fd, mask in epoll.poll(0, 4096):
                    channel = channels.get(fd)
                    if channel is None:
                        if fd == self._wake_fd:
                            os.eventfd_read(fd)
                        continue
                    if mask & WRITE:
                        self._continue_send(channel)
                    if mask & READ:
                        if channel.mute_state is NOT_MUTED and self._reading:
                            frame = self._read(channel)
                            if frame is not None:
                                await self._submit(channel, frame, now)
                        elif channel.fd >= 0:
                            self._set_interest(channel, channel.interest & ~READ)
                    elif mask & BROKEN:
                        self.close(channel, "connection reset by the peer")
        finally:
            for channel in list(channels.values()):
                self.close(channel, "shutdown")
            epoll.close()
            os.close(self._wake_fd)

    async def expire_idle(self) -> None:
        """Closes the least recently used connection whenever it has been idle for `connections.max.idle.ms`."""
        limit = self._settings.max_idle_ms
        if limit < 0:
            return
        while True:
            now_ms = self._clock.ms()
            oldest = min(self._channels.values(), key=lambda channel: channel.last_active_ms, default=None)
            if oldest is None:
                await trio.sleep(limit / 1000)
                continue
            left = oldest.last_active_ms + limit - now_ms
            if left > 0:
                await trio.sleep(left / 1000)
            elif oldest.mute_state is NOT_MUTED:
                self.close(oldest, f"idle for {limit} ms")
                await trio.lowlevel.checkpoint()
            else:
                oldest.last_active_ms = now_ms  # its request is still being served

    def stop_reading(self) -> None:
        """Draining: what is in hand is finished, nothing new is taken."""
        self._reading = False

    # --- responses -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes every queued response as far as its socket takes it. Synchronous; called by handlers and by `run`."""
        responses = self.responses
        if len(responses) > self.responses_peak:
            self.responses_peak = len(responses)
        now = self._clock.now()
        while responses:
            request = responses.popleft()
            channel = request.channel
            if channel.fd < 0:
                self._drop(request)
                continue
            reply = request.reply
            try:
                if reply.__class__ is bytes:
                    assert isinstance(reply, bytes)
                    size = len(reply)
                    try:
                        n = channel.sock.send(reply)
                    except BlockingIOError:
                        n = 0
                    if n != size:
                        self._start_send(channel, Send([reply], n, request))
                        continue
                elif reply is None:
                    if request.close_reason is not None:
                        self.close(channel, request.close_reason, logging.INFO)
                        continue
                    size = 0
                else:
                    assert isinstance(reply, list)
                    send = Send(reply, 0, request)
                    if not send.write(channel.sock):
                        self._start_send(channel, send)
                        continue
                    size = send.written
            except OSError as error:
                self._drop(request)
                self.close(channel, str(error))
                continue
            channel.bytes_out += size
            metrics = request.route.metrics
            metrics.bytes_out += size
            metrics.record(request.received, request.dequeued, request.handled, now)
            if channel.mute_state is PENDING:
                channel.mute_state = NOT_MUTED
                self._after_unmute(channel)
            else:
                channel.on(MuteEvent.RESPONSE_SENT)

    def end_throttling(self, channel: Channel) -> None:
        """The other half of a throttle; the channel opens if its response has been written."""
        if channel.fd < 0:
            return
        if channel.on(MuteEvent.THROTTLE_ENDED) is NOT_MUTED:
            self._after_unmute(channel)

    def close(self, channel: Channel, reason: str, level: int = logging.DEBUG) -> None:
        """Closes one connection. Its queued or parked requests are answered into nothing."""
        fd = channel.fd
        if fd < 0:
            return
        logger.log(level, "connection closed", extra={"connection": channel.id, "reason": reason})
        del self._channels[fd]
        self._epoll.unregister(fd)
        channel.fd = -1
        channel.receive.close()
        if channel.send is not None:
            channel.send.close()
        channel.sock.close()
        self._on_close(channel)

    def _start_send(self, channel: Channel, send: Send) -> None:
        channel.send = send
        self._set_interest(channel, channel.interest | WRITE)

    def _continue_send(self, channel: Channel) -> None:
        send = channel.send
        if send is None:
            self._set_interest(channel, channel.interest & ~WRITE)
            return
        try:
            if not send.write(channel.sock):
                return
        except OSError as error:
            self.close(channel, str(error))
            return
        request = send.request
        assert request is not None
        channel.send = None
        self._set_interest(channel, channel.interest & ~WRITE)
        now = self._clock.now()
        channel.last_active_ms = self._clock.ms()
        channel.bytes_out += send.written
        metrics = request.route.metrics
        metrics.bytes_out += send.written
        metrics.record(request.received, request.dequeued, request.handled, now)
        if channel.on(MuteEvent.RESPONSE_SENT) is NOT_MUTED:
            self._after_unmute(channel)

    def _drop(self, request: Request) -> None:
        if isinstance(request.reply, list):
            Send(request.reply).close()

    def _after_unmute(self, channel: Channel) -> None:
        if not channel.interest & READ:
            self._set_interest(channel, channel.interest | READ)
        if channel.receive.has_buffered:
            if not self._buffered:
                self.wakeup()
            self._buffered.append(channel)

    def _set_interest(self, channel: Channel, interest: int) -> None:
        if interest != channel.interest and channel.fd >= 0:
            channel.interest = interest
            self._epoll.modify(channel.fd, interest)

    # --- receives --------------------------------------------------------------------------------------------------

    def _read(self, channel: Channel) -> Frame | None:
        """The one border where a broken peer or impossible bytes end a connection."""
        try:
            return channel.receive.read(channel.sock)
        except EndOfStream:
            self.close(channel, "closed by the peer")
        except ProtocolViolation as violation:
            self.close(channel, str(violation), logging.WARNING)
        except OSError as error:
            self.close(channel, str(error))
        return None

    async def _submit_buffered(self) -> None:
        now = self._clock.now()
        waiting, self._buffered = self._buffered, []
        for channel in waiting:
            if channel.fd < 0 or channel.mute_state is not NOT_MUTED or not self._reading:
                continue
            try:
                frame = channel.receive.next_buffered()
            except ProtocolViolation as violation:
                self.close(channel, str(violation), logging.WARNING)
                continue
            if frame is not None:
                await self._submit(channel, frame, now)

    async def _submit(self, channel: Channel, frame: Frame, now: float) -> None:
        """Mutes the channel and hands the request over; waits while the request queue is full."""
        if len(frame) < 10:
            self.close(channel, f"a request of {len(frame)} bytes has no header", logging.WARNING)
            return
        head, correlation_id = HEAD.unpack_from(frame)
        route = self._routes.get(head) or self._routes.build(head)
        if route is None:
            self.close(channel, f"API key {head >> 16} version {head & 0xFFFF} is not served", logging.WARNING)
            return
        if not channel.authenticated and not route.before_login:
            self.close(channel, f"{route.metrics.name} before authentication", logging.WARNING)
            return
        channel.mute_state = PENDING  # mute, then REQUEST_RECEIVED
        channel.last_active_ms = int(now * 1000) + self._clock.base_ms
        channel.requests += 1
        size = len(frame) + 4
        channel.bytes_in += size
        route.metrics.bytes_in += size
        request = Request(self, channel, route, frame, correlation_id, now)
        try:
            self._requests.put_nowait(request)
        except trio.WouldBlock:
            await self._requests.put(request)

    # --- connections -----------------------------------------------------------------------------------------------

    def _configure_new_connections(self) -> None:
        settings = self._settings
        for _ in range(NEW_CONNECTIONS):
            try:
                sock, peer = self._accepted.receive_nowait()
            except trio.WouldBlock:
                return
            try:
                local_host, local_port = sock.getsockname()[:2]
            except OSError:
                sock.close()
                continue
            index, self._next_index = self._next_index, (self._next_index + 1) & 0x7FFFFFFF
            limit = settings.max_frame_before_login if settings.requires_login else settings.max_frame
            channel = Channel(
                sock,
                self,
                connection_id=f"{local_host}:{local_port}-{peer[0]}:{peer[1]}-{self.id}-{index}",
                listener=settings.listener,
                peer=peer,
                receive=Receive(limit, self._scratch, self._frames),
                authenticated=not settings.requires_login,
                now_ms=self._clock.ms(),
                wall_ms=self._clock.wall_ms(),
            )
            self._channels[channel.fd] = channel
            channel.interest = READ
            self._epoll.register(channel.fd, READ)

    def logged_in(self, connection: Connection) -> None:
        """Lifts the frame limit that held before authentication."""
        if not isinstance(connection, Channel):
            raise BrokerBug("a connection of another network layer")
        connection.receive.limit = self._settings.max_frame
