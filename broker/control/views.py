"""What the console and the REST API can see: rows, as values.

`Views` (broker.control.reading) answers them from the metadata image and from the live figures that the
composition root hands in as a `LiveViewSource`. Nothing here is on a client's path: rows are made when
somebody looks. Knows nothing of HTML, JSON or Prometheus, and of the broker's rooms only what the rows say.

Rates are per second; sizes and byte rates in bytes; `_ms` are milliseconds; `_at_ms` and `time_ms` are
wall-clock milliseconds since the epoch; fractions run from 0.0 to 1.0. A quota entity is written as in
`commands.EntityPairs`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from broker.control.client_telemetry import ClientTelemetry
from broker.control.commands import ConfigResource, EntityPairs, QuotaAlteration
from broker.control.rows.audit import AuditEntry
from broker.control.rows.broker_quotas import BrokerLimit, BrokerQuotas, RetryStormUse
from broker.control.rows.connections import (
    AddressRow,
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    ThrottledRow,
)
from broker.control.rows.flow import Flow, SelectorRow
from broker.control.rows.overview import Figures, Overview, PhaseRow, Place, QueueRow
from broker.control.rows.quotas import (
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
    ShadowUse,
)
from broker.control.rows.settings import ConfigRow, ConfigSynonym, TokenRow
from broker.control.rows.tasks import TaskRow
from broker.control.rows.topics import GroupDetail, GroupRow, PartitionRow, TopicRow, TopicSize
from broker.metadata.audit import AuditFilter, AuditRow
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
    """What the composition root hands in. Every call is cheap and synchronous, and answers the moment's
    state.
    """

    def figures(self) -> Figures: ...

    def broker_limits(self) -> Sequence[BrokerLimit]:
        """The four rates of the broker's own quota."""

    def retry_storm(self) -> RetryStormUse: ...

    def flow(self) -> Flow: ...

    def throttled(self) -> Iterable[ThrottledRow]:
        """Those who are held at the beginning, made as they are taken."""

    def connections(self) -> Iterable[ConnectionRow]:
        """Made as they are taken: one may do something else in between."""

    def addresses(self) -> Sequence[AddressUse]: ...

    def controller_addresses(self) -> Sequence[AddressUse]: ...

    def connection_limits(self) -> Sequence[ConnectionLimitRow]: ...

    def quota_use(self) -> Iterable[QuotaUse | None]:
        """Of every rule under which somebody has been seen lately. None: there is nothing yet, but some of
        many sensors were looked at.
        """

    def quota_use_of(self, entity: EntityPairs) -> Sequence[QuotaUse]:
        """The same of one entity."""

    def shadow_use(self) -> Sequence[ShadowUse]:
        """Of every limit in shadow mode."""

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        """None where no callback decides."""

    def usage(self) -> Iterable[ClientUsage]:
        """Of every client that has done something lately; the idlest of very many are forgotten. Made as they
        are taken.
        """

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        """What the sensor measures that counts for this client now, or this address; None without one."""

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        """What a client is told that has done so much for as long as is looked at; 0 up to the bound."""

    def topic_size(self, name: str) -> TopicSize: ...

    def partitions(self, topic: str) -> Iterable[PartitionRow]:
        """By index, made as they are taken."""

    def groups(self) -> Iterable[GroupRow]:
        """Made as they are taken."""

    def group(self, group_id: str) -> GroupDetail | None: ...

    def tasks(self) -> list[TaskRow]: ...


class Views(Protocol):
    """The surface that webui builds on; reading needs the role viewer, which the door has checked by letting
    one in.
    """

    @property
    def version(self) -> int:
        """Of the metadata image: changes whenever anything that an operator can edit has changed."""

    @property
    def client_telemetry(self) -> ClientTelemetry: ...

    @property
    def quota_callback(self) -> str:
        """The class that decides in the place of the quota rules, "" where they do."""

    def overview(self) -> Overview: ...

    def throttled(self) -> list[ThrottledRow]:
        """Longest remaining first."""

    def each_throttled(self) -> Iterator[ThrottledRow]:
        """As `throttled`, in no order, and made as they are taken."""

    def broker_quotas(self) -> BrokerQuotas:
        """The limits of the whole broker and of the cluster, with their use."""

    def flow(self) -> Flow:
        """How connections are held up and let go again."""

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        """Kafka's filter semantics (KIP-546): all components must match; strict: and no other entity type may
        be there.

        Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION as DescribeClientQuotas does.
        """

    def each_quota(
        self, components: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> Iterator[QuotaRow | None]:
        """As `quotas`, in no order, and made as they are taken: ten thousand take a tenth of a second, and
        who goes through them can let others have the thread in between. The rules are of one moment all the
        same. None: there is no row yet, but it has taken time.
        """

    def quota(self, entity: EntityPairs) -> QuotaRow | None: ...

    def resolve(
        self,
        user: str | None,
        client_id: str | None,
        ip: str | None = None,
        changes: Sequence[QuotaAlteration] = (),
    ) -> Steps[list[tuple[ResolvedLimit, ResolvedLimit]]]:
        """For each key the probes, the match and the use, as they are and as they would be after `changes`.
        None as user is an anonymous connection; the limit of an address is left out without one.

        Raises ApiError INVALID_REQUEST as AlterClientQuotas would for `changes`.
        """

    def resolve_all(
        self,
        clients: Sequence[tuple[str, str]],
        keys: Collection[str],
        changes: Sequence[QuotaAlteration] = (),
    ) -> Iterator[list[tuple[ResolvedLimit, ResolvedLimit]] | None]:
        """`resolve` of many (user, client id), for these keys only; None where there is nothing yet. The use
        is gathered once for all of them, which makes thousands bearable: some 30 us for each client and key.
        """

    def usage(self) -> list[ClientUsage]:
        """The busiest first, by bytes in and out."""

    def each_usage(self) -> Iterator[ClientUsage]:
        """As `usage`, in no order, and made as they are taken."""

    def connections(self) -> list[ConnectionRow]: ...

    def each_connection(self) -> Iterator[ConnectionRow]:
        """As `connections`, made as they are taken: of those that were open at the beginning."""

    def addresses(self) -> list[AddressRow]:
        """Those with a `connection_creation_rate`, and those that have connected in the last hour."""

    def each_address(self) -> Iterator[AddressRow | None]:
        """As `addresses`, made as they are taken. None: there is no row yet, but it has taken time."""

    def connection_limits(self) -> list[ConnectionLimitRow]:
        """The broker's, then each listener's; then those of the controller's server, where there is one."""

    def topics(self) -> list[TopicRow]: ...

    def each_topic(self) -> Iterator[TopicRow]:
        """As `topics`, made as they are taken."""

    def topic(self, name: str) -> TopicRow | None: ...

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        """By index, made as they are taken; empty where there is no such topic."""

    def groups(self) -> list[GroupRow]: ...

    def each_group(self) -> Iterator[GroupRow]:
        """As `groups`, in no order, and made as they are taken."""

    def group(self, group_id: str) -> GroupDetail | None: ...

    def tasks(self) -> list[TaskRow]: ...

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        """Every setting of a topic or of the broker, sorted by name, with where its value comes from.

        Raises ApiError as DescribeConfigs does. The broker of the empty name shows what is set for all
        brokers.
        """

    def broker_config_version(self, name: str) -> int:
        """Of what was set for the broker of this node id while it ran; "" for all of them."""

    def tokens(self) -> list[TokenRow]: ...

    async def audit(self, query: AuditFilter) -> Iterable[AuditEntry]:
        """Newest first, made as they are taken. The values of secrets read "(secret)"."""
