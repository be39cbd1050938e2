"""One request on its way through the broker, with the times that its phases are measured by. (Kafka:
RequestChannel.Request)

Made by a processor, handled by a handler task, written back by the same processor. Each time stamp has one
writer.
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
"""A whole frame, one with file regions in it, or None where nothing goes over the wire."""


class Request(RequestContext):
    """`frame` is the request without its size prefix; times are nanoseconds of the run's clock.

    | time stamp | what it marks | its one writer |
    | --- | --- | --- |
    | `received` | the frame was whole | the processor that read it |
    | `dequeued` | a handler has it | the handler task |
    | `local_complete` | it begins to wait for a timer, a commit, the disk; 0: it did not | the handler task |
    | | a callback that ends the wait moves it on by its own time, which is local too | the handler pool |
    | `completed` | its answer is queued | the handler pool |
    | `taken` | its answer is being written; only where the socket did not take it whole | the responder |

    When the last byte is sent is told to the metrics and not kept. `errors` and `throttle_ms` are there only
    where its metrics want them. `handler_ns` is the thread time that no quota has recorded yet, and `exempt`
    says that the request quota does not apply; see `request_time`.
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
        """Counts this request under another name than its API's."""
        self.route = self.route.counted_as(name)
