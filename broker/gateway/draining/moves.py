"""Clients of a gateway that is drained learn the new addresses when nothing that they have produced is in
flight.

librdkafka closes each connection whose node has another address in Metadata, whatever is in flight, and sends
that again: of a producer without idempotence the log then has it twice. franz-go and others do the same. So a
Metadata request waits here until its client is quiet:

1. The connection that asks is read no further, and so are those on which the same client produces.
2. When all its Produces are answered, it has SETTLES_S to read the answers. Then the request is forwarded.
3. The client closes its connections. What it has sent on them meanwhile was not forwarded, and it sends that
   to the new addresses. Connections that it keeps, as Java's client does, are read on after LEAVES_S.

The same client: the same address, principal and client id. A client that has kept its connections once does
not wait again. Produces without acks are not repeated, and never wait.

`drain` creates it, `client_receive` asks it.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import trio

from broker.gateway.channel import HELD, GatewayChannel
from broker.gateway.routes import Treatment
from broker.network.connection.channel import MuteState, peer_has_ended
from broker.network.supervisor import TaskStarter

ANSWERED_WITHIN_S: Final = 2.0
"""How long Metadata waits for the answers to Produces, at most; ours. acks=all takes milliseconds, unless a
replica is slow.
"""

SETTLES_S: Final = 0.05
"""How long a client has to read them; ours. Its threads may have to wait for a processor."""

LEAVES_S: Final = 0.25
"""How long a client has to read the addresses and to close its connections; ours. librdkafka needs a round
trip and a few milliseconds.
"""

MOST_HELD: Final = 64
"""Connections of a client, with more of which it does not wait; ours. These are many clients with one client
id behind one address, each of which would stop all the others.
"""

MOVED: Final = "its client has moved to another gateway"

Client = tuple[str, str, str | None]
"""Address, principal and client id."""


class _Move:
    """One client that has asked for Metadata. `askers` wait for it, `held` are all connections that are not
    read. `changed` is set when a request of it has been sent whole or answered, and when a connection closes.
    """

    def __init__(self) -> None:
        self.askers: dict[GatewayChannel, None] = {}
        self.held: dict[GatewayChannel, None] = {}
        self.changed = trio.Event()
        self.has_forwarded = False


class Moves:
    """`channels` are the present connections. Tasks of `tasks` move the clients; those that are cancelled
    read on from their connections.
    """

    def __init__(self, channels: Iterable[GatewayChannel], tasks: TaskStarter) -> None:
        self._tasks = tasks
        self._moves: dict[Client, _Move] = {}
        self._stay: set[Client] = set()
        self._producing: dict[Client, dict[GatewayChannel, None]] = defaultdict(dict)
        for channel in channels:
            if channel.client.produces:
                self._producing[_client(channel)][channel] = None

    def may_produce(self, channel: GatewayChannel) -> bool:
        """Return whether to forward the first Produce of a connection that is answered. If not, the
        connection is read on later.
        """
        client = _client(channel)
        self._producing[client][channel] = None
        move = self._moves.get(client)
        if move is not None:
            _hold(move, channel)
        return move is None

    def may_ask(self, channel: GatewayChannel) -> bool:
        """Return whether to forward a Metadata request now. If not, the connection is read on later; nor is
        one whose client moves read on before that has ended.
        """
        client = _client(channel)
        move = self._moves.get(client)
        if move is None:
            if client in self._stay or client not in self._producing:
                return True
            if len(self._open(client)) > MOST_HELD:
                return True
            move = self._moves[client] = _Move()
            self._tasks.start_soon(self._run, client, move, name="gateway-drain-move")
        move.askers[channel] = None
        _hold(move, channel)
        return move.has_forwarded

    def changed(self, channel: GatewayChannel) -> None:
        """Look again at a client: one of its connections has closed, or sent or answered a request."""
        move = self._moves.get(_client(channel))
        if move is not None:
            move.changed.set()

    def _open(self, client: Client) -> dict[GatewayChannel, None]:
        """Return the open connections on which a client produces."""
        known = self._producing[client]
        for channel in [each for each in known if each.closed]:
            del known[channel]
        return known

    async def _run(self, client: Client, move: _Move) -> None:
        try:
            with trio.move_on_after(ANSWERED_WITHIN_S):
                while not self._is_quiet(client, move):
                    move.changed = trio.Event()
                    await move.changed.wait()
            if self._open(client):
                await trio.sleep(SETTLES_S)
            move.has_forwarded = True
            for channel in move.askers:
                _read_on(channel)
            await trio.sleep(LEAVES_S)
            # A bootstrap connection has no address that changes.
            if any(each.node_id is not None and not _has_left(each) for each in move.askers):
                self._stay.add(client)
        finally:
            del self._moves[client]
            for channel in move.held:
                if move.has_forwarded and _has_left(channel):
                    # What it has sent is on its way to the new address, too.
                    channel.client.leave(MOVED)
                else:
                    _read_on(channel)

    def _is_quiet(self, client: Client, move: _Move) -> bool:
        """Read no further from the client's connections, and return whether no Produce is in flight on
        them.
        """
        is_quiet = True
        for channel in self._open(client):
            if channel.client.is_within_request:
                is_quiet = False
                continue
            _hold(move, channel)
            if channel.send is not None or any(
                each.route.treatment is Treatment.PRODUCE for each in channel.in_flight
            ):
                is_quiet = False
        return is_quiet


def _client(channel: GatewayChannel) -> Client:
    return channel.address, channel.principal, channel.client_id


def _hold(move: _Move, channel: GatewayChannel) -> None:
    move.held[channel] = None
    channel.set_flag(HELD)


def _read_on(channel: GatewayChannel) -> None:
    if not channel.closed and channel.clear_flag(HELD) is MuteState.NOT_MUTED:
        channel.client.resume()


def _has_left(channel: GatewayChannel) -> bool:
    return channel.closed or peer_has_ended(channel)
