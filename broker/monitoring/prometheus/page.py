"""The page of /metrics: its families and their order. Made by `server`, read by /metrics."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.controller.rows.upstream import GatewayRow, UpstreamRow
from broker.coordinator.transaction.state import NAMES, State
from broker.coordinator.transaction_service import TransactionService
from broker.metrics.families import FamilySamples, Kind, Sample, Steps, pieces
from broker.monitoring.prometheus import requests
from broker.monitoring.prometheus.handlers import automq_families, handler_families, memory_families
from broker.monitoring.prometheus.logs import (
    compaction_families,
    event_families,
    log_directory_families,
    topic_families,
)
from broker.monitoring.prometheus.sockets import (
    SocketFamilies,
    acceptor_families,
    failure_families,
    flow_families,
)
from broker.monitoring.prometheus.throttling import broker_quota_families, throttle_compliance_families
from broker.monitoring.prometheus.upstream import gateway_families, upstream_families
from broker.monitoring.sources import ClientSources, LogSources
from broker.network.clock import LoopIdle, TrioClock
from broker.network.metrics.idle_shares import IdleShares
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventBuffer
from broker.purgatory import purgatory
from broker.quotas import accounts
from broker.quotas import quota_metrics as quotas
from broker.security.acl.acl import Operation, ResourceType
from broker.security.acl.authorizer import Authorizer
from broker.telemetry import client_telemetry_metrics as telemetry


class PrometheusPage:
    """The page, rendered for each scrape."""

    def __init__(
        self,
        clock: TrioClock,
        server: SocketServer,
        loop: LoopIdle,
        clients: ClientSources,
        max_entities: Callable[[], int],
        *,
        logs: LogSources | None = None,
        events: EventBuffer | None = None,
        authorizer: Authorizer | None = None,
        upstream: Callable[[], UpstreamRow] | None = None,
        gateways: Callable[[], Sequence[GatewayRow]] = tuple,
    ) -> None:
        """`max_entities` returns the present quota.metrics.max.entities; `upstream` and `gateways` are a
        gateway's.
        """
        self._clock = clock
        self._server = server
        self._idle = IdleShares(server, loop)
        self._sockets = SocketFamilies(server, clock.ns())
        self._clients = clients
        self._logs = logs
        self._events = events
        self._authorizer = authorizer
        self._upstream = upstream
        self._gateways = gateways
        self._max_entities = max_entities

    def page(self) -> str:
        """Return the page in the Prometheus text format, version 0.0.4."""
        return b"".join(self.pieces()).decode()

    def pieces(self) -> Iterator[bytes]:
        """Yield the page in steps of some microseconds of work; some pieces are empty."""
        return pieces(self._steps())

    def families(self) -> Iterator[FamilySamples]:
        """Yield each family once. Reading them closes a window of the rates."""
        return (family for family in self._steps() if family is not None)

    def _steps(self) -> Steps:
        now_ns, now_ms = self._clock.ns(), self._clock.ms()
        clients, logs = self._clients, self._logs
        yield from quotas.families(clients.quotas, now_ms, self._max_entities())
        if logs is not None:
            yield from quotas.replication_families(logs.replication, now_ms)
        yield from broker_quota_families(clients.quotas, clients.retry_storm, now_ms)
        yield from quotas.shadow_families(clients.quotas, now_ms)
        yield from throttle_compliance_families(clients.quotas.throttle_compliance)
        yield from acceptor_families(self._server, now_ms, self._max_entities())
        yield from accounts.families(self._server.accounts.update(), now_ms)
        yield from requests.families(self._server.metrics, now_ms)
        yield from requests.log_families(self._server.request_log)
        idle = self._idle.update(now_ns)
        yield from self._sockets.families(now_ns, idle)
        yield from handler_families(self._server, idle)
        yield from failure_families(self._server.failures)
        yield from purgatory.families(() if logs is None else logs.purgatories)
        memories = {name.value: each.memory for name, each in self._server.resources.items()}
        yield from memory_families(memories, now_ms)
        yield from automq_families(self._server.requests)
        yield from flow_families(self._server, clients.callbacks, now_ms)
        if logs is not None:
            yield from topic_families(logs.partitions)
            yield from log_directory_families(logs.partitions.store)
            yield from compaction_families(logs.cleaner, self._clock.wall_ms())
            yield from transaction_families(logs.transactions)
        if self._events is not None:
            yield from event_families(self._events)
        if self._authorizer is not None:
            yield from authorizer_families(self._authorizer)
        if self._upstream is not None:
            yield from upstream_families(self._upstream())
            yield from gateway_families(self._gateways())
        yield from telemetry.families(clients.telemetry, now_ms)


def authorizer_families(authorizer: Authorizer) -> Iterator[FamilySamples]:
    """Yield the ACLs, and what was denied. (Kafka: AuthorizerMetrics)"""
    yield FamilySamples(
        "weir_authorizer_acls", "ACLs in force", Kind.GAUGE, [Sample((), authorizer.acl_count)]
    )
    denied = [
        Sample(
            (("operation", Operation(operation).name), ("resource_type", ResourceType(resource_type).name)),
            count,
        )
        for (operation, resource_type), count in sorted(authorizer.denials.items())
    ]
    yield FamilySamples(
        "weir_authorizer_denied_total",
        "Operations that the authorizer has denied to clients, the ones without a line in the log included",
        Kind.COUNTER,
        denied,
    )


COUNTED_AT_ONCE: Final = 1_024
"""Transactional ids that are counted between two pauses."""


def transaction_families(transactions: TransactionService) -> Iterator[FamilySamples | None]:
    """Yield the families, and None after work that produced none."""
    states: Counter[State] = Counter()
    for number, transaction in enumerate(transactions.coordinator.transactions()):
        states[transaction.data.state] += 1
        if number % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
            yield None
    yield FamilySamples(
        "weir_transactional_ids",
        "Transactional ids by the state of their transaction",
        Kind.GAUGE,
        [
            Sample((("state", name),), states[state])
            for state, name in NAMES.items()
            if state is not State.DEAD
        ],
    )
    yield FamilySamples(
        "weir_transactions_decided_total",
        "Transactions that were decided since the start, by decision",
        Kind.COUNTER,
        [Sample((("decision", each),), count) for each, count in transactions.decisions.items()],
    )
