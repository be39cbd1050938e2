"""The writing half of a processor: queued responses, and the steps that follow a completed send.

Handlers append to `responses` and call `flush` at the end of a batch. `flush` is synchronous, so no task
switch separates a response from its first byte on the wire. (Kafka: Processor.processNewResponses,
processCompletedSends)
"""

import logging
from collections import deque
from typing import Final

import trio

from broker.api.requests.outcome import Login
from broker.common.errors import BrokerBug, UnreadableRegion
from broker.network.authentication import FailedLogins, log_authenticated
from broker.network.clock import TrioClock
from broker.network.connection.channel import REQUEST_RECEIVED, RESPONSE_SENT, Channel, MuteEvent, MuteState
from broker.network.connection.send import IOV_MAX, Part, Send, copy_regions, send_at_once
from broker.network.failures import FailedStep, Failures
from broker.network.lingering import Lingering
from broker.network.requests.request_channel import Request, ResponseSend
from broker.network.requests.request_time import RequestTime
from broker.network.requests.routes import CachedResponse, Route
from broker.network.selector import NO_MEMORY, READ, WRITE, Ending, Selector
from broker.network.unsendable import RateLimitedWarning, UnsendableResponses, without_unreadable

logger = logging.getLogger(__name__)

NOT_MUTED: Final = MuteState.NOT_MUTED
BURST: Final = 16
"""Responses written between two readings of the clock, about a tenth of a millisecond; ours. Time stamps of
the last response are early by at most that.
"""


class Responder:
    """`frame_limit` is the maximum request size after login. `buffered` holds unmuted channels with bytes
    already read: their processor must read them without waiting for epoll. `request_time` is set while a
    request quota exists. `copies_regions` says whether transports copy file regions in user space, as TLS
    does.
    """

    def __init__(
        self,
        selector: Selector,
        clock: TrioClock,
        failed_logins: FailedLogins,
        frame_limit: int,
        failures: Failures,
        *,
        copies_regions: bool = False,
    ) -> None:
        self.responses: deque[Request] = deque()
        self.peak = 0
        self.silent = 0
        """Requests without a response (acks=0)."""
        self.buffered: list[Channel] = []
        self.delivering_ns = 0
        """Nanoseconds in which handlers wrote responses."""
        self.drained: trio.Event | None = None
        self.request_time: RequestTime | None = None
        self.lingering = Lingering(selector, clock, self.check_drained)
        self._copies_regions = copies_regions
        self._failures = failures
        self._selector = selector
        self._clock = clock
        self._failed_logins = failed_logins
        self._frame_limit = frame_limit
        self._unsendable = UnsendableResponses()
        self._cut_off = RateLimitedWarning(logger)

    def flush(self, now: int) -> None:
        """Write every queued response as far as its socket takes it. Synchronous; called by handlers and by
        the processor's `run`, at a time that they have just read.
        """
        responses = self.responses
        if len(responses) > self.peak:
            self.peak = len(responses)
        now_ms = now // 1_000_000 + self._clock.base_ms
        burst = BURST
        time = self.request_time
        if time is not None:
            # The lap of every other response starts at the end of the one before.
            time.begin_at(now)
        while responses:
            if not burst:
                now, burst = self._clock.ns(), BURST
            burst -= 1
            request = responses.popleft()
            channel = request.channel
            try:
                if channel.fd < 0:
                    self._drop(request, now)
                    continue
                reply = request.reply
                try:
                    if isinstance(reply, bytes):
                        size = len(reply)
                        try:
                            n = channel.sock.send(reply)
                        except BlockingIOError:
                            n = 0
                        if n != size:
                            self._start_send(channel, ResponseSend(request, [reply], n), now)
                            if time is not None:
                                time.add_network(channel)
                            continue
                    elif reply is None:
                        if request.close_reason is not None:
                            if (
                                request.frame is None
                            ):  # else no handler took it: it only closes the connection
                                request.route.metrics.record_slow(request, now, now, 0)
                            level = logging.DEBUG if request.close_reason is NO_MEMORY else logging.INFO
                            self._selector.close_channel(channel, request.close_reason, level)
                            continue
                        self.silent += 1
                        size = 0
                    else:
                        size = self._send_list(channel, request, reply, now)
                        if size < 0:
                            if time is not None:
                                time.add_network(channel)
                            continue
                except OSError as error:
                    if time is not None:
                        time.settle(request)
                    request.route.metrics.record_slow(request, now, now, 0)
                    self._close_unsent(channel, error)
                    continue
                if time is not None:
                    time.settle(request)
                channel.last_active_ms = now_ms
                channel.bytes_out += size
                request.route.metrics.record(request, now, size)
                if request.login is not None and not self._after_login(request, request.login):
                    continue
                self._after_response(channel)
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                self.fail(channel, FailedStep.SEND, error)

    def send_cached(
        self, channel: Channel, route: Route, cached: CachedResponse, frame: bytes, received: int
    ) -> None:
        """Write a cached response: it needs no handler, so the channel is not muted for it.

        It becomes a request with a send in progress only if the socket does not take all of it at once.
        """
        if cached.update_connection is not None:
            cached.update_connection(channel)
        channel.client_id = cached.client_id
        response = b"".join((cached.head, frame[4:8], cached.tail))
        size = len(response)
        try:
            n = channel.sock.send(response)
        except BlockingIOError:
            n = 0
        except OSError as error:
            self._selector.close_channel(channel, str(error), ending=Ending.DISCONNECTED)
            return
        if n != size:
            channel.on(REQUEST_RECEIVED)
            request = Request(self, channel, route, frame, 0, received)
            request.client_id = cached.client_id
            request.dequeued = request.completed = received
            self._start_send(channel, ResponseSend(request, [response], n), self._clock.ns())
            return
        channel.bytes_out += size
        route.metrics.cached += 1
        if channel.receive.has_buffered:
            self._after_unmute(channel)

    def _drop(self, request: Request, now: int) -> None:
        """Drop the response of a closed connection."""
        if request.frame is None:
            request.route.metrics.record_slow(request, now, now, 0)
            if self.request_time is not None:
                self.request_time.settle(request)
            if request.reply is not None:
                self._unsendable.warn(request.channel.id, now // 1_000_000 + self._clock.base_ms)

    def _close_unsent(self, channel: Channel, error: OSError) -> None:
        """Close the connection after a socket error, or a disk error in a partly sent response: the client
        expects the promised records next on the wire. (Kafka closes the connection too.)
        """
        if isinstance(error, UnreadableRegion):
            self._selector.counts.cut_off += 1
            self._cut_off.warn(
                self._clock.ms(),
                "response cut off: cannot read its records",
                connection=channel.id,
                reason=str(error),
            )
        self._selector.close_channel(channel, str(error), ending=Ending.DISCONNECTED)

    def fail(self, channel: Channel, place: FailedStep, error: Exception) -> None:
        """Report an unexpected exception and close only the connection that it concerns."""
        self._failures.report(place, error, connection=channel.id)
        self._selector.close_broken(channel, error)

    def end_throttling(self, channel: Channel) -> None:
        """End a throttle; unmutes the channel if its response has been written."""
        if channel.fd < 0:
            return
        try:
            channel.last_active_ms = self._clock.ms()
            if channel.on(MuteEvent.THROTTLE_ENDED) is NOT_MUTED:
                self._after_unmute(channel)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.fail(channel, FailedStep.UNMUTE, error)

    def resume_reading(self, channel: Channel) -> None:
        """Read again from a channel that waited for memory. A channel muted for a response or by a throttle
        stays muted, and is read when that ends.
        """
        if channel.mute_state is NOT_MUTED:
            try:
                self._after_unmute(channel)
            except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                self.fail(channel, FailedStep.UNMUTE, error)

    def _send_list(self, channel: Channel, request: Request, parts: list[Part], taken: int) -> int:
        """Return the size of the response if all of it was written, or -1 if its send is in progress."""
        if self._copies_regions:
            copy_regions(parts)
        if len(parts) > IOV_MAX:
            send = ResponseSend(request, parts)
            if self._write(send, channel):
                return send.written
            self._start_send(channel, send, taken)
            return -1
        wanted = sum(map(len, parts))
        try:
            written = send_at_once(channel.sock, parts, wanted) if len(parts) > 1 else -1
        except BlockingIOError:
            written = 0
        except UnreadableRegion as error:
            send = ResponseSend(request, parts)
            self._replace_unreadable(send, error)
            if self._write(send, channel):
                return send.written
            self._start_send(channel, send, taken)
            return -1
        if written == wanted:
            return wanted
        send = ResponseSend(request, parts, max(written, 0))
        if written < 0 and self._write(send, channel):
            return send.written
        self._start_send(channel, send, taken)
        return -1

    def _write(self, send: Send, channel: Channel) -> bool:
        """Write, replacing unreadable partitions by an error as long as no byte of the response has been
        written. Raises OSError.
        """
        while True:
            try:
                return send.write(channel.sock)
            except UnreadableRegion as error:
                self._replace_unreadable(send, error)

    def _replace_unreadable(self, send: Send, error: UnreadableRegion) -> None:
        """Replace unreadable partitions by an error. Raises the error if part of the response has been
        written.
        """
        parts = None
        if not send.written and isinstance(send, ResponseSend):
            parts = without_unreadable(send.request, send.unsent, error.region)
        if parts is None:
            raise error
        send.replace(parts)

    def _start_send(self, channel: Channel, send: ResponseSend, taken: int) -> None:
        """Start a send for the rest of a response that was dequeued at `taken`."""
        if channel.send is not None:
            raise BrokerBug(f"{channel.id}: a send is already in progress")
        send.request.taken = taken
        channel.send = send
        self._selector.set_interest(channel, channel.interest | WRITE)

    def continue_send(self, channel: Channel) -> None:
        send = channel.send
        if send is None:
            self._selector.set_interest(channel, channel.interest & ~WRITE)
            return
        written = send.written
        time = self.request_time
        if time is not None:
            time.begin()
        try:
            is_whole = self._write(send, channel)
        except OSError as error:
            self._close_unsent(channel, error)
            return
        if time is not None:
            time.add_network(channel)
        if send.written > written:
            channel.last_active_ms = self._clock.ms()
        if not is_whole:
            return
        channel.send = None
        self._selector.set_interest(channel, channel.interest & ~WRITE)
        if not isinstance(send, ResponseSend):  # a HandshakeSend has no response
            self._after_unmute(channel)
            return
        request = send.request
        if time is not None:
            time.settle(request)
        now = self._clock.ns()
        channel.bytes_out += send.written
        request.route.metrics.record_slow(request, request.taken, now, send.written)
        if request.login is not None and not self._after_login(request, request.login):
            return
        self._after_response(channel)

    def measure(self, request_time: RequestTime | None) -> None:
        """Measure the thread time of each connection, or stop doing so (None)."""
        self.request_time = request_time

    async def drain(self) -> None:
        """Close every connection as soon as no request of it is in flight, and wait for the last one. The
        caller sets a deadline.
        """
        if self.drained is None:
            self.drained = trio.Event()
            for channel in list(self._selector):
                self.close_answered(channel)
        self.check_drained()
        await self.drained.wait()

    def close_answered(self, channel: Channel) -> None:
        """In a drain, close a connection that has no request in flight; called when it has answered one, so
        that its client moves on and does not wait for the clients of other connections.
        """
        if self.drained is not None and not channel.requests_in_flight:
            self.lingering.end(channel)

    def check_drained(self) -> None:
        """Complete the drain if no connection is left, nor one that lingers; called when one has closed."""
        if self.drained is not None and not self._selector.channels and not self.lingering:
            self.drained.set()

    def _after_response(self, channel: Channel) -> None:
        """Unmute the channel after its response, unless it is throttled."""
        if channel.on(RESPONSE_SENT) is NOT_MUTED:
            self._after_unmute(channel)
        else:
            self.close_answered(channel)

    def _after_unmute(self, channel: Channel) -> None:
        if self.drained is not None:
            self.close_answered(channel)
            if channel.fd < 0:
                return
        if not channel.interest & READ:
            self._selector.set_interest(channel, channel.interest | READ)
        if channel.receive.has_buffered:
            if not self.buffered:
                self._selector.wakeup()
            self.buffered.append(channel)

    def _after_login(self, request: Request, login: Login) -> bool:
        """Return whether the connection continues: a successful login lifts the frame limit, a failed one
        keeps the channel muted until it is closed.
        """
        counts, channel = self._selector.counts, request.channel
        if login is Login.FAILED:
            if channel.session is None:
                counts.failed_logins += 1
            else:
                counts.failed_renewals += 1
            self._failed_logins.add(channel)
            return False
        log_authenticated(channel, again=login is Login.RENEWED)
        if login is Login.SUCCEEDED:
            counts.logins += 1
            if request.route.version == 0:
                counts.logins_without_reauth += 1
        elif channel.session is not None:
            counts.renewals += 1
            now_ms = self._clock.ns() // 1_000_000
            counts.renewal_ms_avg.record(channel.session.latency_ms, now_ms)
            counts.renewal_ms_max.record(channel.session.latency_ms, now_ms)
        channel.receive.limit = self._frame_limit
        return True
