"""A broker as the console sees it, in memory: quotas that can be altered, clients, throttles.

Used by the tests beside it and by the demo server. The rules are Kafka's, as far as the console shows them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.common.temporary_limits import TemporaryLimit
from broker.config.listeners import Address
from broker.config.sections.console import ConsoleConfig
from broker.config.table import setting_of
from broker.controller.commands import (
    Actor,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CloseConnection,
    Command,
    ConfigAlteration,
    ConfigResource,
    CreateAcls,
    DeleteAcls,
    DrainGateway,
    EntityPairs,
    EntryOutcome,
    IncrementalAlterConfigs,
    IssueAdminToken,
    OpType,
    QuotaAlteration,
    QuotaOutcome,
    ResourceOutcome,
    ResourceType,
    RevokeAdminToken,
    Role,
    Undo,
)
from broker.controller.delegation_tokens import ExpireDelegationToken
from broker.controller.describe import range_of
from broker.controller.rows.broker import (
    AuditEntry,
    BrokerMetrics,
    ConfigRow,
    ConfigSynonym,
    DiskRow,
    Overview,
    ServerInfo,
    TaskRow,
    TokenRow,
)
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.connections import (
    AddressRow,
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    SoftwareRow,
    ThrottledRow,
)
from broker.controller.rows.quotas import (
    BrokerQuotas,
    ClientUsage,
    Decided,
    MatchType,
    NodeUse,
    QuotaFilter,
    QuotaLimit,
    QuotaRow,
    ShadowUse,
)
from broker.controller.rows.topics import (
    GroupDetail,
    GroupRow,
    PartitionRow,
    TopicClientRow,
    TopicGroupRow,
    TopicRow,
    TransactionDetail,
    TransactionRow,
)
from broker.controller.rows.upstream import (
    DrainRow,
    DrainState,
    GatewayRow,
    GatewaySums,
    ShareRow,
    UpstreamRow,
    UpstreamSummary,
)
from broker.controller.tokens import SetPassword
from broker.controller.transaction_changes import AbortResult, AbortTransaction
from broker.quotas.client_quota_requests import validate_entity
from broker.quotas.remote_use import Clients
from broker.security.console_links import ConsoleLinks
from broker.views.client_telemetry import ClientTelemetry
from broker.views.connection_search import ConnectionQuery, RemoteConnections
from broker.views.console import all_gateways
from broker.views.quota_rows import clients_by_limit, rules_in_steps
from broker.views.readings import Readings
from tests.controller.world import AUTHORIZER, World
from tests.support.fake_shares import FakeShares
from tests.webui.fake_access import ADMIN, EDITOR, SECRETS, VIEWER, FakeAccess
from tests.webui.fake_acls import FakeAcls
from tests.webui.fake_alerts import ALERT_PLANNERS, FakeAlerts, FakeAlertViews
from tests.webui.fake_broker_quotas import fake_broker_quotas, refused_value
from tests.webui.fake_delegation_tokens import TOKENS_ENABLED, FakeDelegationTokens
from tests.webui.fake_resolving import FakeResolving, quota_entry
from tests.webui.fake_scram import FakeScram
from tests.webui.fake_temporary import FakeTemporary
from tests.webui.fake_trail import FakeTrail
from tests.webui.rows import NOW_MS, broker_metrics, idle_flow, limits
from tests.webui.telemetry_world import TelemetryWorld
from webui.backend import Backend

KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEY = "connection_creation_rate"

SERVES = DrainRow(DrainState.SERVING, 0, 0, (), None, None)


def console_config(host: str = "127.0.0.1", port: int = 0, **settings: Any) -> ConsoleConfig:
    """Return the settings of a console that answers for weir.test, whose records a viewer may read."""
    ours = {"allowed_hosts": ("weir.test",), "browse_role": "viewer", **settings}
    return ConsoleConfig(Address(host, port), **ours)


def address_rows(broker: "FakeBroker") -> list[AddressRow]:
    """As broker.views.quota_views makes them."""
    uses = {each.address: (each, None) for each in broker.address_uses}
    for each in broker.controller_uses:
        uses[each.address] = (uses.get(each.address, (None, None))[0], each)
    default_row = broker.rows.get((("ip", None),))
    default = None if default_row is None else default_row.value(IP_KEY)
    there: dict[str, tuple[AddressUse, ...]] = {}
    for each in broker.remote_shares.addresses():
        there[each.address] = (*there.get(each.address, ()), each)
        uses.setdefault(each.address, (None, None))
    rows = []
    for row in broker.in_force():
        if row.entity[0][0] == "ip":
            address, limit = row.entity[0][1], row.value(IP_KEY)
            mine = (None, None) if address is None else uses.pop(address, (None, None))
            rows.append(
                AddressRow(
                    address,
                    limit,
                    default if limit is None else limit,
                    row.version,
                    row.changed_at_ms,
                    row.changed_by,
                    *mine,
                    there.get(address or "", ()),
                    next(iter(row.temporary), None),
                )
            )
    return rows + [
        AddressRow(address, None, default, 0, 0, "", *both, there.get(address, ()))
        for address, both in uses.items()
    ]


def default_of(name: str) -> str:
    setting = setting_of(name)
    return "" if setting is None else range_of(setting).default or ""


def config_row(name: str, value: str, is_changed: bool) -> ConfigRow:
    """As broker.controller.describe makes it of a setting that was changed for this broker, or never."""
    setting = setting_of(name)
    if setting is None:
        return ConfigRow(name, value, 5, 2, False, False, "")
    known = range_of(setting)
    default = ConfigSynonym(name, known.default, 5)
    own = (ConfigSynonym(name, None if setting.sensitive else value, 2),) if is_changed else ()
    return ConfigRow(
        name,
        None if setting.sensitive else value,
        2 if is_changed else 5,
        setting.kind.type,
        not setting.dynamic,
        setting.sensitive,
        setting.documentation,
        (*own, default),
        known,
    )


def summary_of(row: UpstreamRow) -> UpstreamSummary:
    return UpstreamSummary(row.cluster_id, row.condition, len(row.nodes), row.connected)


@dataclass
class FakeBroker(
    FakeAccess,
    FakeAcls,
    FakeAlerts,
    FakeDelegationTokens,
    FakeResolving,
    FakeScram,
    FakeTemporary,
    FakeTrail,
):
    """Both halves that the console needs, Views and changes."""

    rows: dict[EntityPairs, QuotaRow] = field(default_factory=dict)
    temporaries: dict[EntityPairs, dict[str, tuple[TemporaryLimit, str]]] = field(default_factory=dict)
    connection_rows: list[ConnectionRow] = field(default_factory=list)
    remote_connections: RemoteConnections = field(default_factory=RemoteConnections)
    queries: list[ConnectionQuery] = field(default_factory=list)
    unlisted_uses: int = 0
    unlisted_client_count: int = 0
    unlisted_address_count: int = 0
    without_report: list[str] = field(default_factory=list)
    remote_shares: FakeShares = field(default_factory=FakeShares)
    throttled_here: dict[str, list[Clients]] = field(default_factory=dict)
    throttled_rows: list[ThrottledRow] = field(default_factory=list)
    address_uses: list[AddressUse] = field(default_factory=list)
    controller_uses: list[AddressUse] = field(default_factory=list)
    secrets: dict[str, TokenRow] = field(default_factory=SECRETS.copy)
    topic_rows: list[TopicRow] = field(default_factory=list)
    topic_clients: dict[str, list[TopicClientRow]] = field(default_factory=dict)
    group_rows: list[GroupDetail] = field(default_factory=list)
    transaction_rows: list[TransactionDetail] = field(default_factory=list)
    trail: list[AuditEntry] = field(default_factory=list)
    limit_rows: list[ConnectionLimitRow] = field(default_factory=limits)
    task_rows: list[TaskRow] = field(default_factory=list)
    flow_row: Flow = field(default_factory=idle_flow)
    broker_use: dict[str, tuple[float, int, int, int]] = field(default_factory=dict)
    now: BrokerMetrics = field(default_factory=broker_metrics)
    passwords: dict[str, str] = field(default_factory=dict)
    hashing: list[str] = field(default_factory=list)
    links: ConsoleLinks = field(default_factory=lambda: ConsoleLinks(b"k" * 32))
    token_rows: list[TokenRow] = field(default_factory=lambda: [ADMIN, EDITOR, VIEWER])
    observed: dict[EntityPairs, dict[str, float]] = field(default_factory=dict)
    usage_rows: list[ClientUsage] = field(default_factory=list)
    shadow_use: dict[tuple[EntityPairs, str], ShadowUse] = field(default_factory=dict)
    endpoints: tuple[ClientEndpoint, ...] = (ClientEndpoint("127.0.0.1:9092"),)
    callback: str = ""
    decisions: dict[str, Decided] = field(default_factory=dict)
    at_nodes: dict[str, tuple[NodeUse, ...]] = field(default_factory=dict)
    node_configs: list[ConfigRow] = field(default_factory=list)
    topic_count: int = 0
    own_topic_count: int = 0
    upstream_row: UpstreamRow | None = None
    drain_row: DrainRow = SERVES
    readings: Readings = field(default_factory=Readings)
    gateway_rows: list[GatewayRow] = field(default_factory=list)
    share_rows: list[ShareRow] = field(default_factory=list)
    other_gateways: GatewaySums | None = None
    unlisted: int = 0
    is_ready: bool = True
    refused_headers: Counter[str] = field(default_factory=Counter)
    disk_rows: list[DiskRow] = field(default_factory=list)
    metrics: Callable[[], Iterable[bytes]] = lambda: (b"# HELP up x\n", b"", b"# TYPE up gauge\nup 1\n")
    version: int = 1
    telemetry: TelemetryWorld = field(default_factory=TelemetryWorld)
    metadata: World = field(default_factory=partial(World, AUTHORIZER, TOKENS_ENABLED))
    super_users: tuple[str, ...] = ()
    everyone_if_no_acl: bool = False
    alerts: FakeAlertViews = field(default_factory=FakeAlertViews)
    now_ms: int = NOW_MS
    applied: list[tuple[AlterClientQuotas, Actor]] = field(default_factory=list)
    overviews: int = 0
    altered: list[tuple[ConfigAlteration, Actor]] = field(default_factory=list)
    configs: dict[str, str] = field(
        default_factory=lambda: {
            "request.log.apis": "",
            "request.log.client.ids": "",
            "request.log.max.per.second": "100",
        }
    )

    @property
    def views(self) -> "FakeViews":
        return FakeViews(self)

    def backend(self) -> Backend:
        return Backend(
            control=self,  # type: ignore[arg-type]
            views=self.views,  # type: ignore[arg-type]
            redeem=self.redeem,
            hash_password=self.hash_password,
            metrics=lambda: self.metrics(),
            ready=lambda: self.is_ready,
            alerts=self.alerts,
            refused_headers=self.refused_headers,
        )

    async def apply(self, command: Command[Any], actor: Actor) -> Any:
        if isinstance(command, Undo):
            return self._undo(command, actor)
        if isinstance(command, AbortTransaction):
            return self._abort(command, actor)
        if isinstance(command, CloseConnection):
            return self._close(command, actor)
        if isinstance(command, DrainGateway):
            return self._drain(actor)
        if isinstance(command, IssueAdminToken):
            return self._issue(command, actor)
        if isinstance(command, RevokeAdminToken):
            return self._revoke(command, actor)
        if isinstance(command, SetPassword):
            return self._set_password(command, actor)
        if type(command) in ALERT_PLANNERS:
            return self._alter_alerts(command, actor)
        if isinstance(command, CreateAcls | DeleteAcls):
            return self._alter_acls(command, actor)
        if isinstance(command, ExpireDelegationToken):
            return self._expire_token(command, actor)
        if isinstance(command, AlterUserScramCredentials):
            return self._alter_scram(command, actor)
        if isinstance(command, IncrementalAlterConfigs):
            only = command.validate_only
            if command.all_or_none:
                checked = [self._configure(each, actor, True) for each in command.resources]
                if not all(outcome.ok for outcome in checked):
                    return checked
            return [self._configure(alteration, actor, only) for alteration in command.resources]
        if actor.role < Role.EDITOR:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role editor.")
        self.applied.append((command, actor))
        if command.all_or_none:
            checked = [self._alter(entry, actor, True) for entry in command.entries]
            if not all(outcome.ok for outcome in checked):
                return checked
        return [self._alter(entry, actor, command.validate_only) for entry in command.entries]

    def _configure(self, alteration: ConfigAlteration, actor: Actor, validate_only: bool) -> ResourceOutcome:
        """Of what the broker would refuse, the role and one API that there is not."""
        if alteration.resource.type == ResourceType.CLIENT_METRICS:
            self.version += not validate_only
            return self.telemetry.configure(alteration, actor, validate_only=validate_only)
        if actor.role < Role.ADMIN:
            return ResourceOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        if any(op.value == "Konsume" for op in alteration.ops):
            return ResourceOutcome(ErrorCode.INVALID_REQUEST, "There is no Konsume")
        if alteration.expected_version not in (None, len(self.altered)):
            return ResourceOutcome(ErrorCode.INVALID_UPDATE_VERSION, "Settings were changed.")
        refusal = refused_value(alteration.ops)
        if refusal is not None:
            return ResourceOutcome(ErrorCode.INVALID_REQUEST, refusal)
        if validate_only:
            return ResourceOutcome(resource=alteration.resource)
        self.altered.append((alteration, actor))
        self.version += 1
        for op in alteration.ops:
            if op.op is OpType.DELETE:
                self.configs.pop(op.key, None)
            else:
                self.configs[op.key] = op.value or ""
        return ResourceOutcome(resource=alteration.resource)

    def _alter(self, entry: QuotaAlteration, actor: Actor, validate_only: bool) -> QuotaOutcome:
        def refused(error: ErrorCode, message: str) -> QuotaOutcome:
            return QuotaOutcome(error, message, entry.entity)

        row = next((row for row in self.in_force() if row.entity == entry.entity), None)
        try:
            validate_entity(entry.entity)
        except ApiError as error:
            return refused(error.code, error.message or "")
        for op in entry.ops:
            if op.key not in (IP_KEY,) if entry.entity[0][0] == "ip" else op.key not in KEYS:
                return refused(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
            if op.value is not None and op.key.endswith("byte_rate") and op.value != int(op.value):
                return refused(ErrorCode.INVALID_REQUEST, f"{op.key} must be a whole number")
        if entry.expected_version is not None and entry.expected_version != (row.version if row else 0):
            return refused(ErrorCode.INVALID_UPDATE_VERSION, "The entity was changed since it was read.")
        if (outcome := self._refused_times(entry)) is not None:
            return outcome
        if not validate_only and entry.temporary:
            self._set_temporary(entry, actor.name)
        if not validate_only:
            limits = {op.key: None if op.value is None else float(op.value) for op in entry.ops}
            self._write(entry.entity, limits, actor, entry.shadow)
        return QuotaOutcome(entity=entry.entity)

    def set(
        self,
        entity: EntityPairs,
        limits: dict[str, float | None],
        by: str = "root",
        at_ms: int = 0,
        shadow: bool | None = None,
    ) -> None:
        old = self.rows.get(entity)
        values = {limit.key: limit for limit in old.limits} if old else {}
        for key, value in limits.items():
            if value is None:
                values.pop(key, None)
            else:
                values[key] = QuotaLimit(key, float(value), None, 0, at_ms or self.now_ms, by)
        if values:
            made = tuple(values[key] for key in (*KEYS, IP_KEY) if key in values)
            marked = shadow if shadow is not None else old is not None and old.shadow
            self.rows[entity] = QuotaRow(entity, made, self.version, at_ms or self.now_ms, by, marked)
        else:
            self.rows.pop(entity, None)

    def server_info(self) -> ServerInfo:
        return ServerInfo(1, "0.1.0", self.endpoints, "http://127.0.0.1:8080/")

    def software(self) -> Steps[list[SoftwareRow]]:
        kinds = Counter((row.software_name, row.software_version) for row in self.connection_rows)
        yield
        return [SoftwareRow(*kind, count) for kind, count in kinds.items()]

    def disks(self) -> list[DiskRow]:
        return self.disk_rows

    def overview(self) -> Overview:
        self.overviews += 1
        own = [row for row in self.throttled_rows if not row.gateway]
        metrics = replace(self.now, connections=len(self.connection_rows), throttled=len(own))
        return Overview(
            cluster_id="Zm9vYmFyYmF6cXV4MTIzNA",
            node_id=1,
            software_version="0.1.0",
            bootstrap=self.server_info().bootstrap,
            console="http://127.0.0.1:8080/",
            topics=self.topic_count,
            user_topics=self.topic_count - self.own_topic_count,
            partitions=self.topic_count * 3,
            quota_rules=sum(entity[0][0] != "ip" for entity in self.rows),
            ip_quota_rules=sum(entity[0][0] == "ip" for entity in self.rows),
            metrics=metrics,
            upstream=None if self.upstream_row is None else summary_of(self.upstream_row),
            gateways=None if self.other_gateways is None else all_gateways(metrics, self.other_gateways),
        )

    @property
    def is_gateway(self) -> bool:
        return self.upstream_row is not None

    def describe_node(self, _node_id: int) -> list[ConfigRow]:
        return self.node_configs

    def flow(self) -> Flow:
        return self.flow_row

    def broker_quotas(self) -> BrokerQuotas:
        return fake_broker_quotas(self.configs, self.broker_use, self.topic_count, len(self.altered))

    def throttled(self) -> list[ThrottledRow]:
        return sorted(self.throttled_rows, key=lambda row: -row.remaining_ms)

    def each_throttled(self) -> Iterator[ThrottledRow]:
        return reversed(self.throttled())

    def quota(self, entity: EntityPairs) -> Steps[QuotaRow | None]:
        yield
        return next((row for row in self.quotas() if row.entity == entity), None)

    def limited_keys(self, entity: EntityPairs) -> tuple[str, ...]:
        row = self.rows.get(entity)
        return () if row is None else tuple(limit.key for limit in row.limits)

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        def fits(row: QuotaRow) -> bool:
            names = dict(row.entity)
            if strict and names.keys() != {one.entity_type for one in components}:
                return False
            return all(
                one.entity_type in names
                and (
                    one.match is MatchType.ANY
                    or names[one.entity_type] == (one.name if one.match is MatchType.EXACT else None)
                )
                for one in components
            )

        found = [self._with_use(row) for row in self.in_force() if fits(row)]
        entries = {entity: quota_entry(row) for entity, row in self.rows.items()}
        clients = ((row.principal, row.client_id) for row in self.connection_rows)
        rules = run_through(rules_in_steps(entries))
        connected = run_through(clients_by_limit(rules, clients))
        return [connected.with_overriding(row) for row in found]

    def each_quota(
        self, components: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> Iterator[QuotaRow]:
        return iter(self.quotas(components, strict=strict))

    def _with_use(self, row: QuotaRow) -> QuotaRow:
        seen = self.observed.get(row.entity, {})
        throttled = [one for one in self.throttled_rows if one.entity == row.entity]
        key_of = {"produce": "producer_byte_rate", "fetch": "consumer_byte_rate"}
        return replace(
            row,
            limits=tuple(
                replace(
                    limit,
                    observed=seen.get(limit.key),
                    throttled=sum(key_of.get(one.quota_type) == limit.key for one in throttled),
                    shadow=self.shadow_use.get((row.entity, limit.key)) if row.shadow else None,
                )
                for limit in row.limits
            ),
        )

    def each_connection(self) -> Iterator[ConnectionRow]:
        return iter(list(self.connection_rows))

    @property
    def client_telemetry(self) -> ClientTelemetry:
        return self.telemetry.views

    def each_address(self) -> Iterator[AddressRow]:
        return iter(address_rows(self))

    def connection_limits(self) -> list[ConnectionLimitRow]:
        return list(self.limit_rows)

    def each_topic(self) -> Iterator[TopicRow]:
        return iter(list(self.topic_rows))

    def has_topic(self, name: str) -> bool:
        return self.topic(name) is not None

    def topics_of_groups(self) -> Iterator[Iterable[str]]:
        return ({each.topic for each in detail.offsets} for detail in list(self.group_rows))

    def topic_id(self, name: str) -> bytes | None:
        row = self.topic(name)
        return None if row is None else row.topic_id

    def clients_of_topic(self, topic: str, topic_id: bytes) -> Steps[list[TopicClientRow]]:
        yield
        return list(self.topic_clients.get(topic, ()))

    def groups_of_topic(self, topic: str) -> Steps[list[TopicGroupRow]]:
        found = []
        for detail in list(self.group_rows):
            yield
            lags = [each.lag or 0 for each in detail.offsets if each.topic == topic]
            if lags:
                row = detail.group
                found.append(TopicGroupRow(row.group_id, row.state, row.group_type, row.members, sum(lags)))
        return found

    def has_group(self, group_id: str) -> bool:
        return any(each.group.group_id == group_id for each in self.group_rows)

    def topic(self, name: str) -> TopicRow | None:
        return next((row for row in self.topic_rows if row.name == name), None)

    def partitions(self, topic: str) -> Iterator[PartitionRow]:
        row = next(row for row in self.topic_rows if row.name == topic)
        share, records = row.size_bytes // row.partitions, row.records // row.partitions
        return (PartitionRow(index, 0, records, share, 1) for index in range(row.partitions))

    def each_group(self) -> Iterator[GroupRow]:
        return (detail.group for detail in list(self.group_rows))

    def group(self, group_id: str) -> Steps[GroupDetail | None]:
        yield
        return next((each for each in self.group_rows if each.group.group_id == group_id), None)

    def each_transaction(self) -> Iterator[TransactionRow]:
        return (each.transaction for each in self.transaction_rows)

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]:
        yield
        return next(
            (each for each in self.transaction_rows if each.transaction.transactional_id == transactional_id),
            None,
        )

    def _abort(self, command: AbortTransaction, actor: Actor) -> AbortResult:
        if actor.role < Role.ADMIN:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        for each in self.transaction_rows:
            row = each.transaction
            if row.transactional_id == command.transactional_id:
                return AbortResult(row.producer_id, row.producer_epoch, row.partitions)
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "There is no such transactional id.")

    def _close(self, command: CloseConnection, actor: Actor) -> EntryOutcome:
        if actor.role < Role.EDITOR:
            return EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role editor.")
        kept = [row for row in self.connection_rows if row.connection_id != command.connection_id]
        if len(kept) == len(self.connection_rows):
            return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no such open connection")
        self.connection_rows = kept
        return EntryOutcome()

    def _drain(self, actor: Actor) -> EntryOutcome:
        if actor.role < Role.ADMIN:
            return EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        self.drain_row = replace(
            self.drain_row,
            state=DrainState.DRAINING,
            connections=7,
            at_first=9,
            to=("gateway-2.example:31000-31099",),
            since_at_ms=1_700_000_000_000,
            ends_at_ms=1_700_000_060_000,
        )
        return EntryOutcome()

    def tasks(self) -> list[TaskRow]:
        return list(self.task_rows)

    def broker_config_version(self, name: str) -> int:
        return len(self.altered)

    def has_effect(self, key: str) -> bool:
        return True

    def describe_configs(self, resource: ConfigResource) -> Steps[list[ConfigRow]]:
        yield
        set_now: dict[str, bool] = {}
        for alteration, _ in self.altered:
            set_now |= {op.key: op.op != OpType.DELETE for op in alteration.ops}
        unset = {name: default_of(name) for name in set_now}
        values = sorted((unset | self.configs).items())
        return [config_row(name, value, set_now.get(name, False)) for name, value in values]


class FakeViews:
    """The `Views` of a fake broker, which is each of the parts but `shares` and `upstream`."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self.live = self.quotas = self.metadata = broker
        self.topics: Any = broker
        self.shares = FakeGateways(broker)

    @property
    def upstream(self) -> Any:
        row = self._broker.upstream_row
        return None if row is None else SimpleNamespace(row=lambda: row, drain=lambda: self._broker.drain_row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class FakeGateways:
    """What a fake broker tells of other gateways."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def others(self) -> GatewaySums | None:
        return self._broker.other_gateways

    def gateways(self) -> list[GatewayRow]:
        return list(self._broker.gateway_rows)

    def shares(self) -> list[ShareRow]:
        return list(self._broker.share_rows)

    def clients(self) -> Iterable[ClientUsage]:
        return self._broker.remote_shares.clients()

    def without_report(self) -> list[str]:
        return self._broker.without_report

    def unlisted_throttled(self) -> int:
        return self._broker.unlisted

    def unlisted_clients(self) -> int:
        return self._broker.unlisted_client_count

    def unlisted_addresses(self) -> int:
        return self._broker.unlisted_address_count

    def unlisted_use(self) -> int:
        return self._broker.unlisted_uses

    async def connections(self, query: ConnectionQuery) -> RemoteConnections:
        self._broker.queries.append(query)
        return self._broker.remote_connections
