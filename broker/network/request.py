"""One request on its way through the broker, with the times that its phases are measured by. (Kafka:
RequestChannel.Request)

Made by a processor, handled by a handler task, written back by the same processor. Each time stamp has one
writer.
"""

from typing import TYPE_CHECKING

from broker.api.context import RequestContext
from broker.api.outcome import Login
from broker.network.channel import Channel
from broker.network.send import Part

if TYPE_CHECKING:
    from broker.network.responder import Responder
    from broker.network.routes import Route

Reply = bytes | list[Part] | None
"""A whole frame, one with file regions in it, or None where nothing goes over the wire."""


class Request(RequestContext):
    """`frame` is the request without its size prefix; times are nanoseconds of the run's clock."""

    __slots__ = (
        "channel",
        "close_reason",
        "dequeued",
        "frame",
        "handled",
        "login",
        "received",
        "reply",
        "responder",
        "route",
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
        self.dequeued = received
        self.handled = received
        self.size = len(frame)
        self.reply: Reply = None
        self.close_reason: str | None = None
        self.login: Login | None = None
