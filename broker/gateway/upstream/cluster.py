"""The nodes of the upstream cluster, kept fresh. (Kafka: Metadata, AdminMetadataManager)

Every node is asked for the list of nodes. Where answers differ, as they do for a moment after each change and
for long if a node is cut off from its controllers, the one that most nodes give counts. If no node answers,
the bootstrap servers are asked.

A cluster with another id than the expected one changes nothing here.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import trio

from broker.common.clock import Clock
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.conditions import (
    Condition,
    UpstreamState,
    condition_of,
    log_cluster,
    next_state,
)
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.node_watch import NodeWatch
from broker.gateway.upstream.pace import Alarm, ReconnectBackoff
from broker.gateway.upstream.security import UpstreamSecurity
from broker.gateway.upstream.view import ClusterView, UpstreamNode, ask

logger = logging.getLogger(__name__)

_SEVERITY: Final = (Condition.OTHER_CLUSTER, Condition.CREDENTIALS, Condition.TLS, Condition.UNREACHABLE)


class UpstreamCluster:
    """`expected_id` is the id that an earlier start found, or None; `upstream.cluster.id` wins over it. If
    neither is set, the first id found counts, and `on_cluster_id` is called with it.

    `cluster_id` is the id of the cluster that answered, None before, `expected_id` the only one that may.
    `nodes` has the nodes by id, in order, and is replaced as a whole. `controller_id` is -1 before the first
    answer; in a KRaft cluster it is any broker. `state` is the cluster's, `node_states` the nodes'.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        security: UpstreamSecurity,
        clock: Clock,
        *,
        expected_id: str | None = None,
        on_cluster_id: Callable[[str], None] | None = None,
    ) -> None:
        self.cluster_id: str | None = None
        self.nodes: Mapping[int, UpstreamNode] = MappingProxyType({})
        self.controller_id = -1
        self.state = UpstreamState(Condition.CONNECTING, clock.wall_ms())
        self._config = config
        self._security = security
        self._clock = clock
        self.expected_id: str | None = config.cluster_id or expected_id
        self._on_cluster_id = on_cluster_id
        self._listeners: list[Callable[[], None]] = []
        self._watches: dict[int, NodeWatch] = {}
        self._nursery: trio.Nursery | None = None
        self._alarm = Alarm()
        self.found = trio.Event()
        """Set once the expected cluster has answered."""
        self._turn = 0

    @property
    def is_refused(self) -> bool:
        """Whether the cluster behind the addresses is another one; `state.error` says which. It stays refused
        until the expected one answers.
        """
        return self.state.condition is Condition.OTHER_CLUSTER

    @property
    def node_states(self) -> Mapping[int, UpstreamState]:
        return {node_id: watch.state for node_id, watch in self._watches.items()}

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after nodes have appeared, left or moved, and `nodes` has them."""
        self._listeners.append(listener)

    def refresh(self) -> None:
        """Ask the nodes at once: a connection failed, or a response names an unknown node."""
        for watch in self._watches.values():
            watch.refresh()
        self._alarm.ring()

    def doubt_login(self, address: Address) -> None:
        """Find out whether the node at `address` accepts the gateway's credentials: it has just not done
        so.
        """
        for watch in self._watches.values():
            if watch.node.address == address:
                watch.doubt_login()

    def renew_logins(self) -> None:
        """Try new credentials at every node."""
        for watch in self._watches.values():
            watch.renew_login()
        self._alarm.ring()

    def address_of(self, node_id: int) -> Address | None:
        """Return the address of a node, or None if there is no such node or it belongs to another cluster."""
        watch = self._watches.get(node_id)
        if watch is None or self.is_refused or watch.state.condition is Condition.OTHER_CLUSTER:
            return None
        return watch.node.address

    def node_at(self, address: Address) -> int | None:
        """Return the node with this address, or None."""
        return next((node_id for node_id, node in self.nodes.items() if node.address == address), None)

    def bootstrap_address(self) -> Address:
        """Return the next address to bootstrap from: the connected nodes in turn; if there are none, all
        known nodes and the bootstrap servers in turn.

        Raises UpstreamError CLUSTER while the cluster is refused, and until the expected one has answered if
        an id is expected: nothing must reach another cluster.
        """
        if self.is_refused or (self.expected_id is not None and not self.found.is_set()):
            raise UpstreamError(
                Reason.CLUSTER, self.state.error or "the upstream cluster has not answered yet"
            )
        targets = [watch.node.address for watch in self._watches.values() if watch.is_connected]
        if not targets:
            known = (node.address for node in self.nodes.values())
            targets = list(dict.fromkeys((*known, *self._config.bootstrap_servers)))
        self._turn += 1
        return targets[self._turn % len(targets)]

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the nodes fresh until cancelled. Closes all connections."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await self._watch_bootstrap()

    def connect(
        self, address: Address, on_close: Callable[[UpstreamConnection], None] | None
    ) -> UpstreamConnection:
        assert self._nursery is not None
        connection = UpstreamConnection(
            address,
            self._config,
            self._security,
            timeout_ms=min(self._config.request_timeout_ms, self._config.connection_setup_timeout_ms),
            on_close=on_close,
        )
        self._nursery.start_soon(connection.run, name=f"upstream {address}")
        return connection

    def check(self, address: Address, view: ClusterView) -> None:
        expected = self.expected_id
        if expected is not None and view.cluster_id != expected:
            text = f"{address} belongs to the cluster {view.cluster_id}; expected {expected}"
            raise UpstreamError(Reason.CLUSTER, text)

    def reported(self, watch: NodeWatch, previous: ClusterView | None) -> None:
        view = watch.view
        if view is None:
            if not any(self._connected()):
                if watch.state.condition is Condition.OTHER_CLUSTER:
                    self._enter(Condition.OTHER_CLUSTER, watch.state.error)
                if previous is not None:
                    self._alarm.ring()
        else:
            self._adopt(view)
            self._enter(Condition.CONNECTED)
            has_changed = previous is not None and previous.nodes != view.nodes
            if has_changed and view.nodes != frozenset(self.nodes.values()):
                for other in self._connected():
                    if other is not watch:
                        other.refresh()
        self._decide()

    async def _watch_bootstrap(self) -> None:
        """Ask the bootstrap servers whenever no node is connected."""
        backoff = ReconnectBackoff(self._config)
        period_s = self._config.metadata_max_age_ms / 1_000
        least_s = min(self._config.reconnect_backoff_max_ms / 1_000, period_s)
        while True:
            self._alarm.reset()
            if any(self._connected()):
                await self._alarm.sleep(0, float("inf"))
            elif (error := await self._ask_servers()) is None:
                backoff.reset()
                await self._alarm.sleep(least_s, period_s)
            else:
                await trio.sleep(backoff.after_s(error))

    async def _ask_servers(self) -> UpstreamError | None:
        """Ask all bootstrap servers at once; the first answer counts. Returns the worst error if there is no
        answer.
        """
        failures: list[UpstreamError] = []
        views: list[ClusterView] = []
        async with trio.open_nursery() as nursery:
            for address in self._config.bootstrap_servers:
                nursery.start_soon(self._ask_server, address, views, failures, nursery.cancel_scope)
        if any(self._connected()):
            return None
        if views:
            self._adopt(views[0])
            self._enter(Condition.CONNECTED)
            self._apply(views[0].nodes)
            return None
        worst = min(failures, key=lambda error: _SEVERITY.index(condition_of(error)))
        self._enter(condition_of(worst), str(worst))
        return worst

    async def _ask_server(
        self,
        address: Address,
        views: list[ClusterView],
        failures: list[UpstreamError],
        others: trio.CancelScope,
    ) -> None:
        connection = self.connect(address, None)
        try:
            view = await ask(connection)
            self.check(address, view)
        except UpstreamError as error:
            failures.append(error)
        else:
            views.append(view)
            others.cancel()
        finally:
            connection.close()

    def _connected(self) -> Iterator[NodeWatch]:
        return (watch for watch in self._watches.values() if watch.is_connected)

    def _adopt(self, view: ClusterView) -> None:
        """Take the id and the controller from an answer that counts."""
        self.controller_id = view.controller_id
        if view.cluster_id is None:
            return
        self.cluster_id = view.cluster_id
        if self.expected_id is None:
            self.expected_id = view.cluster_id
            if self._on_cluster_id is not None:
                self._on_cluster_id(view.cluster_id)

    def _decide(self) -> None:
        """Apply the answer that most nodes give. A tie leaves the present nodes if they are part of it."""
        views = [watch.view.nodes for watch in self._connected() if watch.view is not None]
        if not views:
            return
        votes = Counter(views)
        most = max(votes.values())
        current = frozenset(self.nodes.values())
        if votes[current] < most:
            self._apply(next(nodes for nodes in votes if votes[nodes] == most))

    def _apply(self, found: frozenset[UpstreamNode]) -> None:
        old, new = self.nodes, {node.node_id: node for node in sorted(found, key=lambda node: node.node_id)}
        if old == new:
            return
        self.nodes = MappingProxyType(new)
        for node_id in old.keys() - new.keys():
            self._watches.pop(node_id).stop()
            logger.info(
                "an upstream node left", extra={"node": node_id, "address": str(old[node_id].address)}
            )
        for node_id, node in new.items():
            before = old.get(node_id)
            if before is None:
                self._watch(node, UpstreamState(Condition.CONNECTING, self._clock.wall_ms()))
                if old:
                    logger.info(
                        "an upstream node joined", extra={"node": node_id, "address": str(node.address)}
                    )
            elif before.address != node.address:
                replaced = self._watches.pop(node_id)
                replaced.stop()
                logger.info(
                    "an upstream node moved",
                    extra={"node": node_id, "from": str(before.address), "to": str(node.address)},
                )
                self._watch(node, replaced.state)
            else:
                self._watches[node_id].node = node
        self._watches = {node_id: self._watches[node_id] for node_id in new}
        for listener in self._listeners:
            listener()

    def _watch(self, node: UpstreamNode, state: UpstreamState) -> None:
        assert self._nursery is not None
        watch = NodeWatch(node, state, self._config, self._clock, self)
        self._watches[node.node_id] = watch
        self._nursery.start_soon(watch.run, name=f"watch of upstream node {node.node_id}")

    def _enter(self, condition: Condition, error: str = "") -> None:
        old = self.state
        if old.condition is Condition.OTHER_CLUSTER and condition.is_failing:
            condition = Condition.OTHER_CLUSTER
        self.state = next_state(old, condition, self._clock.wall_ms(), error=error)
        if condition is Condition.CONNECTED and not self.found.is_set():
            logger.info("found the upstream cluster", extra={"cluster": self.cluster_id})
            self.found.set()
        else:
            log_cluster(old, self.state)
