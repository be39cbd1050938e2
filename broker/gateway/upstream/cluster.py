"""The nodes of the upstream cluster, kept fresh. (Kafka: Metadata, AdminMetadataManager)

Every node is asked for the list of nodes: DescribeCluster, or Metadata of brokers before Kafka 2.8. Where
answers differ, as they do for a moment after each change and for long if a node is cut off from its
controllers, the one that most nodes give counts. If no node answers, the bootstrap servers are asked.

A cluster with another id than the expected one changes nothing here.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
import trio

from broker.common.clock import Clock
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.controller.rows.upstream import UpstreamCondition
from broker.gateway.upstream.conditions import (
    UpstreamStatus,
    condition_of,
    log_cluster,
    log_node,
    next_state,
)
from broker.gateway.upstream.connection import UpstreamConnection
from broker.gateway.upstream.errors import Reason, ReconnectBackoff, UpstreamError
from broker.gateway.upstream.security import UpstreamSecurity
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from broker.protocol.messages.metadata import MetadataRequest, MetadataResponse

logger = logging.getLogger(__name__)

LEAST_S: Final = 0.05
"""The shortest time between two requests of a watch after an answer."""

MAX_NODES: Final = 1_000
"""Nodes of a cluster; ours. Each has a port and connections of the gateway."""

MAX_VIEW_BYTES: Final = 262_144
"""Bytes of an answer; ours. 1,000 nodes with long names have less."""

MAX_HOST: Final = 255
"""Characters of a host name. (RFC 1035)"""


_SEVERITY: Final = (
    UpstreamCondition.OTHER_CLUSTER,
    UpstreamCondition.CREDENTIALS,
    UpstreamCondition.TLS,
    UpstreamCondition.UNREACHABLE,
)


class UpstreamNode(msgspec.Struct, frozen=True):
    """A broker of the upstream cluster, at the address of the listener that the gateway uses."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class ClusterView(msgspec.Struct, frozen=True):
    """One answer. `controller_id` is any broker in a KRaft cluster."""

    cluster_id: str | None
    nodes: frozenset[UpstreamNode]
    controller_id: int


async def ask(connection: UpstreamConnection) -> ClusterView:
    """Ask a broker. Raises UpstreamError, also if the broker knows no nodes."""
    await connection.wait_open()
    if ApiKey.DESCRIBE_CLUSTER in connection.versions:
        described: DescribeClusterResponse = await connection.request(
            DescribeClusterRequest(), most=MAX_VIEW_BYTES
        )
        if described.error_code:
            text = f"{connection.address}: DescribeCluster: error {described.error_code}"
            raise UpstreamError(Reason.PROTOCOL, text)
        _check_number(connection, described.brokers)
        nodes = _nodes((each.broker_id, each.host, each.port, each.rack) for each in described.brokers)
        view = ClusterView(described.cluster_id or None, nodes, described.controller_id)
    else:
        answer: MetadataResponse = await connection.request(MetadataRequest([], False), most=MAX_VIEW_BYTES)
        _check_number(connection, answer.brokers)
        nodes = _nodes((each.node_id, each.host, each.port, each.rack) for each in answer.brokers)
        view = ClusterView(answer.cluster_id, nodes, answer.controller_id)
    if not view.nodes:
        raise UpstreamError(Reason.PROTOCOL, f"{connection.address}: the broker knows no brokers yet")
    if len({node.node_id for node in view.nodes}) < len(view.nodes) or not all(map(_is_valid, view.nodes)):
        raise UpstreamError(Reason.PROTOCOL, f"{connection.address}: the broker gives an invalid address")
    return view


def _is_valid(node: UpstreamNode) -> bool:
    return node.node_id >= 0 and 0 < len(node.host) <= MAX_HOST and 0 < node.port <= 65_535


def _check_number(connection: UpstreamConnection, brokers: Sequence[Any]) -> None:
    if len(brokers) > MAX_NODES:
        text = (
            f"{connection.address}: the broker names {len(brokers)} brokers, and at most {MAX_NODES} are used"
        )
        raise UpstreamError(Reason.PROTOCOL, text)


def _nodes(rows: Iterable[tuple[Any, ...]]) -> frozenset[UpstreamNode]:
    return frozenset(UpstreamNode(*row) for row in rows)


class Alarm:
    """A task's sleep that `ring` ends. A ring since the last `reset` ends the next sleep, too."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def sleep(self, least_s: float, most_s: float) -> None:
        """Sleep for `most_s`, or until `ring`, but at least `least_s`: thousands of clients can ring at
        once.
        """
        now = trio.current_time()
        await trio.sleep_until(now + least_s)
        with trio.move_on_at(now + most_s):
            await self._rung.wait()

    def reset(self) -> None:
        """Forget earlier rings: the task is about to do what they ask for."""
        self._rung = trio.Event()


class NodeWatch:
    """Asks one node for the cluster's nodes, again and again, over a connection of its own. So the cluster
    knows which nodes answer, how fast, and what each of them says.

    `view` is the node's last answer, or None while the condition is not CONNECTED.
    """

    def __init__(
        self,
        node: UpstreamNode,
        state: UpstreamStatus,
        config: UpstreamConfig,
        clock: Clock,
        cluster: "UpstreamCluster",
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
        return self.state.condition is UpstreamCondition.CONNECTED

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
        self._enter(UpstreamCondition.CONNECTED, "", latency_ms)
        self._cluster.reported(self, previous)

    def _failed(self, error: UpstreamError) -> None:
        previous, self.view = self.view, None
        condition = condition_of(error)
        if self.state.condition is UpstreamCondition.OTHER_CLUSTER:
            # The broker that comes back at this address must prove first which cluster it belongs to.
            condition = UpstreamCondition.OTHER_CLUSTER
        self._enter(condition, str(error))
        self._cluster.reported(self, previous)

    def _enter(self, condition: UpstreamCondition, error: str, latency_ms: float | None = None) -> None:
        old = self.state
        self.state = next_state(old, condition, self._clock.wall_ms(), error=error, latency_ms=latency_ms)
        log_node(old, self.state, self.node.node_id, self.node.address)


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
        self.state = UpstreamStatus(UpstreamCondition.CONNECTING, clock.wall_ms())
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
        return self.state.condition is UpstreamCondition.OTHER_CLUSTER

    @property
    def node_states(self) -> Mapping[int, UpstreamStatus]:
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
        if watch is None or self.is_refused or watch.state.condition is UpstreamCondition.OTHER_CLUSTER:
            return None
        return watch.node.address

    def node_at(self, address: Address) -> int | None:
        """Return the node with this address, or None."""
        return next((node_id for node_id, node in self.nodes.items() if node.address == address), None)

    def knows(self, address: Address) -> bool:
        """Return whether a present node or a bootstrap server has this address."""
        return address in self._config.bootstrap_servers or self.node_at(address) is not None

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
        """Start a connection for a watch."""
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
        """Raise UpstreamError CLUSTER if the answer of this address is another cluster's."""
        expected = self.expected_id
        if expected is not None and view.cluster_id != expected:
            text = f"{address} belongs to the cluster {view.cluster_id}; expected {expected}"
            raise UpstreamError(Reason.CLUSTER, text)

    def reported(self, watch: NodeWatch, previous: ClusterView | None) -> None:
        """Take notice of a watch's new `view` and `state`. `previous` was its view before."""
        view = watch.view
        if view is None:
            if not any(self._connected()):
                if watch.state.condition is UpstreamCondition.OTHER_CLUSTER:
                    self._enter(UpstreamCondition.OTHER_CLUSTER, watch.state.error)
                if previous is not None:
                    self._alarm.ring()
        else:
            self._adopt(view)
            self._enter(UpstreamCondition.CONNECTED)
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
            self._enter(UpstreamCondition.CONNECTED)
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
                self._watch(node, UpstreamStatus(UpstreamCondition.CONNECTING, self._clock.wall_ms()))
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

    def _watch(self, node: UpstreamNode, state: UpstreamStatus) -> None:
        assert self._nursery is not None
        watch = NodeWatch(node, state, self._config, self._clock, self)
        self._watches[node.node_id] = watch
        self._nursery.start_soon(watch.run, name=f"watch of upstream node {node.node_id}")

    def _enter(self, condition: UpstreamCondition, error: str = "") -> None:
        old = self.state
        if old.condition is UpstreamCondition.OTHER_CLUSTER and condition.is_failing:
            condition = UpstreamCondition.OTHER_CLUSTER
        self.state = next_state(old, condition, self._clock.wall_ms(), error=error)
        if condition is UpstreamCondition.CONNECTED and not self.found.is_set():
            logger.info("found the upstream cluster", extra={"cluster": self.cluster_id})
            self.found.set()
        else:
            log_cluster(old, self.state)
