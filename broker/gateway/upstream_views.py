"""The upstream cluster of a gateway as the console and /metrics show it. Made by `server.gateway`.

Observes connections: what a closed one has transferred still counts for its node, and the first client that
cannot use the advertised addresses is logged.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from broker.config.sections import GatewayConfig
from broker.config.table import BrokerConfig
from broker.controller.rows.upstream import (
    DrainRow,
    LoopbackAdvertised,
    NodeAddress,
    RackTraffic,
    RefusedRecords,
    UpstreamCondition,
    UpstreamLatency,
    UpstreamNodeRow,
    UpstreamRow,
    UpstreamSummary,
)
from broker.gateway.channel import GatewayChannel
from broker.gateway.contents.contents import ClusterContents
from broker.gateway.event_topics import UpstreamTopics
from broker.gateway.node_ports import NodePorts
from broker.gateway.sharing.signing import Records, Refusal
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.conditions import UpstreamStatus
from broker.metrics.rate import CounterRate
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.requests.request_metrics import quantiles_ms
from broker.network.server_metrics import totals_of
from broker.network.socket_server import SocketServer
from broker.quotas.throttled import Throttle
from broker.views.upstream_views import ShareViews, UpstreamOf

logger = logging.getLogger(__name__)

WAITING: Final = frozenset({"Fetch", "FetchConsumer", "ShareFetch", "JoinGroup", "SyncGroup"})
"""APIs whose requests wait upstream for records or for other members of a group."""

LATENCIES_EVERY_MS: Final = 5_000
"""Quantiles over five minutes change slowly, and take milliseconds to compute while a reader waits."""


Racks = tuple[str, str]
"""The rack of a client's address and that of a node; "" for none."""


class NodeTraffic:
    """The connections that are forwarded to each node, and the bytes of all that ever were; the same by racks
    if clients have them. A `ConnectionObserver`.
    """

    def __init__(
        self, cluster: UpstreamCluster, loopback_host: Callable[[str], str], *, has_racks: bool = False
    ) -> None:
        """`loopback_host` returns the loopback address that a listener advertises, or "". With `has_racks`,
        addresses of clients have racks.
        """
        self._cluster = cluster
        self._loopback_host = loopback_host
        self._has_racks = has_racks
        self._node_racks: dict[int, str] = {}
        self._ended: dict[int, tuple[int, int]] = {}
        self._ended_by_racks: dict[Racks, tuple[int, int]] = {}
        self._warned: set[str] = set()
        self.remote_connections: Counter[str] = Counter()
        """Connections from other machines by listener, since the start."""

    def nodes(self) -> dict[tuple[str, int], int]:
        """Return the present nodes by their host and port."""
        return {(node.host, node.port): node_id for node_id, node in self._cluster.nodes.items()}

    def totals(self, channels: Collection[Channel]) -> dict[int, tuple[int, int, int]]:
        """Return connections, bytes in and bytes out by node."""
        nodes = self.nodes()
        totals = {node_id: (0, *ended) for node_id, ended in self._ended.items()}
        for channel in channels:
            node_id = node_of(channel, nodes)
            if node_id is not None:
                count, bytes_in, bytes_out = totals.get(node_id, (0, 0, 0))
                totals[node_id] = (count + 1, bytes_in + channel.bytes_in, bytes_out + channel.bytes_out)
        return totals

    def totals_by_racks(self, channels: Collection[Channel]) -> dict[Racks, tuple[int, int, int]]:
        """Return connections, bytes in and bytes out by racks; nothing if no address of a client has one."""
        totals = {racks: (0, *ended) for racks, ended in self._ended_by_racks.items()}
        if self._has_racks:
            nodes = self.nodes()
            for channel in channels:
                node_id = node_of(channel, nodes)
                if node_id is not None:
                    racks = self._racks_of(channel, node_id)
                    count, bytes_in, bytes_out = totals.get(racks, (0, 0, 0))
                    totals[racks] = (count + 1, bytes_in + channel.bytes_in, bytes_out + channel.bytes_out)
        return totals

    def _racks_of(self, channel: Channel, node_id: int) -> Racks:
        """Return the racks of a connection; of a node that has left, the one that it had."""
        assert isinstance(channel, GatewayChannel)
        node = self._cluster.nodes.get(node_id)
        if node is not None:
            self._node_racks[node_id] = node.rack or ""
        return "" if channel.rack is None else channel.rack.name, self._node_racks.get(node_id, "")

    def opened(self, channel: Channel) -> None:
        """Count a client from another machine."""
        if is_loopback(channel.address):
            return
        listener = channel.listener
        self.remote_connections[listener] += 1
        if listener not in self._warned:
            self._warned.add(listener)
            host = self._loopback_host(listener)
            if host:
                logger.warning(
                    "clients of other machines cannot use the advertised address",
                    extra={"listener": listener, "advertised": host, "client": channel.address},
                )

    def closed(self, channel: Channel, reason: str) -> None:
        """Keep the bytes of a connection for its node."""
        node_id = node_of(channel, self.nodes())
        if node_id is None:
            return
        bytes_in, bytes_out = self._ended.get(node_id, (0, 0))
        self._ended[node_id] = (bytes_in + channel.bytes_in, bytes_out + channel.bytes_out)
        if self._has_racks:
            racks = self._racks_of(channel, node_id)
            bytes_in, bytes_out = self._ended_by_racks.get(racks, (0, 0))
            self._ended_by_racks[racks] = (bytes_in + channel.bytes_in, bytes_out + channel.bytes_out)

    def refused(self, listener: str, address: str, rule: str, bound: float) -> None:
        pass

    def delayed(self, listener: str, address: str, throttle_ms: int, bound: float) -> None:
        pass

    def throttled(self, channel: Channel, throttle: Throttle) -> None:
        pass


class UpstreamViews:
    """A `broker.views.upstream_views.UpstreamViewSource`. `config` returns the present configuration;
    `local_apis` are the names of the APIs that the gateway answers itself.
    """

    def __init__(
        self,
        clock: TrioClock,
        config: Callable[[], BrokerConfig],
        cluster: UpstreamCluster,
        node_ports: NodePorts,
        server: SocketServer,
        events: UpstreamTopics,
        local_apis: Collection[str],
        contents: ClusterContents,
        shares: ShareViews | None = None,
        records: Mapping[str, Records] = MappingProxyType({}),
        *,
        drain: Callable[[], DrainRow],
    ) -> None:
        """`records` are those of the gateways' topics."""
        self.drain = drain
        self.shares = shares or ShareViews()
        self.contents = contents
        self._records = records
        self._clock = clock
        self._config = config
        self._cluster = cluster
        self._node_ports = node_ports
        self._server = server
        self._events = events
        self._local_apis = frozenset(local_apis)
        has_racks = bool(config().gateway.client_racks)
        self.traffic = NodeTraffic(cluster, self._loopback_host, has_racks=has_racks)
        self._rates: dict[int, CounterRate] = {}
        self._rack_rates: dict[Racks, CounterRate] = {}
        self._racks_ns = clock.ns()
        self._turns = CounterRate(clock.ns())
        self._latencies: tuple[UpstreamLatency, ...] = ()
        self._latencies_ms: int | None = None
        server.observers.append(self.traffic)

    def summary(self) -> UpstreamSummary:
        cluster = self._cluster
        connected = sum(
            state.condition is UpstreamCondition.CONNECTED for state in cluster.node_states.values()
        )
        cluster_id = cluster.cluster_id or cluster.expected_id or ""
        return UpstreamSummary(cluster_id, cluster.state.condition, len(cluster.nodes), connected)

    def row(self) -> UpstreamRow:
        cluster, now_ns = self._cluster, self._clock.ns()
        state, states = cluster.state, cluster.node_states
        channels = list(self._server.channels())
        totals = self.traffic.totals(channels)
        known, self._rates = self._rates, {}
        nodes = []
        for node_id in cluster.nodes:
            rate = self._rates[node_id] = known.get(node_id) or CounterRate(now_ns)
            connections, *transferred = totals.get(node_id, (0, 0, 0))
            rates = rate.update(now_ns, tuple(transferred))
            nodes.append(self._node(node_id, states[node_id], connections, transferred, rates))
        return UpstreamRow(
            cluster_id=cluster.cluster_id or "",
            expected_id=cluster.expected_id or "",
            condition=state.condition,
            since_at_ms=state.since_ms,
            error=state.error,
            bootstrap_servers=tuple(map(str, self._config().upstream.bootstrap_servers)),
            controller_id=cluster.controller_id,
            nodes=tuple(nodes),
            latencies=self._latency_rows(),
            turn_ms=self._turn_ms(now_ns),
            loopback=self._loopback(),
            racks=self._racks(channels, now_ns),
            unwritten=tuple(sorted(self._events.errors.items())),
            refused=self.refused(),
        )

    def _racks(self, channels: Collection[Channel], now_ns: int) -> tuple[RackTraffic, ...]:
        """Return the rows. A rate of racks that are new counts from the rows before, without them."""
        rows, before_ns, self._racks_ns = [], self._racks_ns, now_ns
        for racks, totals in sorted(self.traffic.totals_by_racks(channels).items()):
            rate = self._rack_rates.setdefault(racks, CounterRate(before_ns))
            rows.append(RackTraffic(*racks, *totals, *rate.update(now_ns, totals[1:])))
        return tuple(rows)

    def refused(self) -> tuple[RefusedRecords, ...]:
        now_ms, found = self._clock.ms(), []
        for topic, records in self._records.items():
            if records.is_signed:
                total, recent = records.refused.total, records.refused.last_minute(now_ms)
                found += [RefusedRecords(topic, each, total[each], recent[each]) for each in Refusal]
        return tuple(found)

    def upstream_of(self) -> UpstreamOf:
        """Return a function that returns where a connection is forwarded to: the address, "" while there is
        none, and the node there.
        """
        nodes = self.traffic.nodes()

        def of(channel: Channel) -> tuple[str, int | None]:
            address = channel.upstream_address if isinstance(channel, GatewayChannel) else None
            return ("", None) if address is None else (str(address), node_of(channel, nodes))

        return of

    def _node(
        self,
        node_id: int,
        state: UpstreamStatus,
        connections: int,
        transferred: list[int],
        rates: tuple[float, ...],
    ) -> UpstreamNodeRow:
        node = self._cluster.nodes[node_id]
        return UpstreamNodeRow(
            node_id=node_id,
            address=str(node.address),
            rack=node.rack or "",
            condition=state.condition,
            since_at_ms=state.since_ms,
            error=state.error,
            latency_ms=state.latency_ms,
            connections=connections,
            bytes_in=transferred[0],
            bytes_out=transferred[1],
            bytes_in_per_s=rates[0],
            bytes_out_per_s=rates[1],
            addresses=self._addresses(node_id),
        )

    def _addresses(self, node_id: int) -> tuple[NodeAddress, ...]:
        found = []
        for listener in self._server.listeners:
            if listener.ending:
                continue
            address = self._node_ports.planned(listener.name, node_id)
            names = bool(self._gateway.for_listener(listener.name).sni_pattern)
            is_open = address is not None and (names or self._node_ports.is_open(listener.name, node_id))
            found.append(NodeAddress(listener.name, "" if address is None else str(address), is_open))
        return tuple(found)

    def _latency_rows(self) -> tuple[UpstreamLatency, ...]:
        now_ms = self._clock.ms()
        if self._latencies_ms is None or now_ms - self._latencies_ms >= LATENCIES_EVERY_MS:
            self._latencies_ms = now_ms
            rows = []
            for api in self._server.metrics.once():
                if api.name in self._local_apis:
                    continue
                recent, _ = api.recent("remote", now_ms)
                p50, p99 = quantiles_ms(recent, (0.5, 0.99))
                rows.append(UpstreamLatency(api.name, api.requests, p50, p99, api.name in WAITING))
            self._latencies = tuple(sorted(rows, key=lambda row: row.api))
        return self._latencies

    def _turn_ms(self, now_ns: int) -> float | None:
        totals = [totals_of(each, now_ns) for each in self._server.processors()]
        busy_ns = sum(each.busy_ns for each in totals)
        turns = sum(each.polls for each in totals)
        busy_per_s, turns_per_s = self._turns.update(now_ns, (busy_ns, turns))
        return busy_per_s / turns_per_s / 1e6 if turns_per_s else None

    def _loopback(self) -> tuple[LoopbackAdvertised, ...]:
        found = []
        for listener in self._server.listeners:
            host = "" if listener.ending else self._loopback_host(listener.name)
            if host:
                found.append(
                    LoopbackAdvertised(listener.name, host, self.traffic.remote_connections[listener.name])
                )
        return tuple(found)

    def _loopback_host(self, listener: str) -> str:
        """Return the advertised host of a listener if it is a loopback address, else ""."""
        if self._gateway.for_listener(listener).sni_pattern:
            return ""
        address = self._node_ports.advertised_host(listener)
        return address if is_loopback(address) else ""

    @property
    def _gateway(self) -> GatewayConfig:
        return self._config().gateway


def node_of(channel: Channel, nodes: Mapping[tuple[str, int], int]) -> int | None:
    """Return the node that a connection is forwarded to: on a bootstrap port, the one at its address."""
    if not isinstance(channel, GatewayChannel) or channel.upstream_address is None:
        return None
    if channel.node_id is not None:
        return channel.node_id
    return nodes.get((channel.upstream_address.host, channel.upstream_address.port))


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
