"""One client connection: its id, receive and send halves, and mute state. (Kafka: KafkaChannel,
ChannelMuteState, ServerConnectionId)

A request mutes its channel until the response is sent, so a connection has one request in flight. The broker
responds first and throttles afterwards (KIP-219): a throttle starts while the response is still pending, and
the two end in either order.

Owned by one processor; no other task touches the socket. Handlers and the console read its attributes.
Independent of epoll, tasks and request semantics.
"""

import os
import select
import socket
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import IntEnum
from fcntl import ioctl
from sys import byteorder
from termios import FIONREAD
from typing import Final, Protocol

from broker.common.errors import BrokerBug
from broker.common.principal import ANONYMOUS
from broker.network.connection.receive import Frame, Receive
from broker.network.connection.send import Send
from broker.network.connection.tls_socket import TlsReceive, TlsSocket
from broker.network.connection.transport import Transport
from broker.network.failures import FailedStep
from broker.purgatory.purgatory import DelayedOperation, OperationState
from broker.security.sasl import SaslLogin, SaslSession


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

MUTE_TABLE: Final = {
    (_S.MUTED, _E.REQUEST_RECEIVED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.RESPONSE_SENT): _S.MUTED,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.THROTTLE_STARTED): _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, _E.RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    # A client that reads slowly can outlast its own throttle.
    (_S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, _E.THROTTLE_ENDED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED, _E.THROTTLE_ENDED): _S.MUTED,
}


def _row(state: MuteState) -> tuple[MuteState | None, ...]:
    """Return a channel's state after each event. A channel is muted when it receives a request, and unmuted
    when nothing keeps it in MUTED.
    """
    before = _S.MUTED if state is _S.NOT_MUTED else state
    row = [MUTE_TABLE.get((before, event)) for event in _E]
    return tuple(_S.NOT_MUTED if after is _S.MUTED else after for after in row)


_AFTER: Final = tuple([_row(state) for state in _S])
"""The mute state of a channel by its state and the event; None for an event that is impossible."""

REQUEST_RECEIVED: Final = MuteEvent.REQUEST_RECEIVED
RESPONSE_SENT: Final = MuteEvent.RESPONSE_SENT
"""The events of every request: CPython 3.11 looks a member up by a Python function of its enumeration."""

RESPONSE_PENDING: Final = frozenset(
    {_S.MUTED_AND_RESPONSE_PENDING, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING}
)
THROTTLED: Final = frozenset({_S.MUTED_AND_THROTTLED, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING})


def mute_state_after(state: MuteState, event: MuteEvent) -> MuteState:
    """Return the state after `event`. Raises BrokerBug where Kafka raises IllegalStateException."""
    try:
        return MUTE_TABLE[state, event]
    except KeyError:
        raise BrokerBug(f"invalid mute event {event.name} in state {state.name}") from None


DISCARDED: Final = 1024 * 1024
DISCARDED_AT_ONCE: Final = 64 * 1024
"""Bytes of a peer that are read before its connection closes, and of one read; ours. The kernel may hold
6 MiB (net.ipv4.tcp_rmem) of each greedy producer, and a thousand of them must not hold up a stop.
"""

MAX_INDEX: Final = 0x7FFFFFFF
"""Int.MaxValue; the next index is 0."""


class ConnectionIds:
    """`next_index` is the index of the processor's next connection."""

    def __init__(self, processor_id: int) -> None:
        self._processor = processor_id
        self.next_index = 0

    def new(self, local: tuple[str, int], remote: tuple[str, int], in_use: Container[str]) -> str:
        """Return an id that is not `in_use`.

        After the index wraps around, an id can be in use by a connection that was reset but is not closed
        yet, since the kernel may reuse both its addresses. Kafka closes the new connection then.
        """
        ends = f"{local[0]}:{local[1]}-{remote[0]}:{remote[1]}-{self._processor}"
        while True:
            index, self.next_index = self.next_index, (self.next_index + 1) & MAX_INDEX
            connection_id = f"{ends}-{index}"
            if connection_id not in in_use:
                return connection_id


@dataclass(frozen=True, slots=True)
class NewConnection:
    """An accepted connection. `peer` is its address and port. `authenticated`: it needs neither a TLS
    handshake nor a login. `now_ms` is the time of the run's clock, `wall_ms` epoch time. `proxy` is the
    address of the balancer that named the peer, "" without one.
    """

    id: str
    listener: str
    peer: tuple[str, int]
    authenticated: bool
    now_ms: int
    wall_ms: int
    proxy: str = ""


class ChannelResponder(Protocol):
    """The responder of a channel's processor, as other modules use it; see `network.responder`."""

    def resume_reading(self, channel: "Channel") -> None:
        """Read again from a channel that waited for memory."""

    def end_throttling(self, channel: "Channel") -> None:
        """End a throttle."""

    def fail(self, channel: "Channel", place: FailedStep, error: Exception) -> None:
        """Report an unexpected exception and close only the connection that it concerns."""

    def check_drained(self) -> None:
        """Complete the drain if no connection is left."""


class Channel:
    """A registered connection. `fd` is its key in the selector, or -1 once closed. `tls` is the cipher suite
    and the TLS version after the handshake.
    """

    __slots__ = (
        "_waiting",
        "address",
        "authenticated",
        "by_token",
        "bytes_in",
        "bytes_out",
        "client_id",
        "counted_as",
        "fd",
        "id",
        "interest",
        "last_active_ms",
        "listener",
        "mute_state",
        "network_ns",
        "opened_wall_ms",
        "port",
        "principal",
        "prologue",
        "proxy",
        "read",
        "receive",
        "request_ns",
        "requests",
        "responder",
        "sasl_login",
        "sasl_mechanism",
        "send",
        "sends_raw_tokens",
        "session",
        "sock",
        "software_name",
        "software_version",
        "throttles",
        "tls",
        "topics_read",
        "topics_written",
        "unrecorded_ns",
        "withheld_since_ms",
    )

    def __init__(
        self,
        sock: socket.socket,
        responder: ChannelResponder,
        receive: Receive,
        connection: NewConnection,
    ) -> None:
        self.sock: Transport = sock
        self.responder = responder
        self.fd = sock.fileno()
        self.id = connection.id
        self.listener = connection.listener
        self.address, self.port = connection.peer
        self.proxy = connection.proxy
        self.receive: Receive | TlsReceive = receive
        self.read: Callable[[Transport], Frame | None] = receive.read
        self.send: Send | None = None
        self.interest = 0
        self.mute_state = MuteState.NOT_MUTED
        self.authenticated = connection.authenticated
        self.by_token = False
        self.principal = ANONYMOUS
        self.sasl_mechanism: str | None = None
        self.sasl_login: SaslLogin | None = None
        self.sends_raw_tokens = False
        self.session: SaslSession | None = None
        self.tls: tuple[str, str] | None = None
        self.client_id: str | None = None
        self.counted_as: str | None = None
        self.software_name = "unknown"
        self.software_version = "unknown"
        self.last_active_ms = connection.now_ms
        self.opened_wall_ms = connection.wall_ms
        self.prologue = 0
        self.requests = 0
        self.request_ns = 0
        self.network_ns = 0
        self.unrecorded_ns = 0
        self._waiting: DelayedOperation | None = None
        self.withheld_since_ms = 0
        self.topics_written: frozenset[str | bytes] = frozenset()
        self.topics_read: frozenset[str | bytes] = frozenset()
        self.bytes_in = 0
        self.bytes_out = 0
        self.throttles = 0

    def start_tls(self, tls: TlsSocket) -> None:
        """Send and receive through `tls`, which has taken over the socket."""
        assert isinstance(self.receive, Receive)
        self.sock = tls
        self.receive = TlsReceive(self.receive, tls)

    def read_with(self, read: Callable[[Transport], Frame | None]) -> None:
        """Call `read` in place of the receiving half until `read_frames`."""
        self.read = read

    def read_frames(self) -> None:
        """Let the receiving half read, as it does at first."""
        self.read = self.receive.read

    @property
    def closed(self) -> bool:
        return self.fd < 0

    @property
    def is_balancers(self) -> bool:
        """Whether it has a balancer's own address, to which no limit per address applies."""
        return self.proxy == self.address

    @property
    def has_ended(self) -> bool:
        """Whether the peer sends no more, and the connection waits only for its responses."""
        return False

    @property
    def requests_in_flight(self) -> int:
        """The number of requests received and not answered in full."""
        return int(self.mute_state in RESPONSE_PENDING)

    @property
    def waiting(self) -> DelayedOperation | None:
        """The delayed operation that the connection waits for. (A property here because it is one in a
        subclass: compiled code would read an attribute without looking at the subclass.)
        """
        return self._waiting

    @waiting.setter
    def waiting(self, operation: DelayedOperation | None) -> None:
        self._waiting = operation

    def read_no_further(self) -> None:
        """Stop reading until the next request is answered. Does nothing here: a channel never reads ahead."""

    def abandon(self) -> None:
        """Cancel the delayed operation of a closed connection."""
        if self.waiting is not None:
            self.waiting.settle(OperationState.CANCELLED)
            self.waiting = None

    def on(self, event: MuteEvent) -> MuteState:
        """Apply an event of the mute table. Raises BrokerBug for one that is impossible now."""
        state = _AFTER[self.mute_state][event]
        if state is None:
            return mute_state_after(self.mute_state, event)  # raises
        self.mute_state = state
        return state


def bytes_waiting(channel: Channel) -> int:
    """Return the number of the peer's bytes in the kernel, plus 1 if bytes were read that belong to no
    request yet, be it a part of a TLS record. Grows only while the channel is muted.
    """
    try:
        found = ioctl(channel.fd, FIONREAD, bytes(4))
    except OSError:
        found = bytes(4)
    sock = channel.sock
    is_held = channel.receive.has_buffered or (isinstance(sock, TlsSocket) and sock.is_within_record)
    return int.from_bytes(found, byteorder) + is_held


def has_arrivals(channel: Channel) -> bool:
    """Return whether the kernel holds unread bytes of the peer."""
    try:
        return bool(channel.sock.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def discard_arrivals(channel: Channel) -> None:
    """Read what the kernel holds of the peer's bytes, DISCARDED at most. The kernel resets a connection that
    is closed with unread bytes, and drops responses that the peer has not received yet.
    """
    left = DISCARDED
    try:
        while left > 0 and (count := len(os.read(channel.fd, DISCARDED_AT_ONCE))):
            left -= count
    except OSError:
        return


def peer_has_ended(channel: Channel) -> bool:
    """Return whether the peer has ended its stream, whatever of it is unread."""
    poll = select.poll()
    poll.register(channel.fd, select.POLLRDHUP)
    return bool(poll.poll(0))


END_OF_TLS: Final = 80
"""The most bytes of the record with which a peer ends TLS, in any cipher suite; ours."""


def has_left(channel: Channel) -> bool:
    """Return whether the peer has ended its stream and waits for nothing. What it has sent before is served
    when a throttle ends, but not after a request that waits for as long as its client likes.
    """
    if not peer_has_ended(channel):
        return False
    most = END_OF_TLS if isinstance(channel.sock, TlsSocket) else 0
    return channel.mute_state not in THROTTLED or bytes_waiting(channel) <= most


def has_ended(channel: Channel) -> bool:
    """Return whether the peer has ended its stream and all its bytes are read."""
    if channel.receive.has_buffered:
        return False
    try:
        return not channel.sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return False
