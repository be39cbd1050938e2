"""A connection with several requests in hand. (AutoMQ: ChannelContext)

`in_flight` are its requests in the order in which they came, `early` those of them that were answered before
their turn. Requests and not correlation ids: a client may repeat an id, and a request is itself. Moved by
`responder` and `throttling`; knows nothing of sockets or handlers.
"""

from collections import deque
from typing import Any, Final
from zlib import crc32

from broker.errors import BrokerBug
from broker.network.connection.channel import Channel
from broker.network.connection.mute import MuteEvent, MuteState
from broker.network.handling.request import Request
from broker.purgatory.operation import DelayedOperation, Outcome

THROTTLE: Final = 1
"""A quota holds the connection."""

QUEUE_FULL: Final = 2
"""So many of its requests are in hand that no more are read, or one that nothing may overtake: a login."""

ENDED: Final = 4
"""The peer has said its last; what is in hand is answered, then the connection is closed. Ours."""


class PipelinedChannel(Channel):
    """Muted while any bit of `flags` is set. `hash` says which handler serves it: of the connection id, and
    the same in every run, which Python's own is not.
    """

    __slots__ = ("_holds", "_parked", "early", "flags", "hash", "in_flight")

    def __init__(self, *args: Any, connection_id: str, **named: Any) -> None:
        self.in_flight: deque[Request] = deque()
        self.early: set[Request] = set()
        self.flags = 0
        self.hash = crc32(connection_id.encode())
        self._holds = 0
        self._parked: list[DelayedOperation] = []
        super().__init__(*args, connection_id=connection_id, **named)

    @property
    def in_hand(self) -> int:
        return len(self.in_flight)

    @property
    def waiting(self) -> DelayedOperation | None:
        """What was parked last of what still waits: several requests may."""
        return self._parked[-1] if self._parked else None

    @waiting.setter
    def waiting(self, operation: DelayedOperation | None) -> None:
        self._parked = [each for each in self._parked if not each.settled]
        if operation is not None:
            self._parked.append(operation)

    def hold_back(self) -> None:
        self.flags |= QUEUE_FULL

    def abandon(self) -> None:
        self.in_flight.clear()
        self.early.clear()
        for operation in self._parked:
            operation.settle(Outcome.CANCELLED)
        self._parked.clear()

    def on(self, event: MuteEvent) -> MuteState:
        """A throttle begins or ends; several kinds of quota may hold a connection at once. Requests and
        responses are the responder's. Raises BrokerBug for an end without a beginning.
        """
        match event:
            case MuteEvent.THROTTLE_STARTED:
                self._holds += 1
                self.flags |= THROTTLE
            case MuteEvent.THROTTLE_ENDED if self._holds:
                self._holds -= 1
                if not self._holds:
                    self.flags &= ~THROTTLE
            case _:
                raise BrokerBug(f"a pipelined channel cannot see {event.name}")
        return self.settle_mute()

    def settle_mute(self) -> MuteState:
        """The state that the flags make, in Kafka's names."""
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
