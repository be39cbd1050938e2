"""The mute state table of a channel. (Kafka: KafkaChannel.ChannelMuteState)

Used by `network.connection.channel` around every request and by the throttle reapers. Independent of sockets,
tasks and clocks.

A request mutes its channel until the response is sent, so a connection has one request in flight. The broker
responds first and throttles afterwards (KIP-219): a throttle starts while the response is still pending, and
the two end in either order.
"""

from enum import IntEnum
from typing import Final

from broker.errors import BrokerBug


class MuteState(IntEnum):
    """Whether a channel is read and, if not, why."""

    NOT_MUTED = 0
    MUTED = 1
    MUTED_AND_RESPONSE_PENDING = 2
    MUTED_AND_THROTTLED = 3
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4


class MuteEvent(IntEnum):
    """The events that change a channel's mute state."""

    REQUEST_RECEIVED = 0
    RESPONSE_SENT = 1
    THROTTLE_STARTED = 2
    THROTTLE_ENDED = 3


_S, _E = MuteState, MuteEvent

NEXT: Final = {
    (_S.MUTED, _E.REQUEST_RECEIVED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.RESPONSE_SENT): _S.MUTED,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.THROTTLE_STARTED): _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, _E.RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    # A client that reads slowly can outlast its own throttle.
    (_S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, _E.THROTTLE_ENDED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED, _E.THROTTLE_ENDED): _S.MUTED,
}

RESPONSE_PENDING: Final = frozenset(
    {_S.MUTED_AND_RESPONSE_PENDING, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING}
)
THROTTLED: Final = frozenset({_S.MUTED_AND_THROTTLED, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING})


def after(state: MuteState, event: MuteEvent) -> MuteState:
    """Return the state after `event`. Raises BrokerBug where Kafka raises IllegalStateException."""
    try:
        return NEXT[state, event]
    except KeyError:
        raise BrokerBug(f"invalid mute event {event.name} in state {state.name}") from None
