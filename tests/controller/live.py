"""Live views with values set by the test, and rules to resolve against them."""

from collections.abc import Iterator, Sequence
from typing import Any

from broker.config.sections import TelemetryConfig
from broker.controller.commands import (
    AlterClientQuotas,
    EntityPairs,
    QuotaAlteration,
    QuotaOp,
)
from broker.controller.control import Committer, Control
from broker.controller.rows.broker import BrokerMetrics, ServerInfo, TaskRow
from broker.controller.rows.connections import (
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    ThrottledRow,
)
from broker.controller.rows.quotas import (
    BrokerLimit,
    ClientUsage,
    Decided,
    NodeUse,
    RetryStormUse,
    ShadowUse,
)
from broker.controller.rows.topics import GroupRow
from broker.quotas.client_quotas import RuleUse
from broker.quotas.entity import Entity
from broker.quotas.remote_use import Clients
from broker.security.acl.authorizer import Authorizer
from broker.telemetry.state import Telemetry
from broker.views.console import Views
from broker.views.topics import TopicViews
from tests.controller.world import actor
from tests.webui.rows import idle_flow

METRICS = BrokerMetrics(1, 2, 3, 4, 5.0, 6.0, 7.0, 8, 9, 10, 0.5, 0.5, 0.0, 0, None)


class Live:
    """A `LiveServer` and `LiveQuotas` that returns the test's values."""

    def __init__(self) -> None:
        self.use: list[RuleUse] = []
        self.shadows: list[ShadowUse] = []
        self.clients: list[ClientUsage] = []
        self.connected: list[tuple[str, str]] = []
        self.decisions: dict[str, Decided] = {}
        self.sensors: dict[tuple[str, str, str, str], float] = {}
        self.at_nodes: dict[str, tuple[NodeUse, ...]] = {}
        self.throttled_here: dict[str, list[Clients]] = {}
        self.limiting: dict[tuple[str, str], tuple[str, ...]] = {}
        self.resolve_calls = 0
        self.throttled_rows: list[ThrottledRow] = []
        self.all_groups: list[GroupRow] = []
        self.seen: list[AddressUse] = []
        self.controller_seen: list[AddressUse] = []
        self.limits: list[BrokerLimit] = []

    def metrics(self) -> BrokerMetrics:
        return METRICS

    def broker_limits(self) -> Sequence[BrokerLimit]:
        return self.limits

    def retry_storm(self) -> RetryStormUse:
        return RetryStormUse(3, 2_500, 1)

    def flow(self) -> Flow:
        return idle_flow()

    def throttled(self) -> Sequence[ThrottledRow]:
        return self.throttled_rows

    def each_connection(self) -> Sequence[ConnectionRow]:
        return []

    def connected_clients(self) -> Sequence[tuple[str, str]]:
        return self.connected

    def addresses(self) -> Sequence[AddressUse]:
        return self.seen

    def controller_addresses(self) -> Sequence[AddressUse]:
        return self.controller_seen

    def connection_limits(self) -> Sequence[ConnectionLimitRow]:
        return []

    def tasks(self) -> list[TaskRow]:
        return []

    def quota_use(self) -> Sequence[RuleUse]:
        return self.use

    def quota_use_of(self, entity: Entity) -> Sequence[RuleUse]:
        return [use for use in self.use if use.entity == entity]

    def shadow_use(self) -> Sequence[ShadowUse]:
        return self.shadows

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        return self.decisions.get(key)

    def usage(self) -> Sequence[ClientUsage]:
        self.resolve_calls += 1
        return self.clients

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        return self.sensors.get((key, user, client_id, ip))

    def throttled_clients(self, key: str) -> Sequence[Clients]:
        return self.throttled_here.get(key, ())

    def limited_by(self, user: str, client_id: str) -> tuple[str, ...]:
        return self.limiting.get((user, client_id), ())

    def nodes(self, key: str, user: str, client_id: str, bound: float) -> tuple[NodeUse, ...]:
        return self.at_nodes.get(key, ())

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        """Compute as the broker does, over ten seconds."""
        return max(round((observed - bound) / bound * 10_000), 0)

    def first_wait_ms(self, key: str, user: str, client_id: str, entity: EntityPairs, bound: float) -> int:
        return self.wait_ms(key, self.sensors.get((key, user, client_id, ""), 0.0), bound)


class LiveTopics(TopicViews):
    """The groups of `live`."""

    def __init__(self, control: Control, live: Live) -> None:
        super().__init__(lambda: control.image)
        self._live = live

    def each_group(self) -> Iterator[GroupRow | None]:
        return iter(self._live.all_groups)


def views_of(
    control: Control,
    live: Any,
    committer: Committer,
    info: ServerInfo,
    upstream: Any = None,
    topics: TopicViews | None = None,
    authorizer: Authorizer | None = None,
) -> Views:
    """Return views of the metadata of `control` and of the live values of the test."""
    topics = topics or LiveTopics(control, live)
    telemetry = Telemetry(TelemetryConfig())
    return Views(control, live, live, topics, committer, lambda: info, telemetry, upstream, authorizer)


async def store(control: Control, *rules: tuple[EntityPairs, str, float]) -> None:
    for entity, key, value in rules:
        (outcome,) = await control.apply(
            AlterClientQuotas((QuotaAlteration(entity, (QuotaOp(key, value),)),)), actor()
        )
        assert outcome.ok


def client(
    user: str, client_id: str, bytes_in: float = 0.0, bytes_out: float = 0.0, percent: float | None = None
) -> ClientUsage:
    """Return the usage of a client with these rates per second."""
    return ClientUsage(user, client_id, 1, bytes_in, bytes_out, 1.0, percent, 0, 0, 0, 0, 0, ())
