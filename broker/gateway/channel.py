"""A client's connection at the gateway: its forwarded requests in flight, and why it is not read.

Independent of sockets. `client_receive` adds requests, `upstream_receive` removes them; the mute state
follows from the flags; two of them stand for states.
"""

import socket
from collections import deque
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from broker.config.listeners import Address
from broker.gateway.client_racks import ClientRacks, Rack
from broker.gateway.routes import ForwardedRequest, Treatment
from broker.network.connection.channel import ChannelResponder, MuteEvent, MuteState, NewConnection
from broker.network.connection.read_ahead_channel import ENDED, THROTTLED, ReadAheadChannel
from broker.network.connection.receive import Receive
from broker.network.connection.tls_socket import TlsSocket
from broker.quotas.client_quotas import ClientQuotas, NodeQuotas

if TYPE_CHECKING:
    from broker.gateway.client_receive import ClientReceive
    from broker.gateway.logins import SaslObserver

BLOCKED: Final = 8
"""The upstream broker does not take what was read."""

LOCAL: Final = 16
"""The state of a request that is answered here is another than NONE."""

UPSTREAM: Final = 32
"""The state of the upstream connection is another than READY."""

DRAINING: Final = 64
"""The gateway stops, or it is this connection's turn in a drain: requests in flight are answered, then the
connection closes. It mutes nothing: the processor knows what it still reads.
"""

LAST: Final = 128
"""In a drain, no more requests are read; those in flight are answered."""

HELD: Final = 256
"""In a drain, no more requests are read while the client is about to move; see `draining.moves`."""


class LocalRequest(IntEnum):
    """A request that is answered here."""

    NONE = 0
    DUE = 1
    """It waits for the responses of all requests before it."""
    IN_HAND = 2
    """It is being answered."""


class UpstreamState(IntEnum):
    """Whether requests can be forwarded now. A client without an upstream connection is READY for one."""

    READY = 0
    CONNECTING = 1
    """The connection is not open yet."""
    RENEWAL_DUE = 2
    """The gateway logs in again after the responses in flight."""
    RENEWING = 3
    """The gateway is logging in again."""


ChannelQuotas = ClientQuotas | NodeQuotas
"""The quotas that the requests of a connection are charged to."""


class GatewayChannel(ReadAheadChannel):
    """Muted while any bit of `flags` but DRAINING is set. `node_id` is the upstream node that the client
    connected to; None on a bootstrap port. `upstream_address` is where it is forwarded to, None before.
    `login` observes logins that the upstream broker decides. `quotas` are those that its requests are charged
    to: with quota.scope=broker those of its upstream node; see `node_scope`. `rack` is that of the client's
    address, one of `racks`; see `know_software`.
    """

    __slots__ = (
        "client",
        "in_flight",
        "local_request",
        "login",
        "node_id",
        "quotas",
        "rack",
        "racks",
        "upstream_address",
        "upstream_state",
    )

    client: "ClientReceive"
    quotas: ChannelQuotas
    racks: ClientRacks

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.in_flight: deque[ForwardedRequest] = deque()
        self.local_request = LocalRequest.NONE
        self.upstream_state = UpstreamState.READY
        self.node_id: int | None = None
        self.rack: Rack | None = None
        self.upstream_address: Address | None = None
        self.login: SaslObserver | None = None
        super().__init__(sock, responder, receive, connection)

    @property
    def server_name(self) -> str | None:
        """The host name in the client's TLS handshake, if it has one."""
        return self.sock.server_name if isinstance(self.sock, TlsSocket) else None

    def know_software(self, name: str, version: str) -> None:
        """Note what the client says about itself, by which its requests name the rack of its address."""
        self.software_name, self.software_version = name, version
        if self.rack is not None:
            self.client.rack = self.rack if self.racks.suit(name, version) else None

    @property
    def has_ended(self) -> bool:
        return bool(self.flags & ENDED)

    @property
    def requests_in_flight(self) -> int:
        # While a request is answered here, only what its handler asks upstream is in flight. A request leaves
        # `in_flight` before the client has taken all of its response.
        return (
            1
            if self.local_request is LocalRequest.IN_HAND
            else len(self.in_flight) or int(self.send is not None)
        )

    @property
    def is_logging_in(self) -> bool:
        """Whether the upstream connection is being opened, or the gateway logs in on it again."""
        return self.upstream_state in (UpstreamState.CONNECTING, UpstreamState.RENEWING)

    @property
    def only_polls(self) -> bool:
        """Whether its requests in flight are Fetches, and no byte of a response to them has arrived."""
        upstream = self.client.upstream
        return (
            self.send is None
            and self.local_request is not LocalRequest.IN_HAND
            and upstream is not None
            and not upstream.is_within_response
            and all(request.route.treatment is Treatment.FETCH for request in self.in_flight)
        )

    def set_local(self, state: LocalRequest) -> None:
        self.local_request = state
        is_due = state is not LocalRequest.NONE
        self.flags = self.flags | LOCAL if is_due else self.flags & ~LOCAL
        self.settle_mute()

    def set_upstream(self, state: UpstreamState) -> MuteState:
        """Change the state of the upstream connection and return the mute state."""
        self.upstream_state = state
        is_ready = state is UpstreamState.READY
        self.flags = self.flags & ~UPSTREAM if is_ready else self.flags | UPSTREAM
        return self.settle_mute()

    def on(self, event: MuteEvent) -> MuteState:
        """Apply a request that is answered here, its response, or the start or end of a throttle."""
        match event:
            case MuteEvent.REQUEST_RECEIVED:
                self.set_local(LocalRequest.IN_HAND)
            case MuteEvent.RESPONSE_SENT:
                self.set_local(LocalRequest.NONE)
            case _:
                return super().on(event)
        return self.mute_state

    def settle_mute(self) -> MuteState:
        """Set and return the mute state that the flags imply, in Kafka's names."""
        if self.local_request is LocalRequest.IN_HAND and not self.flags & THROTTLED:
            self.mute_state = MuteState.MUTED_AND_RESPONSE_PENDING
        elif self.flags == DRAINING:
            self.mute_state = MuteState.NOT_MUTED
        else:
            super().settle_mute()
        return self.mute_state
