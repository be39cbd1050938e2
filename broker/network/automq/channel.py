"""A connection with several requests in flight. (AutoMQ: ChannelContext)

`in_flight` has its requests in order of arrival, `early` those answered before their turn. Both hold requests
and not correlation ids, which a client may repeat. `responder` and `throttling` change them; independent of
sockets and handlers.
"""

import socket
from collections import deque
from zlib import crc32

from broker.network.connection.channel import ChannelResponder, NewConnection
from broker.network.connection.read_ahead_channel import QUEUE_FULL, ReadAheadChannel
from broker.network.connection.receive import Receive
from broker.network.requests.request_channel import Request
from broker.purgatory.purgatory import DelayedOperation, OperationState


class PipelinedChannel(ReadAheadChannel):
    """`hash`, of the connection id, selects the handler; unlike Python's own hash it is the same in every
    run.
    """

    __slots__ = ("_delayed", "early", "hash", "in_flight")

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.in_flight: deque[Request] = deque()
        self.early: set[Request] = set()
        self.hash = crc32(connection.id.encode())
        self._delayed: list[DelayedOperation] = []
        super().__init__(sock, responder, receive, connection)

    @property
    def requests_in_flight(self) -> int:
        return len(self.in_flight)

    @property
    def waiting(self) -> DelayedOperation | None:
        """The last delayed operation that still waits; there may be several."""
        return self._delayed[-1] if self._delayed else None

    @waiting.setter
    def waiting(self, operation: DelayedOperation | None) -> None:
        self._delayed = [each for each in self._delayed if not each.settled]
        if operation is not None:
            self._delayed.append(operation)

    def read_no_further(self) -> None:
        self.flags |= QUEUE_FULL

    def abandon(self) -> None:
        self.in_flight.clear()
        self.early.clear()
        for operation in self._delayed:
            operation.settle(OperationState.CANCELLED)
        self._delayed.clear()
