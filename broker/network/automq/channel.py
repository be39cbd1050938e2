"""A connection with several requests in flight. (AutoMQ: ChannelContext)

`in_flight` has its requests in order of arrival, `early` those answered before their turn. Both hold requests
and not correlation ids, which a client may repeat. `responder` and `throttling` change them; independent of
sockets and handlers.
"""

import socket
from collections import deque
from typing import Final
from zlib import crc32

from broker.common.errors import BrokerBug
from broker.network.connection.channel import Channel, ChannelResponder, MuteEvent, MuteState, NewConnection
from broker.network.connection.receive import Receive
from broker.network.handling.request_channel import Request
from broker.purgatory.purgatory import DelayedOperation, Outcome

THROTTLE: Final = 1
"""A quota throttles the connection."""

QUEUE_FULL: Final = 2
"""The connection has reached its high watermark, or has a login in flight, which must not be overtaken."""

ENDED: Final = 4
"""The peer sends no more; requests in flight are answered, then the connection closes. Ours."""


class PipelinedChannel(Channel):
    """Muted while any bit of `flags` is set. `hash`, of the connection id, selects the handler; unlike
    Python's own hash it is the same in every run.
    """

    __slots__ = ("_delayed", "_throttles", "early", "flags", "hash", "in_flight")

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.in_flight: deque[Request] = deque()
        self.early: set[Request] = set()
        self.flags = 0
        self.hash = crc32(connection.id.encode())
        self._throttles = 0
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
            operation.settle(Outcome.CANCELLED)
        self._delayed.clear()

    def on(self, event: MuteEvent) -> MuteState:
        """Start or end a throttle; several kinds of quota may throttle a connection at once. A request mutes
        nothing by itself, and the responder handles responses. Raises BrokerBug for an end without a start.
        """
        match event:
            case MuteEvent.REQUEST_RECEIVED:
                return self.mute_state
            case MuteEvent.THROTTLE_STARTED:
                self._throttles += 1
                self.flags |= THROTTLE
            case MuteEvent.THROTTLE_ENDED if self._throttles:
                self._throttles -= 1
                if not self._throttles:
                    self.flags &= ~THROTTLE
            case _:
                raise BrokerBug(f"invalid mute event {event.name} for a pipelined channel")
        return self.settle_mute()

    def settle_mute(self) -> MuteState:
        """Set and return the mute state that the flags imply, in Kafka's names."""
        flags = self.flags
        if not flags:
            state = MuteState.NOT_MUTED
        elif not flags & THROTTLE:
            state = MuteState.MUTED
        elif self.in_flight:
            state = MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
        else:
            state = MuteState.MUTED_AND_THROTTLED
        self.mute_state = state
        return state
