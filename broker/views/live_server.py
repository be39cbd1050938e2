"""The running server: its load, its connections and its tasks. Made by `server`, part of `console.Views`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.common.slices import Steps
from broker.config.listeners import Server
from broker.controller.rows.broker import BrokerMetrics, PhaseRow, QueueRow, TaskRow
from broker.controller.rows.connections import (
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    SelectorRow,
    SoftwareRow,
)
from broker.controller.rows.topics import TopicClientRow
from broker.metrics.rate import CounterRate
from broker.network.automq.handler_queues import RequestQueues
from broker.network.connection.channel import Channel, MuteState
from broker.network.memory_pool import MemoryPool
from broker.network.requests.request_metrics import PHASES, ApiMetrics, quantiles_ms
from broker.network.server_metrics import (
    IdleShares,
    flow_totals,
    idle_connections,
    max_in_flight,
    oversized,
    totals_of,
)
from broker.quotas.connections import ConnectionQuotas
from broker.views.live_quotas import limit_or_none, throttled_addresses
from broker.views.load import LoadMeter
from broker.views.parts import ServerParts
from broker.views.topics import TopicViews
from broker.views.upstream_views import UpstreamOf


def connection_limits(server: str, quotas: ConnectionQuotas, now_ms: int) -> list[ConnectionLimitRow]:
    """Return the server's own limits first, with the refusals of all its listeners, then each listener's."""
    listeners = [
        ConnectionLimitRow(
            each.name,
            each.count,
            limit_or_none(each.max_connections),
            each.rate.observed(now_ms),
            limit_or_none(each.rate.bound),
            tuple(sorted(each.rejected.items())),
            server,
        )
        for each in quotas.listeners.values()
    ]
    rejected: dict[str, int] = {}
    for row in listeners:
        for rule, count in row.rejected:
            rejected[rule] = rejected.get(rule, 0) + count
    whole = ConnectionLimitRow(
        "",
        quotas.total,
        limit_or_none(quotas.max_connections),
        quotas.rate.observed(now_ms),
        limit_or_none(quotas.creation_rate),
        tuple(sorted(rejected.items())),
        server,
    )
    return [whole, *listeners]


PHASES_EVERY_MS: Final = 5_000
"""Quantiles over five minutes change slowly, and take milliseconds to compute while a reader waits."""


class PhaseRows:
    """The durations of requests' phases, recomputed every five seconds."""

    def __init__(self) -> None:
        self._made_ms: int | None = None
        self._rows: tuple[PhaseRow, ...] = ()

    def rows(self, metrics: Iterable[ApiMetrics], now_ms: int) -> tuple[PhaseRow, ...]:
        if self._made_ms is None or now_ms - self._made_ms >= PHASES_EVERY_MS:
            self._made_ms = now_ms
            self._rows = tuple(row for each in metrics for row in _phases(each, now_ms))
        return self._rows


def _phases(metrics: ApiMetrics, now_ms: int) -> Iterator[PhaseRow]:
    requests = metrics.requests
    for name, phase in PHASES.items():
        recent, _ = metrics.recent(phase, now_ms)
        yield PhaseRow(metrics.name, name, requests, *quantiles_ms(recent, (0.5, 0.99)))


class LiveServer:
    """The rates of `metrics` and `flow` are those since the last call."""

    def __init__(
        self,
        parts: ServerParts,
        topics: TopicViews,
        tasks: Callable[[], list[TaskRow]],
        pipeline_high: int,
        upstream_of: Callable[[], UpstreamOf] | None = None,
    ) -> None:
        """`pipeline_high` is pipeline.high.watermark; `upstream_of` is a gateway's."""
        self._clock = parts.clock
        self._server = parts.server
        self._quotas = parts.quotas
        self._callbacks = parts.callbacks
        self._upstream_of = upstream_of
        self._topics = topics
        self._idle = IdleShares(parts.server, parts.loop)
        self.tasks = tasks
        self._pipeline_high = pipeline_high
        self._parts = parts
        self._started = parts.clock.ns()
        self._traffic = CounterRate(self._started)
        self._blocked = CounterRate(self._started)
        self._mutes = CounterRate(self._started)
        self._phases = PhaseRows()

    def metrics(self) -> BrokerMetrics:
        server, now = self._server, self._clock.ns()
        metrics = list(server.metrics.once())
        selectors = [totals_of(each, now) for each in server.processors()]
        bytes_in = int(server.ended_processors.bytes_in + sum(each.bytes_in for each in selectors))
        bytes_out = int(server.ended_processors.bytes_out + sum(each.bytes_out for each in selectors))
        requests = sum(each.requests for each in metrics)
        rates = self._traffic.update(now, (bytes_in, bytes_out, requests))
        memory, controller_memory = self._memory(Server.BROKER), self._memory(Server.CONTROLLER)
        processors = list(server.processors())
        blocked = sum(listener.acceptor.gate.blocked.total_ns() for listener in server.listeners)
        (blocked_rate,) = self._blocked.update(now, (blocked,))
        idle = self._idle.update(now)
        return BrokerMetrics(
            uptime_ms=(now - self._started) // 1_000_000,
            bytes_in_total=bytes_in,
            bytes_out_total=bytes_out,
            requests_total=requests,
            bytes_in_per_s=rates[0],
            bytes_out_per_s=rates[1],
            requests_per_s=rates[2],
            connections=sum(len(each.selector.channels) for each in processors),
            throttled=sum(map(len, self._quotas.throttled_channels()))
            + len(list(throttled_addresses(self._server, self._clock.ms()))),
            groups=self._topics.group_count(),
            processor_idle=idle.network,
            handler_idle=idle.handlers,
            thread_idle=idle.thread,
            acceptor_blocked=min(blocked_rate / 1e9, 1.0),
            memory_pool_used=memory.used if memory is not None else 0,
            memory_pool_size=memory.size if memory is not None else None,
            queues=(
                QueueRow("requests", server.requests.depth(), server.requests.capacity, server.requests.peak),
                *(
                    QueueRow(
                        f"responses of processor {each.id}",
                        len(each.responder.responses),
                        0,
                        each.responder.peak,
                    )
                    for each in processors
                ),
            ),
            phases=self._phases.rows(metrics, self._clock.ms()),
            controller_memory_pool_used=controller_memory.used if controller_memory is not None else 0,
            controller_memory_pool_size=controller_memory.size if controller_memory is not None else None,
            offline_partitions=self._topics.offline_partitions(),
            missing_offsets=self._topics.missing_offsets(),
        )

    def meter(self) -> LoadMeter:
        """Return a reader of the load with windows of its own."""
        return LoadMeter(self._parts)

    def flow(self) -> Flow:
        """Return how connections are muted and unmuted."""
        server, callbacks = self._server, self._callbacks
        now_ns, now_ms = self._clock.ns(), self._clock.ms()
        processors = list(server.processors())
        mutes, unmutes = self._mutes.update(now_ns, flow_totals(server))
        requests = server.requests
        sizes = requests.sizes if isinstance(requests, RequestQueues) else None
        return Flow(
            mutes=mutes,
            unmutes=unmutes,
            in_flight=sum(each.selector.in_flight() for each in processors),
            deepest=max(map(max_in_flight, processors), default=0),
            deepest_limit=1 if sizes is None else self._pipeline_high,
            available_request_size=None if sizes is None else sizes.available,
            request_size_limit=None if sizes is None else sizes.limit,
            oversized=oversized(server),
            callbacks=len(callbacks.queue),
            callback_capacity=callbacks.capacity,
            blocked_callbacks=callbacks.blocked,
            selectors=tuple(
                SelectorRow(each.name, len(each.selector.channels), idle_connections(each, now_ms))
                for each in processors
            ),
        )

    def software(self) -> Steps[list[SoftwareRow]]:
        """Return the versions of software of the open connections, one connection per step."""
        found: Counter[tuple[str, str]] = Counter()
        for processor in list(self._server.processors()):
            for channel in list(processor.selector):
                found[channel.software_name, channel.software_version] += 1
                yield
        return [SoftwareRow(*kind, count) for kind, count in found.items()]

    def clients_of_topic(self, topic: str, topic_id: bytes) -> Steps[list[TopicClientRow]]:
        """Return the clients that use a topic, in no order, one connection per step. A gateway knows some
        topics by their ids only.
        """
        keys = {topic, topic_id}
        writing: Counter[tuple[str, str, str, str]] = Counter()
        reading: Counter[tuple[str, str, str, str]] = Counter()
        connections: Counter[tuple[str, str, str, str]] = Counter()
        for channel in list(self._server.channels()):
            yield
            writes = not keys.isdisjoint(channel.topics_written)
            reads = not keys.isdisjoint(channel.topics_read)
            if not writes and not reads:
                continue
            client = (
                channel.client_id or "",
                channel.principal,
                channel.software_name,
                channel.software_version,
            )
            connections[client] += 1
            writing[client] += writes
            reading[client] += reads
        return [
            TopicClientRow(*client, count, writing[client], reading[client])
            for client, count in connections.items()
        ]

    def each_connection(self) -> Iterator[ConnectionRow]:
        """Yield the connections that were open at the time of the call; rows are built lazily."""
        protocols = {listener.name: listener.protocol for listener in self._server.listeners}
        upstream_of = None if self._upstream_of is None else self._upstream_of()
        return (
            ConnectionRow(
                connection_id=channel.id,
                listener=channel.listener,
                protocol=protocols[channel.listener],
                principal=channel.principal,
                client_id=channel.client_id or "",
                software_name=channel.software_name,
                software_version=channel.software_version,
                address=channel.address,
                opened_at_ms=channel.opened_wall_ms,
                requests=channel.requests,
                bytes_in=channel.bytes_in,
                bytes_out=channel.bytes_out,
                mute_state=_mute_state(channel),
                tls="" if channel.tls is None else " ".join(reversed(channel.tls)),
                obeys=self._quotas.throttle_compliance.obeys(channel),
                upstream=upstream[0],
                upstream_node=upstream[1],
                proxy=channel.proxy,
            )
            for channel in list(self._server.channels())
            for upstream in (("", None) if upstream_of is None else upstream_of(channel),)
        )

    def connection_limits(self) -> list[ConnectionLimitRow]:
        """Return the rows of the broker, of each listener, and of the controller's server if it exists."""
        now_ms = self._clock.ms()
        return [
            row
            for name, each in self._server.resources.items()
            for row in connection_limits(name.value, each.gate.quotas, now_ms)
        ]

    def _memory(self, server: Server) -> MemoryPool | None:
        resources = self._server.resources.get(server)
        return None if resources is None or resources.memory is None else resources.memory.memory


def _mute_state(channel: Channel) -> str:
    if channel.mute_state is MuteState.NOT_MUTED and channel.receive.waits_for_memory:
        return "muted_for_memory"
    return channel.mute_state.name.lower()
