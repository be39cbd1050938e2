"""A client's connection at the gateway: its forwarded requests in flight, and why it is not read.

Independent of sockets. `client_receive` adds requests, `upstream_receive` removes them; the mute state
follows from the flags, as in AutoMQ's mode.
"""

import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from broker.common.errors import BrokerBug
from broker.config.listeners import Address
from broker.gateway.credentials import SaslObserver
from broker.gateway.routes import ForwardedRequest, Treatment
from broker.network.connection.channel import Channel, ChannelResponder, MuteEvent, MuteState, NewConnection
from broker.network.connection.receive import Receive
from broker.quotas.client_quotas import ClientQuotas, NodeQuotas
from broker.security.client_login import ClientCredentials

THROTTLED: Final = 1
"""A quota throttles the connection."""

QUEUE_FULL: Final = 2
"""gateway.max.in.flight.requests.per.connection requests wait for their responses."""

CONNECTING: Final = 4
"""Its upstream connection is not open yet."""

BLOCKED: Final = 8
"""The upstream broker does not take what was read."""

LOCAL_DUE: Final = 16
"""The next request is answered here, after the responses of all requests before it."""

LOCAL: Final = 32
"""A request is being answered here."""

ENDED: Final = 64
"""The peer sends no more; requests in flight are answered, then the connection closes."""

RENEWAL_DUE: Final = 128
"""The gateway logs in upstream again after the responses in flight."""

RENEWING: Final = 256
"""The gateway is logging in upstream again."""


DRAINING: Final = 512
"""The gateway stops: requests in flight are answered, then the connection closes. It mutes nothing: the
processor knows what it still reads.
"""


ChannelQuotas = ClientQuotas | NodeQuotas
"""The quotas that the requests of a connection are charged to."""


class Upstream(Protocol):
    """An upstream connection as a client's requests use it; see `upstream_receive`."""

    fd: int
    is_plain: bool
    is_blocked: bool
    credentials: ClientCredentials | None
    observe: Callable[[ForwardedRequest, memoryview, int], None]

    def send(self, data: memoryview) -> bool:
        """Send `data`. Returns False, and mutes the client, if it does not all fit now. Raises OSError."""

    def block(self) -> None:
        """Mute the client until the upstream broker takes more."""

    @property
    def is_within_response(self) -> bool:
        """Whether the beginning of a response has arrived, and not its end."""

    def check_turn(self) -> None:
        """Go on with what waits for the responses in flight, if there are none."""

    def close(self) -> None: ...


class ClientSide(Protocol):
    """A client's receiving half, as `upstream_receive` and the processor use it; see `client_receive`."""

    @property
    def upstream(self) -> Upstream | None:
        """The upstream connection while it is open."""

    @property
    def is_within_request(self) -> bool:
        """Whether the beginning of a request has been forwarded, and not its end."""

    def connected(self, upstream: "Upstream") -> None:
        """Forward to this upstream connection, and close it with the client's."""

    def unblocked(self) -> bool:
        """Continue after the upstream broker has taken what it was sent."""

    def renew(self) -> None:
        """Let the gateway log in upstream again before the next request."""

    def renewed(self) -> None:
        """Send what was held back for the login."""

    def reconsider(self) -> None:
        """Look again through the topics of requests: the ids of the gateways' topics have changed."""

    def ask(self, request: ForwardedRequest, frame: bytes) -> None:
        """Send the request of a handler; opens the upstream connection if there is none."""


class GatewayChannel(Channel):
    """Muted while any bit of `flags` is set. `node_id` is the upstream node that the client connected to;
    None on a bootstrap port. `upstream_address` is where it is forwarded to, None before. `login` observes
    logins that the upstream broker decides. `quotas` are those that its requests are charged to: with
    quota.scope=broker those of its upstream node; see `node_scope`.
    """

    __slots__ = (
        "_throttles",
        "client",
        "flags",
        "in_flight",
        "login",
        "node_id",
        "quotas",
        "upstream_address",
    )

    client: ClientSide
    quotas: ChannelQuotas

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.in_flight: deque[ForwardedRequest] = deque()
        self.flags = 0
        self.node_id: int | None = None
        self.upstream_address: Address | None = None
        self.login: SaslObserver | None = None
        self._throttles = 0
        super().__init__(sock, responder, receive, connection)

    @property
    def has_ended(self) -> bool:
        return bool(self.flags & ENDED)

    @property
    def requests_in_flight(self) -> int:
        # While a request is answered here, only what its handler asks upstream is in flight. A request leaves
        # `in_flight` before the client has taken all of its response.
        return 1 if self.flags & LOCAL else len(self.in_flight) or int(self.send is not None)

    @property
    def only_polls(self) -> bool:
        """Whether its requests in flight are Fetches, and no byte of a response to them has arrived."""
        upstream = self.client.upstream
        return (
            self.send is None
            and not self.flags & LOCAL
            and upstream is not None
            and not upstream.is_within_response
            and all(request.route.treatment is Treatment.FETCH for request in self.in_flight)
        )

    def set_flag(self, flag: int) -> None:
        self.flags |= flag
        self.settle_mute()

    def on(self, event: MuteEvent) -> MuteState:
        """Apply a request that is answered here, its response, or the start or end of a throttle; several
        kinds of quota may throttle a connection at once. Raises BrokerBug for an end without a start.
        """
        match event:
            case MuteEvent.REQUEST_RECEIVED:
                self.flags |= LOCAL
            case MuteEvent.RESPONSE_SENT:
                self.flags &= ~LOCAL
            case MuteEvent.THROTTLE_STARTED:
                self._throttles += 1
                self.flags |= THROTTLED
            case MuteEvent.THROTTLE_ENDED if self._throttles:
                self._throttles -= 1
                if not self._throttles:
                    self.flags &= ~THROTTLED
            case _:
                raise BrokerBug(f"invalid mute event {event.name} for a connection of the gateway")
        return self.settle_mute()

    def settle_mute(self) -> MuteState:
        """Set and return the mute state that the flags imply, in Kafka's names."""
        flags = self.flags & ~DRAINING
        if not flags:
            state = MuteState.NOT_MUTED
        elif not flags & THROTTLED:
            state = MuteState.MUTED_AND_RESPONSE_PENDING if flags & LOCAL else MuteState.MUTED
        elif self.requests_in_flight:
            state = MuteState.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
        else:
            state = MuteState.MUTED_AND_THROTTLED
        self.mute_state = state
        return state
