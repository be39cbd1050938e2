"""AutoMQ's mode of a socket server: its reactor continues to read while requests of the same connection are
in flight, and sends responses in request order, in whatever order handlers finish; each handler has a queue
of its own. (AutoMQ: SocketServer.Processor, its correlation id queue, KafkaRequestHandler with its id)

The processor inherits the turn from Kafka's, and changes which requests are admitted and how a connection
with pending responses ends. Handlers append finished requests to the responder's `responses` as in Kafka's
mode; a response before its turn waits with its connection until all earlier ones have been written. A
request without a response (acks=0) and one that ends the connection take their turn too. If the socket does
not take a whole response, its send is in progress, and the next response starts when it is complete.

No handler leads: each waits for its own queue, and a slow request delays the queue of its handler. `server`
calls `automq`.
"""

from collections import deque
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import trio

from broker.api.requests.outcome import Outcome, Response, Sliced
from broker.common.errors import ProtocolViolation
from broker.common.slices import Slices
from broker.config.sections import AutomqConfig
from broker.network.authentication import FailedLogins
from broker.network.automq.channel import PipelinedChannel
from broker.network.automq.handler_queues import CallbackQueues, RequestQueues, ResponsesInOrder
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel, MuteState
from broker.network.connection.read_ahead_channel import ENDED, QUEUE_FULL
from broker.network.connection.receive import EndOfStream
from broker.network.failures import Failures
from broker.network.handling.handler_pool import HandlerPool
from broker.network.handling.leader_followers import LeaderFollowers
from broker.network.handling.sliced_requests import End
from broker.network.processor import Event, Processor, ProcessorServices, ProcessorSettings
from broker.network.requests.request_channel import Request, ResponseSend
from broker.network.requests.routes import CachedResponse, Route
from broker.network.responder import Responder
from broker.network.selector import Ending, Selector
from broker.network.server_factory import ServerMode
from broker.network.throttling import PipelinedThrottling

NOT_MUTED: Final = MuteState.NOT_MUTED

RUN_BYTES: Final = 64 * 1024
"""Small responses due together are sent in one write of about this size; ours."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """`pipeline.high.watermark` and `pipeline.low.watermark`: a connection with `high` requests in flight is
    not read until it has fewer than `low`.
    """

    high: int
    low: int


class PipelinedResponder(Responder):
    """`watermark_mutes` counts connections that reached the high watermark, `watermark_unmutes` those that
    fell below the low one again.
    """

    def __init__(
        self,
        selector: Selector,
        clock: TrioClock,
        failed_logins: FailedLogins,
        frame_limit: int,
        failures: Failures,
        *,
        watermarks: Watermarks,
        copies_regions: bool = False,
    ) -> None:
        super().__init__(selector, clock, failed_logins, frame_limit, failures, copies_regions=copies_regions)
        self.responses: deque[Request] = ResponsesInOrder()
        self.watermark_mutes = self.watermark_unmutes = 0
        self._high = watermarks.high
        self._low = watermarks.low

    def admit(self, request: Request) -> None:
        """Add a request to its connection's order, and mute the connection at the high watermark, or before
        login after one request, which must not be overtaken.
        """
        channel = request.channel
        assert isinstance(channel, PipelinedChannel)
        channel.in_flight.append(request)
        if len(channel.in_flight) >= self._high or not channel.authenticated:
            self.watermark_mutes += not channel.flags & QUEUE_FULL
            channel.flags |= QUEUE_FULL
        if channel.settle_mute() is NOT_MUTED and channel.receive.has_buffered:
            self.buffered.append(channel)

    def send_cached(
        self, channel: Channel, route: Route, cached: CachedResponse, frame: bytes, received: int
    ) -> None:
        """Write a cached response at once only if no request is in flight before it and no bytes are buffered
        after it; else queue it as a finished request.
        """
        assert isinstance(channel, PipelinedChannel)
        if not channel.in_flight and not channel.receive.has_buffered:
            super().send_cached(channel, route, cached, frame, received)
            if isinstance(channel.send, ResponseSend):
                self.admit(channel.send.request)
            return
        if cached.update_connection is not None:
            cached.update_connection(channel)
        channel.client_id = cached.client_id
        request = Request(self, channel, route, frame, 0, received)
        request.client_id = cached.client_id
        request.dequeued = request.completed = received
        request.frame = None
        request.reply = b"".join((cached.head, frame[4:8], cached.tail))
        self.admit(request)
        self.responses.append(request)

    def _after_response(self, channel: Channel) -> None:
        assert isinstance(channel, PipelinedChannel)
        channel.in_flight.popleft()
        if channel.early:
            self._send_due(channel)
            if channel.fd < 0:
                return
        if channel.flags:
            was_full = channel.flags & QUEUE_FULL
            if len(channel.in_flight) < self._low:
                self.watermark_unmutes += bool(was_full)
                channel.flags &= ~QUEUE_FULL
            if channel.settle_mute() is NOT_MUTED and was_full:
                self._after_unmute(channel)
        self.close_answered(channel)

    def _send_due(self, channel: PipelinedChannel) -> None:
        """Write the small responses that are due, and make the next one due if it is finished."""
        in_flight, early = channel.in_flight, channel.early
        run: list[bytes] = []
        size = 0
        for request in in_flight:
            reply = request.reply
            if request not in early or reply.__class__ is not bytes or size > RUN_BYTES:
                break
            if request.login is not None:
                break  # what follows a login depends on its outcome
            assert isinstance(reply, bytes)
            run.append(reply)
            size += len(reply)
        if len(run) > 1:
            self._write_run(channel, run)
        if in_flight and in_flight[0] in early and channel.send is None:
            early.remove(in_flight[0])
            self.responses.append(in_flight[0])

    def _write_run(self, channel: PipelinedChannel, run: list[bytes]) -> None:
        """Write responses as far as the socket takes them; one taken in part becomes a send in progress."""
        in_flight, early = channel.in_flight, channel.early
        time = self.request_time
        if time is not None:
            time.begin()
        try:
            left = channel.sock.send(b"".join(run))
        except BlockingIOError:
            left = 0
        except OSError as error:
            self._selector.close_channel(channel, str(error), ending=Ending.DISCONNECTED)
            return
        if time is not None:
            time.add_network(channel)
        now = self._clock.ns()
        channel.last_active_ms = now // 1_000_000 + self._clock.base_ms
        for reply in run:
            request = in_flight[0]
            early.remove(request)
            size = len(reply)
            if left < size:
                self._start_send(channel, ResponseSend(request, [reply], left), now)
                return
            left -= size
            in_flight.popleft()
            if time is not None:
                time.settle(request)
            channel.bytes_out += size
            request.route.metrics.record(request, now, size)


BURST: Final = 256
"""Buffered requests taken in one turn; ours. At 10 us each, other connections wait about 2.5 ms."""


class PipelinedProcessor(Processor):
    channel_type: ClassVar[type[Channel]] = PipelinedChannel

    def __init__(
        self,
        processor_id: int,
        name: str,
        settings: ProcessorSettings,
        services: ProcessorServices,
        *,
        watermarks: Watermarks,
    ) -> None:
        super().__init__(
            processor_id, name, settings, services, partial(PipelinedResponder, watermarks=watermarks)
        )
        responder = self.responder
        assert isinstance(responder, PipelinedResponder)
        self._pipelined = responder
        self._put_nowait = self._take_in

    def _take_in(self, request: Request) -> None:
        """Queue a request. Raises trio.WouldBlock if the queue is full; the request then keeps its place in
        order.
        """
        self._pipelined.admit(request)
        self._requests.put_nowait(request)

    def _buffered_events(self) -> Iterator[Event]:
        """Yield events of buffered requests, one of each connection at a time, so that handlers find them
        together. Those beyond `BURST` wait for the next turn, so that other connections are read first.
        """
        responder = self.responder
        left = BURST
        while responder.buffered and left > 0:
            left -= len(responder.buffered)
            yield from super()._buffered_events()
        if responder.buffered:
            self.selector.wakeup()

    def _close_on_error(self, channel: Channel, error: Exception) -> None:
        """Delay an end of stream or a protocol violation until the pending responses are sent."""
        assert isinstance(channel, PipelinedChannel)
        if not channel.in_flight or not isinstance(error, EndOfStream | ProtocolViolation):
            super()._close_on_error(channel, error)
            return
        end = Request(self.responder, channel, channel.in_flight[-1].route, b"", 0, self._clock.ns())
        end.close_reason = str(error) or "closed by the peer"
        channel.flags |= ENDED
        self._pipelined.admit(end)
        self.responder.responses.append(end)


class IndependentHandlers(LeaderFollowers):
    """Every handler permanently leads, for its own queue."""

    async def take_the_lead(self, number: int) -> bool:
        return number in self._wanted

    def promote_follower(self) -> None:
        """Do nothing: no other handler takes from this queue."""

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """Do nothing: each handler ends when its own queue is closed."""


class QueuePerHandler(HandlerPool):
    leader_followers_type: ClassVar[type[LeaderFollowers]] = IndependentHandlers

    def _serve_in_slices(self, request: Request, sliced: Sliced) -> Awaitable[Outcome] | None:
        """Wait as for every slow request: the queue may hold the next request of the same connection."""
        return self._last_slice(request, sliced)

    async def _last_slice(self, request: Request, sliced: Sliced) -> Outcome:
        done = trio.Event()
        ended: list[End] = []

        def conclude(end: End) -> None:
            ended.append(end)
            done.set()

        self._put_sliced(request, sliced, conclude)
        await done.wait()
        outcome = ended[0]()
        if isinstance(outcome, Awaitable):
            return await outcome
        return Sliced(_in_slices(outcome), None) if isinstance(outcome, Response) else outcome


def _in_slices(response: Response) -> Slices[Outcome]:
    """Return a response in a slice, so that it is encoded in slices too."""
    yield from ()
    return response


def automq(config: AutomqConfig) -> ServerMode:
    """Return the mode with the limits of `config`, which are fixed while the server runs."""
    return ServerMode(
        partial(RequestQueues, size_limit=config.queued_requests_size),
        CallbackQueues,
        partial(PipelinedProcessor, watermarks=Watermarks(config.pipeline_high, config.pipeline_low)),
        QueuePerHandler,
        PipelinedThrottling,
        resizable=False,
    )
