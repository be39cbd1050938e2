"""Requests with the time stamps of their phases, and the bounded queue between processors and handlers.
(Kafka: RequestChannel, RequestChannel.Request)

A processor creates a request, a handler task handles it, and the same processor writes its response. A full
queue blocks the processor that adds to it; the processor then reads none of its sockets, which is the
back-pressure that reaches clients over TCP. Closing the queue ends the handlers. `Requests` is the interface
of other queueing schemes.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

import trio

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Login
from broker.network.connection.channel import Channel
from broker.network.connection.send import Part, Send
from broker.network.requests.routes import Route

Reply = bytes | list[Part] | None
"""A whole frame, a frame that contains file regions, or None if no response is sent."""


class RequestResponder(Protocol):
    """The responder of a request's processor, as handlers use it; see `network.responder`."""

    responses: deque["Request"]


class Request(RequestContext):
    """`frame` is the request without its size prefix; times are nanoseconds of the run's clock.

    | time stamp | meaning | writer |
    | --- | --- | --- |
    | `received` | the frame is complete | the processor that read it |
    | `dequeued` | a handler takes it | the handler task |
    | `local_complete` | it starts to wait for a timer, a commit or the disk; 0: no wait | the handler task |
    | | a callback that ends the wait adds its own time, which is local time too | the handler pool |
    | `completed` | its response is queued | the handler pool |
    | `taken` | a write of its response starts; only if the socket did not take it whole | the responder |

    The metrics record when the last byte is sent; the request does not keep it. `errors` and `throttle_ms`
    are set only if its metrics use them. `handler_ns` is thread time that no quota has recorded yet; `exempt`
    means that the request quota does not apply (see `request_time`).
    """

    __slots__ = (
        "channel",
        "close_reason",
        "completed",
        "dequeued",
        "errors",
        "frame",
        "handler_ns",
        "local_complete",
        "login",
        "received",
        "reply",
        "responder",
        "route",
        "taken",
        "throttle_ms",
    )

    def __init__(
        self,
        responder: RequestResponder,
        channel: Channel,
        route: Route,
        frame: bytes | bytearray | memoryview,
        correlation_id: int,
        received: int,
    ) -> None:
        self.responder = responder
        self.channel = self.connection = channel
        self.route = route
        self.frame: bytes | bytearray | memoryview | None = frame
        self.correlation_id = correlation_id
        self.received = received
        self.local_complete = 0
        self.size = len(frame)
        self.reply: Reply = None
        self.close_reason: str | None = None
        self.login: Login | None = None
        self.handler_ns = 0
        self.exempt = False

    dequeued: int
    completed: int
    taken: int
    errors: tuple[int, ...]
    throttle_ms: int

    def count_as(self, name: str) -> None:
        """Count this request under a name other than its API's."""
        self.route = self.route.counted_as(name)


class ResponseSend(Send):
    """The unsent part of the response to `request`."""

    __slots__ = ("request",)

    def __init__(self, request: Request, parts: Sequence[Part], already: int = 0) -> None:
        super().__init__(parts, already)
        self.request = request


class RequestQueue(Protocol):
    """The queue of one handler. Both methods raise trio.EndOfChannel once it is closed and empty."""

    async def receive(self) -> Request:
        """Wait for a request."""

    def receive_nowait(self) -> Request:
        """Return a request. Raises trio.WouldBlock if the queue is empty."""


class Requests(Protocol):
    """The queues between processors and handlers. `capacity` is the total of all queues, `peak` the largest
    depth observed by `depth`.
    """

    capacity: int
    peak: int

    def put_nowait(self, value: Request, /) -> None:
        """Queue a request. Raises trio.WouldBlock if the queue is full."""

    async def put(self, value: Request, /) -> None:
        """Queue a request; waits for space."""

    def queue_of(self, handler: int) -> RequestQueue:
        """Return the queue of the handler with this index."""

    def depth(self) -> int:
        """Return the number of queued requests (RequestQueueSize)."""

    async def aclose(self) -> None:
        """Take no more requests. Handlers finish the queued requests, then end."""


class RequestChannel:
    """One queue for all handlers, of at most `queued.max.requests` requests."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.peak = 0
        self.send, self.receive = trio.open_memory_channel[Request](capacity)
        self.put_nowait = self.send.send_nowait
        self.put = self.send.send

    def queue_of(self, _handler: int) -> RequestQueue:
        return self.receive

    def depth(self) -> int:
        """Return the number of queued requests (RequestQueueSize) and update `peak`."""
        depth = self.send.statistics().current_buffer_used
        self.peak = max(self.peak, depth)
        return depth

    async def aclose(self) -> None:
        """Take no more requests. Handlers finish the queued requests, then end."""
        await self.send.aclose()
