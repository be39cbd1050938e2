"""The page of /metrics: its families and their order. Made by `server`, read by /metrics."""

from collections import Counter
from collections.abc import Callable, Iterator

from broker.coordinator.transaction.state import NAMES, TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.metrics.families import Families, FamilySamples, Sample, counter, gauge, pieces
from broker.monitoring.prometheus import requests
from broker.monitoring.prometheus.groups import GroupFamilies
from broker.monitoring.prometheus.handlers import automq_families, handler_families, memory_families
from broker.monitoring.prometheus.logs import (
    compaction_families,
    dead_letter_families,
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
from broker.monitoring.prometheus.upstream import drain_families, gateway_families, upstream_families
from broker.network.server_metrics import IdleShares
from broker.purgatory import purgatory
from broker.quotas import accounts
from broker.quotas import quota_metrics as quotas
from broker.security.acl.acl import Operation, ResourceType
from broker.security.acl.authorizer import Authorizer
from broker.telemetry import state as telemetry
from broker.views.parts import LogParts, ServerParts
from broker.views.upstream_views import UpstreamViewSource


class PrometheusPage:
    """The page, rendered for each scrape."""

    def __init__(
        self,
        parts: ServerParts,
        max_entities: Callable[[], int],
        logs: LogParts | None = None,
        upstream: UpstreamViewSource | None = None,
    ) -> None:
        """`max_entities` returns the present quota.metrics.max.entities. `logs` are a broker's; `upstream` is
        a gateway's.
        """
        self.refused_headers: Counter[str] = Counter()
        """The console's connections that were closed for their PROXY header, by the reason; it counts."""
        self._parts = parts
        self._max_entities = max_entities
        self._logs = logs
        self._upstream = upstream
        self._idle = IdleShares(parts.server, parts.loop)
        self._sockets = SocketFamilies(parts.server, parts.clock.ns())
        self._groups = None if logs is None else GroupFamilies(logs.groups, parts.clock.ns())

    def page(self) -> str:
        """Return the page in the Prometheus text format, version 0.0.4."""
        return b"".join(self.pieces()).decode()

    def pieces(self) -> Iterator[bytes]:
        """Yield the page in steps of some microseconds of work; some pieces are empty."""
        return pieces(self._steps())

    def families(self) -> Iterator[FamilySamples]:
        """Yield each family once. Reading them closes a window of the rates."""
        return (family for family in self._steps() if family is not None)

    def _steps(self) -> Families:
        clock, server, client_quotas = self._parts.clock, self._parts.server, self._parts.quotas
        logs, events = self._logs, self._parts.events
        now_ns, now_ms, max_entities = clock.ns(), clock.ms(), self._max_entities()
        yield from quotas.families(client_quotas, now_ms, max_entities)
        if logs is not None:
            yield from quotas.replication_families(logs.replication, now_ms)
        yield from broker_quota_families(client_quotas, self._parts.retry_storm, now_ms)
        yield from quotas.shadow_families(client_quotas, now_ms)
        yield from throttle_compliance_families(client_quotas.throttle_compliance)
        yield from acceptor_families(server, now_ms, max_entities)
        yield from accounts.families(server.accounts.update(), now_ms)
        yield from requests.families(server.metrics, now_ms)
        yield from requests.log_families(server.request_log)
        idle = self._idle.update(now_ns)
        yield from self._sockets.families(now_ns, idle)
        yield from handler_families(server, idle)
        yield from failure_families(server.failures)
        yield from purgatory.families(() if logs is None else logs.purgatories)
        memories = {name.value: each.memory for name, each in server.resources.items()}
        yield from memory_families(memories, now_ms)
        yield from automq_families(server.requests)
        yield from flow_families(server, self._parts.callbacks, now_ms)
        if logs is not None:
            yield from topic_families(logs.partitions)
            yield from log_directory_families(logs.partitions.store)
            yield from compaction_families(logs.cleaner, clock.wall_ms())
            yield from transaction_families(logs.transactions)
            yield from dead_letter_families(logs.dead_letters)
        if self._groups is not None:
            yield from self._groups.families(now_ns)
        if events is not None:
            yield from event_families(events)
        if logs is not None and logs.authorizer is not None:
            yield from authorizer_families(logs.authorizer)
        if self._upstream is not None:
            yield from upstream_families(self._upstream.row())
            yield from drain_families(self._upstream.drain())
            yield from gateway_families(self._upstream.shares.gateways())
        yield counter(
            "weir_console_refused_headers_total",
            "Connections to the console that were closed for their PROXY header, by the reason",
            [Sample((("reason", reason),), count) for reason, count in sorted(self.refused_headers.items())],
        )
        yield from telemetry.families(self._parts.telemetry, now_ms)


def authorizer_families(authorizer: Authorizer) -> Iterator[FamilySamples]:
    """Yield the ACLs, and what was denied. (Kafka: AuthorizerMetrics)"""
    yield gauge("weir_authorizer_acls", "ACLs in force", authorizer.acl_count)
    denied = [
        Sample(
            (("operation", Operation(operation).name), ("resource_type", ResourceType(resource_type).name)),
            count,
        )
        for (operation, resource_type), count in sorted(authorizer.denials.items())
    ]
    yield counter(
        "weir_authorizer_denied_total",
        "Operations that the authorizer has denied to clients, the ones without a line in the log included",
        denied,
    )


def transaction_families(transactions: TransactionService) -> Iterator[FamilySamples | None]:
    """Yield the families, and None after work that produced none."""
    states: Counter[TransactionState] = Counter()
    for transaction in transactions.coordinator.transactions():
        states[transaction.data.state] += 1
        yield None
    yield gauge(
        "weir_transactional_ids",
        "Transactional ids by the state of their transaction",
        [
            Sample((("state", name),), states[state])
            for state, name in NAMES.items()
            if state is not TransactionState.DEAD
        ],
    )
    yield counter(
        "weir_transactions_decided_total",
        "Transactions that were decided since the start, by decision",
        [Sample((("decision", each),), count) for each, count in transactions.decisions.items()],
    )
