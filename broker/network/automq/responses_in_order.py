"""The queue of requests whose responses are due, in AutoMQ's mode. (AutoMQ: ChannelContext)

Not compiled by `make compiled`: mypyc cannot compile a subclass of a deque.
"""

from collections import deque

from broker.network.automq.channel import PipelinedChannel
from broker.network.handling.request_channel import Request


class ResponsesInOrder(deque[Request]):
    """Requests whose responses are due. Appending one that is not due adds it to its channel's `early`."""

    def append(self, request: Request) -> None:
        channel = request.channel
        assert isinstance(channel, PipelinedChannel)
        in_flight = channel.in_flight
        if not in_flight or in_flight[0] is request:
            super().append(request)
        else:
            channel.early.add(request)
