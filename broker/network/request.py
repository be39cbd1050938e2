"""One request on its way through the broker, with the times that its phases are measured by. (Kafka: RequestChannel.Request)

Made by a processor, handled by a handler task, written back by the same processor. Each time stamp has one writer.
"""

from typing import TYPE_CHECKING

from broker.api.context import RequestContext
from broker.network.channel import Channel
from broker.network.send import Part

if TYPE_CHECKING:
    from broker.network.processor import Processor
    from broker.network.routes import Route

Reply = bytes | list[Part] | None
"""A whole frame, one with file regions in it, or None where nothing goes over the wire."""


class Request(RequestContext):
    """`frame` is the request without its size prefix; times are seconds of the run's clock."""

    __slots__ = (
        "channel",
        "close_reason",
        "dequeued",
        "frame",
        "handled",
        "processor",
        "received",
        "reply",
        "route",
    )

    def __init__(
        self,
        processor: "Processor",
        channel: Channel,
        route: "Route",
        frame: bytes | bytearray | memoryview,
        correlation_id: int,
        received: float,
    ) -> None:
        self.processor = processor
        self.channel = self.connection = channel
        self.route = route
        self.frame: bytes | bytearray | memoryview | None = frame
        self.correlation_id = correlation_id
        self.received = received
        self.size = len(frame)
        self.reply: Reply = None
        self.close_reason: str | None = None
