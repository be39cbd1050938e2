"""The live values of the console, collected from their packages. Made by `server`; independent of pages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RetryStormGate
from broker.common.steps import Steps
from broker.config.listeners import Server
from broker.controller.commands import EntityPairs
from broker.controller.rows.broker import TaskRow
from broker.controller.rows.connections import Flow, SelectorRow
from broker.controller.rows.quotas import BrokerLimit, RetryStormUse
from broker.controller.rows.transactions import TransactionDetail, TransactionRow
from broker.metrics.rate import INT_MAX, CounterRate
from broker.network.automq.handler_queues import RequestQueues
from broker.network.clock import LoopIdle, TrioClock
from broker.network.connection.channel import Channel, MuteState
from broker.network.memory.memory_pool import MemoryPool
from broker.network.metrics.idle_shares import IdleShares
from broker.network.metrics.request_metrics import PHASES, ApiMetrics, quantiles_ms
from broker.network.metrics.selector_metrics import (
    flow_totals,
    idle_connections,
    max_in_flight,
    oversized,
    totals_of,
)
from broker.network.socket_server import SocketServer
from broker.quotas.accounts import Account
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_metrics import ip_rule_use
from broker.quotas.connection_rates import AddressStats
from broker.quotas.connections import ConnectionQuotas
from broker.quotas.entity import CLIENT_ID, USER, Entity
from broker.quotas.kinds import CLIENT_KEYS, IP_KEYS, KEY_OF
from broker.quotas.quota_metrics import RuleUse, rule_use, rule_use_of, shadow_rule_use
from broker.quotas.remote_use import NO_REMOTE_USE, Clients, RemoteUse
from broker.quotas.request import PERCENT_OF_A_SECOND_PER_NS
from broker.quotas.table import UNLIMITED
from broker.quotas.throttled import ThrottledRow as MutedRow
from broker.views.throttled_addresses import throttled_addresses
from broker.views.views import (
    AddressUse,
    BrokerMetrics,
    ClientUsage,
    ConnectionLimitRow,
    ConnectionRow,
    Decided,
    GroupDetail,
    GroupRow,
    NodeUse,
    PartitionRow,
    PhaseRow,
    QueueRow,
    QuotaKind,
    QuotaUse,
    ShadowUse,
    ThrottledRow,
    TopicSize,
)


def address_uses(quotas: ConnectionQuotas, now_ms: int) -> list[AddressUse]:
    return [address_use(quotas, address, stats, now_ms) for address, stats in quotas.addresses]


def address_use(quotas: ConnectionQuotas, address: str, stats: AddressStats, now_ms: int) -> AddressUse:
    return AddressUse(
        address,
        stats.rate.observed(now_ms),
        quotas.counts.get(address, 0),
        _limit(quotas.per_ip.of(address)),
        stats.accepted,
        stats.delayed,
        stats.refused,
    )


def connection_limits(server: str, quotas: ConnectionQuotas, now_ms: int) -> list[ConnectionLimitRow]:
    """Return the server's own limits first, with the refusals of all its listeners, then each listener's."""
    listeners = [
        ConnectionLimitRow(
            each.name,
            each.count,
            _limit(each.max_connections),
            each.rate.observed(now_ms),
            _limit(each.rate.bound),
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
        _limit(quotas.max_connections),
        quotas.rate.observed(now_ms),
        _limit(quotas.rate.bound),
        tuple(sorted(rejected.items())),
        server,
    )
    return [whole, *listeners]


def _limit(value: float) -> int | None:
    return None if value == INT_MAX else int(value)


def broker_limits(quotas: ClientQuotas, now_ms: int) -> list[BrokerLimit]:
    return [
        BrokerLimit(
            use.kind,
            use.key,
            "requests/s" if use.kind is QuotaKind.BROKER_REQUEST_RATE else "bytes/s",
            use.bound,
            use.observed,
            use.throttled,
            use.throttles,
            use.throttle_ms,
        )
        for use in quotas.broker.use(now_ms)
    ]


def retry_storm_use(gate: RetryStormGate) -> RetryStormUse:
    totals = gate.storm.totals
    return RetryStormUse(totals.delayed, totals.delayed_ms, gate.delayed.delayed)


class FlowViews:
    """Stores the totals of the previous read, from which rates are computed."""

    def __init__(self, server: SocketServer, callbacks: Callbacks, pipeline_high: int, now_ns: int) -> None:
        """`pipeline_high` is pipeline.high.watermark."""
        self._server = server
        self._callbacks = callbacks
        self._pipeline_high = pipeline_high
        self._rate = CounterRate(now_ns)

    def update(self, now_ns: int, now_ms: int) -> Flow:
        server, callbacks = self._server, self._callbacks
        processors = list(server.processors())
        mutes, unmutes = self._rate.update(now_ns, flow_totals(server))
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


class TopicViewSource(Protocol):
    """The topics and groups. All calls are fast; rows are built lazily."""

    def offline_partitions(self) -> int: ...

    def missing_offsets(self) -> int: ...

    def topic_size(self, name: str) -> TopicSize: ...

    def partitions(self, topic: str) -> Iterable[PartitionRow]: ...

    def group_count(self) -> int: ...

    def groups(self) -> Iterable[GroupRow | None]: ...

    def group(self, group_id: str) -> Steps[GroupDetail | None]: ...

    def transactions(self) -> Iterable[TransactionRow | None]: ...

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]: ...


UpstreamOf = Callable[[], Callable[[Channel], tuple[str, int | None]]]
"""Returns a function that returns where a connection is forwarded to: address, "" for none, and node."""


class LiveViews:
    """A `broker.views.views.LiveViewSource`."""

    def __init__(
        self,
        clock: TrioClock,
        server: SocketServer,
        quotas: ClientQuotas,
        topics: TopicViewSource,
        loop: LoopIdle,
        tasks: Callable[[], list[TaskRow]],
        retry_storm: RetryStormGate,
        callbacks: Callbacks,
        pipeline_high: int,
        upstream_of: UpstreamOf | None = None,
        elsewhere: Callable[[], RemoteUse] = lambda: NO_REMOTE_USE,
    ) -> None:
        """`upstream_of` is a gateway's; `elsewhere` returns what other gateways use of shared limits."""
        self._clock = clock
        self._server = server
        self._quotas = quotas
        self._upstream_of = upstream_of
        self._elsewhere = elsewhere
        self._topics = topics
        self._idle = IdleShares(server, loop)
        self.tasks = tasks
        self._retry_storm = retry_storm
        self._started = clock.ns()
        self._traffic = CounterRate(self._started)
        self._blocked = CounterRate(self._started)
        self._phases = PhaseRows()
        self._flow = FlowViews(server, callbacks, pipeline_high, self._started)

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

    def throttled(self) -> Iterator[ThrottledRow]:
        now_ms = self._clock.ms()
        return chain(
            map(throttled_row, self._quotas.each_row(now_ms)), throttled_addresses(self._server, now_ms)
        )

    def broker_limits(self) -> list[BrokerLimit]:
        return broker_limits(self._quotas, self._clock.ms())

    def retry_storm(self) -> RetryStormUse:
        return retry_storm_use(self._retry_storm)

    def flow(self) -> Flow:
        return self._flow.update(self._clock.ns(), self._clock.ms())

    def connections(self) -> Iterator[ConnectionRow]:
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
            )
            for channel in list(self._server.channels())
            for upstream in (("", None) if upstream_of is None else upstream_of(channel),)
        )

    def connected_clients(self) -> Iterator[tuple[str, str]]:
        channels = list(self._server.channels())
        return ((each.principal, each.client_id or "") for each in channels if each.authenticated)

    def quota_use(self) -> Iterator[QuotaUse | None]:
        now_ms, elsewhere = self._clock.ms(), self._elsewhere()
        uses = chain(
            rule_use(self._quotas, now_ms, elsewhere),
            ip_rule_use(self._connection_quotas(), now_ms, elsewhere),
        )
        return (
            None
            if use is None
            else QuotaUse(use.entity.pairs, use.key, use.observed, use.throttled, use.node, use.gateway)
            for use in uses
        )

    def quota_use_of(self, entity: EntityPairs) -> Sequence[QuotaUse]:
        now_ms, parsed, elsewhere = self._clock.ms(), Entity.of(entity), self._elsewhere()
        uses: Iterable[RuleUse]
        if parsed.ip is None:
            uses = rule_use_of(self._quotas, parsed, now_ms, elsewhere)
        else:
            rules = ip_rule_use(self._connection_quotas(), now_ms, elsewhere)
            uses = (use for use in rules if use is not None and use.entity == parsed)
        return [QuotaUse(entity, use.key, use.observed, use.throttled, use.node, use.gateway) for use in uses]

    def shadow_use(self) -> Sequence[ShadowUse]:
        now_ms = self._clock.ms()
        since_ms = self._clock.wall_ms() - now_ms
        return [
            ShadowUse(
                use.entity.pairs,
                use.key,
                use.total.times,
                use.total.throttled.at(now_ms),
                None if use.total.last_ms is None else use.total.last_ms + since_ms,
            )
            for use in shadow_rule_use(self._quotas)
        ]

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        manager = self._quotas.managers[CLIENT_KEYS[key].kind]
        decision = manager.decide(user, client_id)
        if decision is None:
            return None
        return Decided(decision.tags, decision.bound, self.observed(key, user, client_id, ""))

    def addresses(self) -> Sequence[AddressUse]:
        return address_uses(self._server.gate.quotas, self._clock.ms())

    def controller_addresses(self) -> Sequence[AddressUse]:
        resources = self._server.resources.get(Server.CONTROLLER)
        return () if resources is None else address_uses(resources.gate.quotas, self._clock.ms())

    def connection_limits(self) -> Sequence[ConnectionLimitRow]:
        now_ms = self._clock.ms()
        return [
            row
            for name, each in self._server.resources.items()
            for row in connection_limits(name.value, each.gate.quotas, now_ms)
        ]

    def usage(self) -> Iterator[ClientUsage]:
        accounts, now_ms = self._server.accounts.update(), self._clock.ms()
        since_ms = self._clock.wall_ms() - now_ms
        return (self._client_usage(account, now_ms, since_ms) for account in list(accounts))

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        now_ms = self._clock.ms()
        if key in IP_KEYS:
            sensors = (quotas.ips.sensors.get(ip) for quotas in self._connection_quotas())
            return max((each.observed(now_ms) for each in sensors if each is not None), default=None)
        sensors_of = self._quotas.managers[CLIENT_KEYS[key].kind].sensors_of
        return max((each.observed(now_ms) for each in sensors_of(user, client_id)), default=None)

    def throttled_clients(self, key: str) -> Iterator[Clients]:
        throttled = self._quotas.managers[CLIENT_KEYS[key].kind].throttled.all()
        return ((each.sensor.user, each.sensor.client_id) for each in throttled)

    def limited_by(self, user: str, client_id: str) -> tuple[str, ...]:
        return tuple(self._limits(user, client_id))

    def nodes(self, key: str, user: str, client_id: str, bound: float) -> tuple[NodeUse, ...]:
        now_ms, manager = self._clock.ms(), self._quotas.managers[CLIENT_KEYS[key].kind]
        uses = (
            (each.node, each.observed(now_ms))
            for each in (manager.sensors_of(user, client_id) if manager.parts else ())
        )
        return tuple(
            NodeUse(node, observed, manager.wait_at(observed, bound))
            for node, observed in sorted((node, observed) for node, observed in uses if node is not None)
        )

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        if key in IP_KEYS:
            return self._server.gate.quotas.ips.wait_at(observed, bound)
        return self._quotas.managers[CLIENT_KEYS[key].kind].wait_at(observed, bound)

    def first_wait_ms(self, key: str, user: str, client_id: str, entity: EntityPairs, bound: float) -> int:
        kinds = {kind for kind, _ in entity}
        sensor = (user if USER in kinds else None, client_id if CLIENT_ID in kinds else None)
        manager = self._quotas.managers[CLIENT_KEYS[key].kind]
        return manager.first_wait_ms(user, client_id, sensor, bound, self._clock.ms())

    def _memory(self, server: Server) -> MemoryPool | None:
        resources = self._server.resources.get(server)
        return None if resources is None or resources.memory is None else resources.memory.memory

    def _connection_quotas(self) -> Iterator[ConnectionQuotas]:
        return (each.gate.quotas for each in self._server.resources.values())

    def _client_usage(self, account: Account, now_ms: int, since_ms: int) -> ClientUsage:
        bytes_in, bytes_out, requests, ns = account.per_second(now_ms)
        limiting = self._limits(account.user, account.client_id)
        nodes = {
            key: uses
            for key, bound in limiting.items()
            if (uses := self.nodes(key, account.user, account.client_id, bound))
        }
        return ClientUsage(
            account.user,
            account.client_id,
            account.connections,
            bytes_in,
            bytes_out,
            requests,
            ns * PERCENT_OF_A_SECOND_PER_NS if self._quotas.request.active else None,
            account.counts[0],
            account.counts[1],
            account.counts[2],
            account.since_ms + since_ms,
            account.last_active_ms + since_ms,
            tuple(limiting),
            partial(history_of, account, now_ms),
            nodes,
        )

    def _limits(self, user: str, client_id: str) -> dict[str, float]:
        """Return the limits of a client by key."""
        bounds = {
            KEY_OF[kind]: manager.bound(user, client_id)
            for kind, manager in self._quotas.managers.items()
            if manager.active
        }
        return {key: bound for key, bound in bounds.items() if bound != UNLIMITED}

    def topic_size(self, name: str) -> TopicSize:
        return self._topics.topic_size(name)

    def partitions(self, topic: str) -> Iterable[PartitionRow]:
        return self._topics.partitions(topic)

    def groups(self) -> Iterable[GroupRow | None]:
        return self._topics.groups()

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        return self._topics.group(group_id)

    def transactions(self) -> Iterable[TransactionRow | None]:
        return self._topics.transactions()

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        return self._topics.transaction(transactional_id)


def throttled_row(row: MutedRow) -> ThrottledRow:
    return ThrottledRow(
        connection_id=row.connection_id,
        client_id=row.client_id,
        principal=row.principal,
        address=row.address,
        quota_type=QuotaKind(row.quota_type.value),
        entity=row.entity.pairs if isinstance(row.entity, Entity) else (),
        tags=() if isinstance(row.entity, Entity) else row.entity.pairs,
        observed=row.observed,
        bound=row.bound,
        throttle_ms=row.throttle_ms,
        remaining_ms=row.remaining_ms,
        since_ms=row.since_ms,
        times=row.count,
        obeys=row.obeys,
        upstream_node=row.node,
    )


def _mute_state(channel: Channel) -> str:
    if channel.mute_state is MuteState.NOT_MUTED and channel.receive.waits_for_memory:
        return "muted_for_memory"
    return channel.mute_state.name.lower()


def history_of(account: Account, now_ms: int) -> list[tuple[int, int, int]]:
    """Return bytes in, bytes out and requests of each interval, the oldest first."""
    return [(row[0], row[1], row[2]) for row in account.recent.rows(now_ms)]
