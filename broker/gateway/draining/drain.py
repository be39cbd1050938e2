"""A gateway that leaves: its ports close, its answers name the other gateways, and its connections end one
after the other.

The ports of nodes that have another address there stay open until the end: a client whose connection has
ended may ask this gateway once more, and learns the new addresses. Without them a group member of franz-go
finds no address that accepts a connection, and its application sees it join again.

Built by `server.gateway`, whose tree runs it; begun by a stop, by the console and by the REST API. It ends no
process: after a stop the server goes on with that, and otherwise the gateway stays, without clients, until it
is stopped. Without another gateway there is nothing to wait for, and all connections end at once.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from broker.controller.rows.upstream import DrainRow, DrainState
from broker.gateway.channel import GatewayChannel
from broker.gateway.draining.elsewhere import Elsewhere
from broker.gateway.draining.moves import Moves
from broker.gateway.draining.pacing import Pacing
from broker.gateway.node_ports import NodePorts
from broker.gateway.processor import GatewayProcessor, GatewayResponder
from broker.gateway.sharing.summary import ListenerNodes
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.socket_server import SocketServer
from broker.quotas.throttled import Throttle

logger = logging.getLogger(__name__)

READS_ON_MS: Final = 500
"""How long a connection whose turn has come is still read if something of it is in flight whenever it is
answered; ours. A producer without retries would lose what it has sent.
"""

COMES_BACK_MS: Final = 5_000
PART_OF_TIMEOUT: Final = 4
"""How long the ports of nodes stay open after the last turn, and which part of the timeout at most; ours.
Clients connect again within a second and ask for metadata; franz-go five seconds after the answer before.
"""

LOOKS_EVERY_S: Final = 1.0
"""How often the addresses of the other gateways are looked up, as often as these report; ours."""

LOOKS: Final = 3
"""Further looks for gateways that are expected; ours."""

SHORTEST_PAUSE_S: Final = 0.01
"""Between two turns; ours. Above 100 connections a second, several end in one."""


class Drain:
    """`gateway` is the gateway's id. `nodes` returns the addresses for clients of each listener, `node_ids`
    the present nodes, `timeout_ms` gateway.drain.timeout.ms. `expects_others` says whether gateways are there
    whose addresses are not known yet. `finish` answers what is in progress, within shutdown.drain.timeout.ms.
    A `ConnectionObserver`.
    """

    def __init__(
        self,
        gateway: str,
        clock: TrioClock,
        server: SocketServer,
        node_ports: NodePorts,
        elsewhere: Elsewhere,
        nodes: Callable[[], Sequence[ListenerNodes]],
        node_ids: Callable[[], Sequence[int]],
        expects_others: Callable[[], bool],
        timeout_ms: int,
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        self.gateway = gateway
        self.state = DrainState.SERVING
        self.finished = trio.Event()
        self._clock = clock
        self._server = server
        self._node_ports = node_ports
        self._elsewhere = elsewhere
        self._nodes = nodes
        self._node_ids = node_ids
        self._expects_others = expects_others
        self._timeout_ms = timeout_ms
        self._finish = finish
        self._begun = trio.Event()
        self._begun_ms = self._ended_ms = 0
        self._at_first = 0
        self._changed = trio.Event()
        self._pacing: Pacing[GatewayChannel] | None = None
        self._moves: Moves | None = None

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin. Does nothing the second time."""
        if self.has_begun:
            return
        self._begun.set()
        self.state = DrainState.DRAINING
        self._begun_ms = self._clock.ms()
        self._at_first = self._left
        logger.info("the gateway drains", extra={"connections": self._at_first})

    def row(self) -> DrainRow:
        """Return the state for the console."""
        since_ms = self._clock.wall_ms() - self._clock.ms()
        ends_ms = self._ended_ms or self._begun_ms + self._timeout_ms
        return DrainRow(
            self.state,
            self._left if self.has_begun else 0,
            self._at_first,
            self._elsewhere.addresses if self.has_begun else (),
            self._begun_ms + since_ms if self.has_begun else None,
            ends_ms + since_ms if self.has_begun else None,
        )

    async def run(self) -> None:
        """Wait for the beginning, then drain. If cancelled, leaves the remaining connections open."""
        await self._begun.wait()
        server = self._server
        server.close_ports()
        await self._find()
        if self._elsewhere.is_known:
            self._node_ports.lead_away(self._elsewhere.address)
            server.observers.append(self)
            try:
                with trio.move_on_at(self._time_of(self._begun_ms + self._timeout_ms)):
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._follow, nursery.cancel_scope)
                        self._move(Moves(self._channels(), nursery))
                        await self._end_in_turn()
                        nursery.cancel_scope.cancel()
            finally:
                self._move(None)
                server.observers.remove(self)
                self._pacing = None
        self._node_ports.close()
        await self._finish()
        for channel in list(server.channels()):
            assert isinstance(channel.responder, GatewayResponder)
            channel.responder.close_unanswered(channel)
        self.state = DrainState.DRAINED
        self._ended_ms = self._clock.ms()
        logger.info("the gateway has no connections any more", extra={"ms": self._ended_ms - self._begun_ms})
        self.finished.set()

    def _move(self, moves: Moves | None) -> None:
        """Let `moves` say when clients may have Metadata; with None, always."""
        self._moves = moves
        for each in self._server.processors():
            assert isinstance(each, GatewayProcessor)
            each.move(moves)

    def _channels(self) -> list[GatewayChannel]:
        return [each for each in self._server.channels() if isinstance(each, GatewayChannel)]

    @property
    def _left(self) -> int:
        return sum(len(each.selector.channels) for each in self._server.processors())

    def _time_of(self, ms: int) -> float:
        """Return a time of the run's clock as one of Trio's."""
        return trio.current_time() + (ms - self._clock.ms()) / 1_000

    async def _find(self) -> None:
        """Find the addresses of the other gateways, which may have started just now."""
        await self._look()
        for _ in range(LOOKS):
            if self._elsewhere.is_known or not self._expects_others():
                return
            await trio.sleep(LOOKS_EVERY_S)
            await self._look()

    async def _look(self) -> bool:
        return await self._elsewhere.look(self._nodes(), self._node_ids())

    async def _follow(self, scope: trio.CancelScope) -> None:
        """Follow the other gateways; cancel `scope` when none is left."""
        while True:
            await trio.sleep(LOOKS_EVERY_S)
            if await self._look():
                self._node_ports.update()
            if not self._elsewhere.is_known:
                logger.warning("no other gateway is left for the clients of this one")
                scope.cancel()

    async def _end_in_turn(self) -> None:
        """End each connection when its turn has come. Returns when none is left and no client comes back."""
        channels = sorted(self._channels(), key=lambda each: each.last_active_ms)
        # From now on, and not from the beginning: the search for the other gateways may have taken seconds,
        # whose turns would come all at once.
        now_ms = self._clock.ms()
        left_ms = max(self._begun_ms + self._timeout_ms - now_ms, 0)
        stays_ms = min(COMES_BACK_MS, left_ms // PART_OF_TIMEOUT) if self._node_ports.lead_somewhere else 0
        pacing = self._pacing = Pacing(
            channels,
            now_ms,
            left_ms - stays_ms,
            stays_ms,
            is_idle=_is_idle,
            is_closed=lambda channel: channel.fd < 0,
        )
        ending: deque[tuple[int, GatewayChannel]] = deque()
        stays_until_ms = now_ms
        while True:
            for channel in pacing.take(now_ms):
                stays_until_ms = now_ms + stays_ms
                _responder(channel).end_between_requests(channel)
                if channel.fd >= 0:
                    ending.append((now_ms + READS_ON_MS, channel))
            while ending and ending[0][0] <= now_ms:
                _, channel = ending.popleft()
                if not _responder(channel).read_no_more(channel):
                    ending.append((now_ms + READS_ON_MS, channel))
            if self._left:
                await self._wait(pacing.next_ms(), ending[0][0] if ending else None)
            elif now_ms < stays_until_ms:
                await self._wait(stays_until_ms)
            else:
                return
            now_ms = self._clock.ms()

    async def _wait(self, *times_ms: int | None) -> None:
        """Wait until the first of these times, until a connection comes, or until none is left."""
        due_ms = min((each for each in times_ms if each is not None), default=None)
        self._changed = trio.Event()
        if due_ms is None:
            await self._changed.wait()
            return
        with trio.move_on_at(max(self._time_of(due_ms), trio.current_time() + SHORTEST_PAUSE_S)):
            await self._changed.wait()

    # The observer of connections, while they end in turn

    def opened(self, channel: Channel) -> None:
        """Give a turn to a connection of a client that comes back."""
        if self._pacing is not None and isinstance(channel, GatewayChannel):
            self._pacing.add(channel)
            self._changed.set()

    def closed(self, channel: Channel, reason: str) -> None:
        if isinstance(channel, GatewayChannel):
            if self._pacing is not None:
                self._pacing.remove(channel)
            if self._moves is not None:
                self._moves.changed(channel)
        if not self._left:
            self._changed.set()

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        pass

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        pass

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        pass


def _responder(channel: GatewayChannel) -> GatewayResponder:
    assert isinstance(channel.responder, GatewayResponder)
    return channel.responder


def _is_idle(channel: GatewayChannel) -> bool:
    """Whether nothing of it is in flight, it has logged in, and nothing mutes it."""
    return channel.authenticated and not channel.flags and not channel.requests_in_flight
