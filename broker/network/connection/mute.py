"""When a connection may be read from, as a table. (Kafka: KafkaChannel.ChannelMuteState)

Called by `network.connection.channel` around every request and by the throttle reapers. Knows nothing of
sockets, tasks or clocks: the caller says what happened, the table says what follows.

A request mutes its own channel until it is answered, so a connection has one request in flight. The broker
answers first and throttles afterwards (KIP-219): a throttle begins while the response is still pending, and
the two end in either order.
"""

from enum import IntEnum
from typing import Final

from broker.errors import BrokerBug


class MuteState(IntEnum):
    """Why a channel is not being read, if it is not."""

    NOT_MUTED = 0
    MUTED = 1
    MUTED_AND_RESPONSE_PENDING = 2
    MUTED_AND_THROTTLED = 3
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4


class MuteEvent(IntEnum):
    """What can happen to a channel's mute state."""

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
    # A slow reader can outlast its own throttle.
    (_S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, _E.THROTTLE_ENDED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED, _E.THROTTLE_ENDED): _S.MUTED,
}

RESPONSE_PENDING: Final = frozenset(
    {_S.MUTED_AND_RESPONSE_PENDING, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING}
)
THROTTLED: Final = frozenset({_S.MUTED_AND_THROTTLED, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING})


def after(state: MuteState, event: MuteEvent) -> MuteState:
    """The state that `event` leads to. Raises BrokerBug where Kafka raises IllegalStateException."""
    try:
        return NEXT[state, event]
    except KeyError:
        raise BrokerBug(f"a channel that is {state.name} cannot see {event.name}") from None
