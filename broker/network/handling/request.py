"""One request and the time stamps of its phases. (Kafka: RequestChannel.Request)

A processor creates it, a handler task handles it, and the same processor writes its response. Each time stamp
has one writer.
"""

from typing import TYPE_CHECKING

from broker.api.context import RequestContext
from broker.api.outcome import Login
from broker.network.connection.channel import Channel
from broker.network.connection.send import Part

if TYPE_CHECKING:
    from broker.network.handling.routes import Route
    from broker.network.responder import Responder

Reply = bytes | list[Part] | None
"""A whole frame, a frame that contains file regions, or None if no response is sent."""


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
        responder: "Responder",
        channel: Channel,
        route: "Route",
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
