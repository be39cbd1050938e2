"""Asks one upstream node for the cluster's nodes, again and again, over a connection of its own.

`cluster` runs one for each node. So it knows which nodes answer, how fast, and what each of them says.
"""

from collections.abc import Callable
from typing import Final, Protocol

import trio

from broker.common.clock import Clock
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.conditions import Condition, UpstreamState, condition_of, log_node, next_state
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.pace import Alarm, ReconnectBackoff
from broker.gateway.upstream.view import ClusterView, UpstreamNode, ask

LEAST_S: Final = 0.05
"""The shortest time between two requests of a watch after an answer."""


class WatchedCluster(Protocol):
    """The cluster as a watch uses it."""

    def connect(
        self, address: Address, on_close: Callable[[UpstreamConnection], None] | None
    ) -> UpstreamConnection:
        """Start a connection."""

    def check(self, address: Address, view: ClusterView) -> None:
        """Raise UpstreamError CLUSTER if the answer of this address is another cluster's."""

    def reported(self, watch: "NodeWatch", previous: ClusterView | None) -> None:
        """Take notice of a watch's new `view` and `state`. `previous` was its view before."""


class NodeWatch:
    """`view` is the node's last answer, or None while the condition is not CONNECTED."""

    def __init__(
        self,
        node: UpstreamNode,
        state: UpstreamState,
        config: UpstreamConfig,
        clock: Clock,
        cluster: WatchedCluster,
    ) -> None:
        self.node = node
        self.state = state
        self.view: ClusterView | None = None
        self._clock = clock
        self._cluster = cluster
        self._period_s = config.metadata_max_age_ms / 1_000
        self._backoff = ReconnectBackoff(config)
        self._alarm = Alarm()
        self._scope = trio.CancelScope()
        self._connection: UpstreamConnection | None = None
        self._is_login_old = False
        self._logged_in_at = float("-inf")

    @property
    def is_connected(self) -> bool:
        return self.state.condition is Condition.CONNECTED

    def refresh(self) -> None:
        """Ask at once, unless the node fails: its retries follow their backoff."""
        self._alarm.ring()

    def doubt_login(self) -> None:
        """Ask over a new connection, since the node has not accepted a login on another one. Does so once in
        `upstream.metadata.max.age.ms` at most: thousands of clients can ask for it.
        """
        if self.is_connected and trio.current_time() >= self._logged_in_at + self._period_s:
            self.renew_login()

    def renew_login(self) -> None:
        """Ask over a new connection: at once, or after the present request or pause."""
        self._is_login_old = True
        self._alarm.ring()

    def stop(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        """Ask until `stop`. Closes the connection."""
        try:
            with self._scope:
                while True:
                    self._alarm.reset()
                    try:
                        view, latency_ms = await self._ask()
                    except UpstreamError as error:
                        self._failed(error)
                        await trio.sleep(self._backoff.after_s(error))
                    else:
                        self._backoff.reset()
                        self._answered(view, latency_ms)
                        await self._alarm.sleep(min(LEAST_S, self._period_s), self._period_s)
        finally:
            if self._connection is not None:
                self._connection.close()

    async def _ask(self) -> tuple[ClusterView, float]:
        """Ask over the open connection, or a new one if the node has closed that, as it does with
        connections that are idle for long, or if its login is to be renewed.
        """
        connection = self._connection
        if connection is not None and connection.is_usable and not self._is_login_old:
            try:
                return await self._ask_over(connection)
            except UpstreamError as error:
                if error.reason is not Reason.CLOSED:
                    raise
        if connection is not None:
            connection.retire()
        self._is_login_old = False
        self._logged_in_at = trio.current_time()
        self._connection = connection = self._cluster.connect(self.node.address, self._closed)
        return await self._ask_over(connection)

    async def _ask_over(self, connection: UpstreamConnection) -> tuple[ClusterView, float]:
        await connection.wait_open()
        began_ns = self._clock.ns()
        view = await ask(connection)
        self._cluster.check(self.node.address, view)
        return view, (self._clock.ns() - began_ns) / 1e6

    def _closed(self, connection: UpstreamConnection) -> None:
        """Find out at once why the node has closed the connection."""
        if connection is self._connection:
            self._alarm.ring()

    def _answered(self, view: ClusterView, latency_ms: float) -> None:
        previous, self.view = self.view, view
        self._enter(Condition.CONNECTED, "", latency_ms)
        self._cluster.reported(self, previous)

    def _failed(self, error: UpstreamError) -> None:
        previous, self.view = self.view, None
        condition = condition_of(error)
        if self.state.condition is Condition.OTHER_CLUSTER:
            # The broker that comes back at this address must prove first which cluster it belongs to.
            condition = Condition.OTHER_CLUSTER
        self._enter(condition, str(error))
        self._cluster.reported(self, previous)

    def _enter(self, condition: Condition, error: str, latency_ms: float | None = None) -> None:
        old = self.state
        self.state = next_state(old, condition, self._clock.wall_ms(), error=error, latency_ms=latency_ms)
        log_node(old, self.state, self.node.node_id, self.node.address)
