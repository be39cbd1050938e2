"""A connection that is read while requests of it are in flight: in AutoMQ's mode, and at the gateway.

Its mute state follows from `flags`, the reasons not to read it. `automq.channel` and `gateway.channel` have
its kinds. Independent of sockets and handlers.
"""

import socket
from typing import Final

from broker.common.errors import BrokerBug
from broker.network.connection.channel import Channel, ChannelResponder, MuteEvent, MuteState, NewConnection
from broker.network.connection.receive import Receive

THROTTLED: Final = 1
"""A quota throttles the connection."""

QUEUE_FULL: Final = 2
"""As many requests are in flight as the connection may have, or one that must not be overtaken."""

ENDED: Final = 4
"""The peer sends no more; requests in flight are answered, then the connection closes."""


class ReadAheadChannel(Channel):
    """Muted while any bit of `flags` is set."""

    __slots__ = ("_throttles", "flags")

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.flags = 0
        self._throttles = 0
        super().__init__(sock, responder, receive, connection)

    def set_flag(self, flag: int) -> None:
        self.flags |= flag
        self.settle_mute()

    def clear_flag(self, flag: int) -> MuteState:
        """Clear a flag and return the mute state."""
        self.flags &= ~flag
        return self.settle_mute()

    def on(self, event: MuteEvent) -> MuteState:
        """Start or end a throttle; several kinds of quota may throttle a connection at once. A request mutes
        nothing by itself. Raises BrokerBug for an end without a start, and for a response: the responder
        handles it.
        """
        match event:
            case MuteEvent.REQUEST_RECEIVED:
                return self.mute_state
            case MuteEvent.THROTTLE_STARTED:
                self._throttles += 1
                self.flags |= THROTTLED
            case MuteEvent.THROTTLE_ENDED if self._throttles:
                self._throttles -= 1
                if not self._throttles:
                    self.flags &= ~THROTTLED
            case _:
                raise BrokerBug(f"invalid mute event {event.name} for a pipelined channel")
        return self.settle_mute()

    def settle_mute(self) -> MuteState:
        """Set and return the mute state that the flags imply, in Kafka's names."""
        flags = self.flags
        if not flags:
            state = MuteState.NOT_MUTED
        elif not flags & THROTTLED:
            state = MuteState.MUTED
        elif self.requests_in_flight:
            state = MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
        else:
            state = MuteState.MUTED_AND_THROTTLED
        self.mute_state = state
        return state
