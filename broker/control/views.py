"""The views of the console and the REST API: rows, as values.

`Views` (implemented in broker.control.reading) combines the metadata image with a `LiveViewSource`. Rows are
built on request, never while a client waits. Independent of HTML, JSON and Prometheus.

Rates are per second; sizes and byte rates in bytes; `_ms` are milliseconds; `_at_ms` and `time_ms` are
wall-clock milliseconds since the epoch; fractions are between 0.0 and 1.0. Quota entities have the form of
`commands.EntityPairs`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from broker.control.client_telemetry import ClientTelemetry
from broker.control.commands import ConfigResource, EntityPairs, QuotaAlteration
from broker.control.rows.broker import (
    AuditEntry,
    ConfigRow,
    ConfigSynonym,
    Figures,
    Overview,
    PhaseRow,
    Place,
    QueueRow,
    TaskRow,
    TokenRow,
)
from broker.control.rows.connections import (
    AddressRow,
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    SelectorRow,
    ThrottledRow,
)
from broker.control.rows.quotas import (
    BrokerLimit,
    BrokerQuotas,
    ClientUsage,
    Decided,
    MatchType,
    MeasuredBy,
    ProbeRow,
    QuotaFilter,
    QuotaLimit,
    QuotaRow,
    QuotaUse,
    ResolvedLimit,
    RetryStormUse,
    ShadowUse,
)
from broker.control.rows.topics import GroupDetail, GroupRow, PartitionRow, TopicRow, TopicSize
from broker.metadata.changes import AuditFilter, AuditRow
from broker.quotas.kinds import QuotaKind
from broker.steps import Steps

__all__ = [
    "AddressRow",
    "AddressUse",
    "AuditEntry",
    "AuditFilter",
    "AuditRow",
    "BrokerLimit",
    "BrokerQuotas",
    "ClientUsage",
    "ConfigRow",
    "ConfigSynonym",
    "ConnectionLimitRow",
    "ConnectionRow",
    "Decided",
    "Figures",
    "Flow",
    "GroupDetail",
    "GroupRow",
    "LiveViewSource",
    "MatchType",
    "MeasuredBy",
    "Overview",
    "PartitionRow",
    "PhaseRow",
    "Place",
    "ProbeRow",
    "QueueRow",
    "QuotaFilter",
    "QuotaKind",
    "QuotaLimit",
    "QuotaRow",
    "QuotaUse",
    "ResolvedLimit",
    "RetryStormUse",
    "SelectorRow",
    "ShadowUse",
    "ThrottledRow",
    "TokenRow",
    "TopicRow",
    "TopicSize",
    "Views",
]


class LiveViewSource(Protocol):
    """The live views that broker.server passes in. All calls are fast and synchronous, and return the current
    state.
    """

    def figures(self) -> Figures: ...

    def broker_limits(self) -> Sequence[BrokerLimit]:
        """Return the four rates of the broker quota."""

    def retry_storm(self) -> RetryStormUse: ...

    def flow(self) -> Flow: ...

    def throttled(self) -> Iterable[ThrottledRow]:
        """Yield the connections that were throttled at the time of the call; rows are built lazily."""

    def connections(self) -> Iterable[ConnectionRow]:
        """Yield rows built lazily, so that the caller can pause between them."""

    def addresses(self) -> Sequence[AddressUse]: ...

    def controller_addresses(self) -> Sequence[AddressUse]: ...

    def connection_limits(self) -> Sequence[ConnectionLimitRow]: ...

    def quota_use(self) -> Iterable[QuotaUse | None]:
        """Yield the use of every rule with recent clients. None stands for sensors without a result."""

    def quota_use_of(self, entity: EntityPairs) -> Sequence[QuotaUse]:
        """Return the use of one entity."""

    def shadow_use(self) -> Sequence[ShadowUse]:
        """Return the use of every limit in shadow mode."""

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        """Return the callback's decision; None without a callback."""

    def usage(self) -> Iterable[ClientUsage]:
        """Yield every recently active client, built lazily. With very many clients, the least active are
        dropped.
        """

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        """Return the value of the sensor of this client or address; None without a sensor."""

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        """Return the throttle time for this use over the whole window; 0 up to the bound."""

    def topic_size(self, name: str) -> TopicSize: ...

    def partitions(self, topic: str) -> Iterable[PartitionRow]:
        """Yield rows by index, built lazily."""

    def groups(self) -> Iterable[GroupRow]:
        """Yield rows built lazily."""

    def group(self, group_id: str) -> GroupDetail | None: ...

    def tasks(self) -> list[TaskRow]: ...


class Views(Protocol):
    """The interface that webui builds on. Reading needs the role viewer, which authentication has checked."""

    @property
    def version(self) -> int:
        """The version of the metadata image; it changes with every change by an operator."""

    @property
    def client_telemetry(self) -> ClientTelemetry: ...

    @property
    def quota_callback(self) -> str:
        """The class of the quota callback that replaces the rules; "" without one."""

    def overview(self) -> Overview: ...

    def throttled(self) -> list[ThrottledRow]:
        """Return throttled connections, the longest remaining time first."""

    def each_throttled(self) -> Iterator[ThrottledRow]:
        """As `throttled`, in no order, built lazily."""

    def broker_quotas(self) -> BrokerQuotas:
        """Return the limits of the whole broker and of the cluster, with their use."""

    def flow(self) -> Flow:
        """Return how connections are muted and unmuted."""

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        """Filter as Kafka does (KIP-546): all components must match; strict excludes entities with other
        types.

        Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION as DescribeClientQuotas does.
        """

    def each_quota(
        self, components: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> Iterator[QuotaRow | None]:
        """As `quotas`, in no order, built lazily: ten thousand rows take a tenth of a second, and the caller
        can pause between them. All rules are from the same image. None stands for work without a row yet.
        """

    def quota(self, entity: EntityPairs) -> QuotaRow | None: ...

    def resolve(
        self,
        user: str | None,
        client_id: str | None,
        ip: str | None = None,
        changes: Sequence[QuotaAlteration] = (),
    ) -> Steps[list[tuple[ResolvedLimit, ResolvedLimit]]]:
        """Return the probes, the match and the use for each key, before and after `changes`.

        None as user is an anonymous connection; without `ip`, the address limit is left out. Raises ApiError
        INVALID_REQUEST as AlterClientQuotas would for `changes`.
        """

    def resolve_all(
        self,
        clients: Sequence[tuple[str, str]],
        keys: Collection[str],
        changes: Sequence[QuotaAlteration] = (),
    ) -> Iterator[list[tuple[ResolvedLimit, ResolvedLimit]] | None]:
        """Resolve many (user, client id) pairs for these keys; None stands for work without a result yet.
        Collects the use once for all of them; each client and key takes about 30 us.
        """

    def usage(self) -> list[ClientUsage]:
        """Return client usage, the busiest by bytes in and out first."""

    def each_usage(self) -> Iterator[ClientUsage]:
        """As `usage`, in no order, built lazily."""

    def connections(self) -> list[ConnectionRow]: ...

    def each_connection(self) -> Iterator[ConnectionRow]:
        """As `connections`, built lazily, for those that were open at the time of the call."""

    def addresses(self) -> list[AddressRow]:
        """Return addresses with a `connection_creation_rate` or a connection in the last hour."""

    def each_address(self) -> Iterator[AddressRow | None]:
        """As `addresses`, built lazily. None stands for work without a row yet."""

    def connection_limits(self) -> list[ConnectionLimitRow]:
        """Return the rows of the broker, of each listener, and of the controller's server if it exists."""

    def topics(self) -> list[TopicRow]: ...

    def each_topic(self) -> Iterator[TopicRow]:
        """As `topics`, built lazily."""

    def topic(self, name: str) -> TopicRow | None: ...

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        """Yield rows by index, built lazily; empty for an unknown topic."""

    def groups(self) -> list[GroupRow]: ...

    def each_group(self) -> Iterator[GroupRow]:
        """As `groups`, in no order, built lazily."""

    def group(self, group_id: str) -> GroupDetail | None: ...

    def tasks(self) -> list[TaskRow]: ...

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        """Return every setting of a topic or of the broker with its source, sorted by name.

        Raises ApiError as DescribeConfigs does. The empty broker name means the settings of all brokers.
        """

    def broker_config_version(self, name: str) -> int:
        """Return the version of the dynamic settings of the broker with this node id, "" for all brokers."""

    def tokens(self) -> list[TokenRow]: ...

    async def audit(self, query: AuditFilter) -> Iterable[AuditEntry]:
        """Return rows, the newest first, built lazily. Values of secrets read "(secret)"."""
