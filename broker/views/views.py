"""The views of the console and the REST API: rows, as values.

`Views` joins the metadata image with a `LiveViewSource`, which broker.server.broker passes in. Rows are built
on request, never while a client waits. Independent of HTML, JSON and Prometheus.

Rates are per second; sizes and byte rates in bytes; `_ms` are milliseconds; `_at_ms` and `time_ms` are
wall-clock milliseconds since the epoch; fractions are between 0.0 and 1.0. Quota entities have the form of
`commands.EntityPairs`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from broker.common.errors import ApiError
from broker.common.principal import ANONYMOUS
from broker.common.steps import Steps
from broker.controller.alerts import shown_url
from broker.controller.client_quotas import proposed
from broker.controller.commands import ConfigResource, EntityPairs, QuotaAlteration
from broker.controller.control import Committer, Control
from broker.controller.describe import describe_in_steps
from broker.controller.rows.alerts import DestinationRow, RuleRow
from broker.controller.rows.broker import (
    AuditEntry,
    BrokerMetrics,
    ConfigRange,
    ConfigRow,
    ConfigSynonym,
    Overview,
    PhaseRow,
    QueueRow,
    ScramRow,
    ServerInfo,
    TaskRow,
    TokenRow,
)
from broker.controller.rows.connections import (
    AddressRow,
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    SelectorRow,
    ThrottledRow,
)
from broker.controller.rows.quotas import (
    BrokerLimit,
    BrokerQuotas,
    ClientUsage,
    Decided,
    FirstWait,
    MatchType,
    MeasuredBy,
    NodeUse,
    OverriddenBy,
    ProbeRow,
    QuotaFilter,
    QuotaLimit,
    QuotaRow,
    QuotaUse,
    ResolvedLimit,
    RetryStormUse,
    ShadowUse,
)
from broker.controller.rows.topics import GroupDetail, GroupRow, PartitionRow, TopicRow, TopicSize
from broker.controller.rows.transactions import TransactionDetail, TransactionRow
from broker.controller.rows.upstream import GatewayRow, GatewaySums, RefusedRecords, ShareRow, UpstreamRow
from broker.controller.tokens import Credentials, identify
from broker.controller.undo import inverse_of
from broker.metadata.changes import AuditFilter, AuditRow, Kind
from broker.metadata.image import AdminToken, Image, QuotaEntry, ScramCredential, Topic, is_internal
from broker.metadata.sealing import is_secret
from broker.quotas.client_quota_requests import Component, EntityFilter
from broker.quotas.client_quota_requests import MatchType as KafkaMatchType
from broker.quotas.entity import IP, Entity
from broker.quotas.kinds import QuotaKind
from broker.security.acl.authorizer import Authorizer
from broker.telemetry.state import Telemetry
from broker.views.acls import AclViews
from broker.views.all_clients import all_clients
from broker.views.client_telemetry import ClientTelemetry
from broker.views.connection_search import ConnectionQuery, ConnectionsElsewhere
from broker.views.delegation_tokens import DelegationTokenRow, DelegationTokenViews
from broker.views.live_views import LiveViewSource
from broker.views.quota_rows import QuotaRows, address_key, address_rows, broker_quotas
from broker.views.resolving import Client, Resolver, all_resolved, keys_for, resolved
from broker.views.upstream_views import NoShares, ShareViews, UpstreamViewSource

__all__ = [
    "AclViews",
    "AddressRow",
    "AddressUse",
    "AuditEntry",
    "AuditFilter",
    "AuditRow",
    "BrokerLimit",
    "BrokerMetrics",
    "BrokerQuotas",
    "ClientUsage",
    "ConfigRange",
    "ConfigRow",
    "ConfigSynonym",
    "ConnectionLimitRow",
    "ConnectionRow",
    "Decided",
    "DelegationTokenRow",
    "DelegationTokenViews",
    "DestinationRow",
    "FirstWait",
    "Flow",
    "GroupDetail",
    "GroupRow",
    "LiveViewSource",
    "MatchType",
    "MeasuredBy",
    "NodeUse",
    "OverriddenBy",
    "Overview",
    "PartitionRow",
    "PhaseRow",
    "ProbeRow",
    "QueueRow",
    "QuotaFilter",
    "QuotaKind",
    "QuotaLimit",
    "QuotaRow",
    "QuotaUse",
    "ResolvedLimit",
    "RetryStormUse",
    "RuleRow",
    "ScramRow",
    "SelectorRow",
    "ServerInfo",
    "ShadowUse",
    "ThrottledRow",
    "TokenRow",
    "TopicRow",
    "TopicSize",
    "TransactionDetail",
    "TransactionRow",
    "Views",
    "all_gateways",
]

_MATCHES: Final = {
    MatchType.EXACT: KafkaMatchType.EXACT,
    MatchType.DEFAULT: KafkaMatchType.DEFAULT,
    MatchType.ANY: KafkaMatchType.SPECIFIED,
}


class Views:
    """The rows of the pages, the REST API and the Describe handlers. Reading needs the role viewer, which
    authentication has checked.

    Every call builds its rows anew, except those of unused rules (`quota_rows`).
    """

    def __init__(
        self,
        control: Control,
        live: LiveViewSource,
        committer: Committer,
        server_info: Callable[[], ServerInfo],
        telemetry: Telemetry,
        upstream: UpstreamViewSource | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`upstream` is a gateway's; a broker has none. `authorizer` is a broker's, if it has one."""
        self.acls = AclViews(lambda: control.image, authorizer)
        self.delegation_tokens = DelegationTokenViews(
            lambda: control.image, lambda: bool(control.config.security.delegation_token_secret_key)
        )
        self.client_telemetry = ClientTelemetry(lambda: control.image, telemetry)
        self._control = control
        self._live = live
        self._committer = committer
        self.server_info = server_info
        self._upstream = upstream
        self._shares: ShareViews = NoShares() if upstream is None else upstream.shares
        self._counted: tuple[Mapping[EntityPairs, QuotaEntry], int] = ({}, 0)
        self._topic_counts: tuple[Mapping[str, Topic], int, int] = ({}, 0, 0)
        self._rules = QuotaRows(live, self._shares, rules_decide=not control.config.quotas.callback_class)

    @property
    def is_gateway(self) -> bool:
        """Whether topics and groups are those of an upstream cluster, which are not shown."""
        return self._upstream is not None

    @property
    def version(self) -> int:
        """The version of the metadata image; it changes with every change by an operator."""
        return self._control.image.version

    @property
    def quota_callback(self) -> str:
        """The class of the quota callback that replaces the rules; "" without one."""
        return self._control.config.quotas.callback_class

    def overview(self) -> Overview:
        image, info, metrics = self._control.image, self.server_info(), self._live.metrics()
        others = self.others()
        ip_quota_rules = self._ip_quota_rules()
        user_topics, partitions = self._count_topics()
        return Overview(
            cluster_id=image.cluster_id,
            node_id=info.node_id,
            software_version=info.software_version,
            bootstrap=info.bootstrap,
            console=info.console,
            topics=len(image.topics),
            user_topics=user_topics,
            partitions=partitions,
            quota_rules=len(image.quotas) - ip_quota_rules,
            ip_quota_rules=ip_quota_rules,
            metrics=metrics,
            upstream=None if self._upstream is None else self._upstream.summary(),
            gateways=None if others is None else all_gateways(metrics, others),
        )

    def _ip_quota_rules(self) -> int:
        """Count the rules for addresses, once for each state of the rules: 10,000 take a millisecond."""
        quotas = self._control.image.quotas
        if quotas is not self._counted[0]:
            self._counted = quotas, sum(entity[0][0] == IP for entity in quotas)
        return self._counted[1]

    def _count_topics(self) -> tuple[int, int]:
        """Count the topics of users, and the partitions of all topics, once for each state of the topics."""
        topics = self._control.image.topics
        if topics is not self._topic_counts[0]:
            own = sum(map(is_internal, topics))
            partitions = sum(topic.partitions for topic in topics.values())
            self._topic_counts = topics, len(topics) - own, partitions
        return self._topic_counts[1:]

    def upstream(self) -> UpstreamRow | None:
        """Return the upstream cluster of a gateway; None for a broker."""
        return None if self._upstream is None else self._upstream.row()

    def refused_records(self) -> Sequence[RefusedRecords]:
        """Return the records of the gateways' topics that no gateway wrote; empty for a broker."""
        return () if self._upstream is None else self._upstream.refused()

    def gateways(self) -> list[GatewayRow]:
        """Return the gateways of the upstream cluster that share limits; empty for a broker."""
        return sorted(self._shares.gateways(), key=lambda row: row.gateway_id)

    def others(self) -> GatewaySums | None:
        """Return the sums of the other gateways that share limits; None if no limits are shared."""
        return self._shares.others()

    def each_share(self) -> Iterator[ShareRow]:
        """Yield the shares of all gateways, in no order, built lazily; none for a broker."""
        return iter(self._shares.shares())

    def throttled(self) -> list[ThrottledRow]:
        """Return throttled connections, the longest remaining time first. At a gateway that shares limits
        also those of the other gateways, as far as their reports list them.
        """
        return sorted(self.each_throttled(), key=lambda row: -row.remaining_ms)

    def each_throttled(self) -> Iterator[ThrottledRow]:
        """As `throttled`, in no order, built lazily."""
        return chain(self._live.throttled(), self._shares.throttled())

    def unlisted_throttled(self) -> int:
        """Return how many throttled connections of other gateways `throttled` leaves out."""
        return self._shares.unlisted_throttled()

    def unlisted_use(self) -> int:
        """Return how many limits that other gateways use are missing in the use of the rules."""
        return self._shares.unlisted_use()

    def broker_quotas(self) -> BrokerQuotas:
        """Return the limits of the whole broker and of the cluster, with their use."""
        control, topics = self._control, self._control.image.topics.values()
        return broker_quotas(
            control.config.broker_quotas,
            self._live.broker_limits(),
            self._live.retry_storm(),
            (len(topics), sum(topic.partitions for topic in topics)),
            self.broker_config_version(str(control.config.broker.node_id)),
        )

    def flow(self) -> Flow:
        """Return how connections are muted and unmuted."""
        return self._live.flow()

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        """Filter as Kafka does (KIP-546): all components must match; strict excludes entities with other
        types.

        Raises ApiError INVALID_REQUEST or UNSUPPORTED_VERSION as DescribeClientQuotas does.
        """
        rows = self.each_quota(components, strict=strict)
        return sorted((row for row in rows if row is not None), key=_by_entity)

    def each_quota(
        self, components: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> Iterator[QuotaRow | None]:
        """As `quotas`, in no order, built lazily: ten thousand rows take a tenth of a second, and the caller
        can pause between them. All rules are from the same image. None stands for work without a row yet.
        """
        wanted = EntityFilter(
            [Component(each.entity_type, _MATCHES[each.match], each.name) for each in components],
            strict=strict,
        )
        if not components and not strict:
            return self._rules.each(self._control.image.quotas)
        return self._rules.each(self._control.image.quotas, lambda pairs: wanted.matches(Entity.of(pairs)))

    def quota(self, entity: EntityPairs) -> Steps[QuotaRow | None]:
        quotas = self._control.image.quotas
        entry = quotas.get(Entity.of(entity).pairs)
        return None if entry is None else (yield from self._rules.one(entry, quotas))

    def limited_keys(self, entity: EntityPairs) -> tuple[str, ...]:
        """Return the keys of the entity's limits."""
        entry = self._control.image.quotas.get(Entity.of(entity).pairs)
        return () if entry is None else tuple(entry.limits)

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
        client = Client(user or ANONYMOUS, client_id or "", address_key(ip or "", self._ipv6_prefix))
        return resolved(self._resolver(changes), client, keys_for(client))

    def resolve_all(
        self,
        clients: Sequence[tuple[str, str]],
        keys: Collection[str],
        changes: Sequence[QuotaAlteration] = (),
    ) -> Iterator[list[tuple[ResolvedLimit, ResolvedLimit]] | None]:
        """Resolve many (user, client id) pairs for these keys; None stands for work without a result yet.
        Collects the use once for all of them; each client and key takes about 30 us.
        """
        return all_resolved(self._resolver(changes), clients, keys)

    @property
    def _ipv6_prefix(self) -> int:
        return self._control.config.connections.ipv6_prefix_length

    def usage(self) -> list[ClientUsage]:
        """Return client usage, the busiest by bytes in and out first. At a gateway that shares limits, also
        that of the clients which the other gateways list.
        """
        rows = filter(None, self.each_usage())
        return sorted(rows, key=lambda row: -(row.bytes_in_per_s + row.bytes_out_per_s))

    def each_usage(self) -> Iterator[ClientUsage | None]:
        """As `usage`, in no order, built lazily. None stands for work without a row yet."""
        return all_clients(self._live.usage(), self._shares.clients(), self._live.limited_by)

    def unheard_gateways(self) -> list[str]:
        """Return the ids of other gateways whose clients and addresses are not known at all."""
        return sorted(self._shares.unheard())

    def clients_elsewhere(self) -> Iterable[ClientUsage]:
        """Yield the clients that other gateways list, without `limited_by`; one may be at several."""
        return self._shares.clients()

    def unlisted_clients(self) -> int:
        """Return how many clients of other gateways `usage` leaves out."""
        return self._shares.unlisted_clients()

    async def connections_elsewhere(self, query: ConnectionQuery) -> ConnectionsElsewhere:
        """Return the connections of the other gateways that share limits, which takes two seconds at most."""
        return await self._shares.connections(query)

    def connections(self) -> list[ConnectionRow]:
        return list(self._live.connections())

    def each_connection(self) -> Iterator[ConnectionRow]:
        """As `connections`, built lazily, for those that were open at the time of the call."""
        return iter(self._live.connections())

    def addresses(self) -> list[AddressRow]:
        """Return addresses with a `connection_creation_rate` or a connection in the last hour. At a gateway
        that shares limits, also those that the other gateways list.
        """
        return [row for row in self.each_address() if row is not None]

    def each_address(self) -> Iterator[AddressRow | None]:
        """As `addresses`, built lazily. None stands for work without a row yet."""
        live = self._live
        return address_rows(
            self._control.image,
            live.addresses(),
            live.controller_addresses(),
            self._ipv6_prefix,
            self._shares.addresses(),
        )

    def unlisted_addresses(self) -> int:
        """Return how many addresses of other gateways `addresses` leaves out."""
        return self._shares.unlisted_addresses()

    def connection_limits(self) -> list[ConnectionLimitRow]:
        """Return the rows of the broker, of each listener, and of the controller's server if it exists."""
        return list(self._live.connection_limits())

    def topics(self) -> list[TopicRow]:
        return list(self.each_topic())

    def each_topic(self) -> Iterator[TopicRow]:
        """As `topics`, built lazily."""
        return (self._topic_row(name, topic) for name, topic in sorted(self._control.image.topics.items()))

    def topic(self, name: str) -> TopicRow | None:
        topic = self._control.image.topics.get(name)
        return None if topic is None else self._topic_row(name, topic)

    def _topic_row(self, name: str, topic: Topic) -> TopicRow:
        size = self._live.topic_size(name)
        configs = tuple(sorted(topic.configs.items()))
        return TopicRow(
            name,
            topic.topic_id,
            topic.partitions,
            topic.internal,
            size.size_bytes,
            size.records,
            configs,
            topic.version,
        )

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        """Yield rows by index, built lazily; empty for an unknown topic."""
        return iter(self._live.partitions(topic))

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        return self._live.group(group_id)

    def groups(self) -> list[GroupRow]:
        return sorted(filter(None, self._live.groups()), key=lambda row: row.group_id)

    def each_group(self) -> Iterator[GroupRow | None]:
        """As `groups`, in no order, built lazily, with None after work that produced no row."""
        return iter(self._live.groups())

    def each_transaction(self) -> Iterator[TransactionRow | None]:
        """Yield the transactional ids in no order, built lazily, with None after work that produced no
        row.
        """
        return iter(self._live.transactions())

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        return self._live.transaction(transactional_id)

    def tasks(self) -> list[TaskRow]:
        return self._live.tasks()

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        """Return every setting of a topic or of the broker with its source, sorted by name.

        Raises ApiError as DescribeConfigs does. The empty broker name means the settings of all brokers.
        """
        return describe_in_steps(resource, self._control.image, self._control.configuration)

    def broker_config_version(self, name: str) -> int:
        """Return the version of the dynamic settings of the broker with this node id, "" for all brokers."""
        return self._control.image.broker_config_version(name)

    def tokens(self) -> list[TokenRow]:
        return [_token_row(token) for _, token in sorted(self._control.image.tokens.items())]

    def scram_users(self) -> Iterator[ScramRow]:
        """Yield every user's credentials, by user and mechanism."""
        for user, credentials in sorted(self._control.image.scram.items()):
            for mechanism in credentials:
                yield self._scram_row(user, mechanism, credentials[mechanism])

    def scram_user(self, user: str, mechanism: str) -> ScramRow | None:
        known = self._control.image.scram.get(user, {}).get(mechanism)
        return None if known is None else self._scram_row(user, mechanism, known)

    @staticmethod
    def _scram_row(user: str, mechanism: str, known: ScramCredential) -> ScramRow:
        return ScramRow(
            user, mechanism, known.iterations, known.version, known.changed_at_ms, known.changed_by
        )

    def alert_rules(self) -> Iterator[RuleRow]:
        """Yield the alert rules by name, without what they evaluate to."""
        for name, each in sorted(self._control.image.alert_rules.items()):
            yield RuleRow(name, each.rule, each.version, each.changed_at_ms, each.changed_by)

    def alert_destinations(self) -> Iterator[DestinationRow]:
        """Yield the destinations of notifications by name, without their secrets."""
        rules = self._control.image.alert_rules
        for name, each in sorted(self._control.image.alert_destinations.items()):
            known = each.destination
            yield DestinationRow(
                name,
                "" if known is None else known.kind.value,
                "" if known is None else shown_url(known.url),
                () if known is None else tuple(known.headers),
                tuple(sorted(rule for rule in rules if name in rules[rule].rule.destinations)),
                each.version,
                each.changed_at_ms,
                each.changed_by,
            )

    def identify(self, secret: str) -> TokenRow | None:
        """Return the token with this secret; takes some microseconds per existing token."""
        token = identify(secret, self._control.image)
        return None if token is None else _token_row(token)

    def credentials_of(self, name: str) -> Credentials:
        """Return the credentials of a name; never fails for unknown names."""
        token = self._control.image.tokens.get(name)
        return Credentials(None if token is None else _token_row(token), token)

    async def audit(self, query: AuditFilter) -> Iterator[AuditEntry]:
        """Return rows, the newest first, built lazily. Values of secrets read "(secret)"."""
        rows = await self._committer.history(query)
        image = self._control.image
        return (_entry(row, image) for row in rows)

    def _resolver(self, alterations: Sequence[QuotaAlteration]) -> Steps[Resolver]:
        image = self._control.image
        others = yield from proposed(alterations, image, self._ipv6_prefix)
        return Resolver(image.quotas, others, self._live, self._shares)


def all_gateways(own: BrokerMetrics, others: GatewaySums) -> GatewaySums:
    """Return the sums of all gateways, the one with the metrics `own` included."""
    return GatewaySums(
        others.gateways + 1,
        others.connections + own.connections,
        others.throttled + own.throttled,
        others.bytes_in_per_s + own.bytes_in_per_s,
        others.bytes_out_per_s + own.bytes_out_per_s,
        others.requests_per_s + own.requests_per_s,
    )


def _by_entity(row: QuotaRow) -> list[tuple[str, bool, str]]:
    """Sort named entities before the default of the same type."""
    return [(kind, name is None, name or "") for kind, name in row.entity]


def _token_row(token: AdminToken) -> TokenRow:
    role, at_ms, by = token.role.name.lower(), token.changed_at_ms, token.changed_by
    return TokenRow(token.name, role, at_ms, by, token.version, token.expires_at_ms, token.password_at_ms)


def _entry(row: AuditRow, image: Image) -> AuditEntry:
    final = None
    try:
        inverse_of(row, (), image)
    except ApiError as refusal:
        final = refusal.message
    shown = msgspec.structs.asdict(row)
    if _is_secret(row):
        shown |= {"old": row.old and "(secret)", "new": row.new and "(secret)"}
    return AuditEntry(**shown, final=final)


def _is_secret(row: AuditRow) -> bool:
    return row.kind in (Kind.ADMIN_TOKEN, Kind.USER_SCRAM) or is_secret(row.kind, row.key)
