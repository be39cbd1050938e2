"""The views: metadata joined with live state, addresses, and the audit trail."""

from typing import Any

import pytest
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.common.temporary_limits import TemporaryLimit
from broker.controller.commands import (
    BROKER_ITSELF,
    AlterClientQuotas,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateTopics,
    DeleteTopics,
    EntityPairs,
    IncrementalAlterConfigs,
    IssueAdminToken,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    TemporaryOp,
    TopicRef,
)
from broker.controller.control import Control
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.connections import AddressUse, ThrottledRow
from broker.controller.rows.quotas import MatchType, QuotaFilter, ShadowUse
from broker.controller.rows.topics import GroupRow
from broker.controller.rows.upstream import (
    DrainRow,
    DrainState,
    GatewayRow,
    GatewaySums,
    Incomplete,
    ShareRow,
    UpstreamCondition,
    UpstreamRow,
    UpstreamSummary,
)
from broker.metadata.actor import Role
from broker.quotas.client_quotas import RuleUse
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from broker.views.console import Views
from broker.views.metadata import AuditFilter
from broker.views.upstream_views import ShareViews
from tests.controller.live import METRICS, Live, store, views_of
from tests.controller.world import StoreCommitter, actor
from tests.support.view_rows import address_rows, connection_rows, group_rows, quota_rows
from tests.webui.rows import upstream
from webui.quotas import order_of
from webui.rest.upstream import upstream_report


def muted(connection_id: str, remaining_ms: int) -> ThrottledRow:
    return ThrottledRow(
        connection_id, "app", "alice", "10.0.0.9", QuotaKind.PRODUCE, (), 2.0, 1.0, 900, remaining_ms, 5, 1
    )


async def test_the_overview_joins_what_is_known_and_what_goes_on(control: Control, views: Views) -> None:
    await control.apply(CreateTopics((NewTopic("a", 3), NewTopic("b", 2))), actor())
    await store(control, ((("user", "alice"),), "producer_byte_rate", 1.0))
    rate = "connection_creation_rate"
    await store(control, ((("ip", None),), rate, 1.0), ((("ip", "10.0.0.7"),), rate, 1.0))
    overview = views.overview()
    assert overview.cluster_id == control.image.cluster_id
    assert (overview.node_id, overview.topics, overview.partitions) == (1, 2, 5)
    assert (overview.quota_rules, overview.ip_quota_rules) == (1, 2)
    assert (overview.software_version, overview.bootstrap) == ("weir 1", ("127.0.0.1:9092",))
    assert overview.console == "http://127.0.0.1:8080/"
    assert overview.metrics is METRICS
    assert views.server_info().bootstrap == overview.bootstrap


async def test_the_overview_distinguishes_the_topics_of_users_from_those_of_the_broker(
    control: Control, views: Views
) -> None:
    own = ("__weir_events", "__consumer_offsets", "__transaction_state", "__share_group_state")
    assert views.overview().user_topics == 0
    await control.apply(CreateTopics(tuple(NewTopic(name, 1) for name in own)), BROKER_ITSELF)
    assert (views.overview().topics, views.overview().user_topics) == (4, 0)
    await control.apply(CreateTopics((NewTopic("__weirdly", 1), NewTopic("orders", 1))), actor())
    assert (views.overview().topics, views.overview().user_topics) == (6, 2)
    await control.apply(DeleteTopics((TopicRef("orders"),)), actor())
    assert (views.overview().topics, views.overview().user_topics) == (5, 1)


class Shares(ShareViews):
    """Those of another gateway."""

    def gateways(self) -> list[GatewayRow]:
        return [GatewayRow("g2", "b:9092", 5), GatewayRow("g1", "a:9092", None)]

    def shares(self) -> list[ShareRow]:
        return [ShareRow("g1", (("user", "alice"),), "producer_byte_rate", 10.0, 4.0, 5.0)]

    def others(self) -> GatewaySums:  # type: ignore[override] # limits are shared
        return GatewaySums(2, 30, 4, 1_000.0, 2_000.0, 3.0)

    def throttled(self) -> list[ThrottledRow]:
        return [replace(muted("theirs", 20), gateway="g2")]

    def unlisted_throttled(self) -> int:
        return 3


class Upstream:
    """An `UpstreamViewSource` that reads nothing of its cluster."""

    shares: ShareViews = Shares()
    contents: Any = None

    def row(self) -> UpstreamRow:
        return upstream()

    def summary(self) -> UpstreamSummary:
        return UpstreamSummary("a cluster", UpstreamCondition.CONNECTED, 3, 2)

    def drain(self) -> DrainRow:
        return DrainRow(DrainState.SERVING, 0, 0, (), None, None)


def test_a_broker_has_no_upstream_cluster(views: Views) -> None:
    assert not views.is_gateway
    assert (views.upstream, views.overview().upstream) == (None, None)
    assert (list(views.shares.gateways()), list(views.shares.shares())) == ([], [])
    assert (views.shares.others(), views.overview().gateways) == (None, None)
    assert views.shares.unlisted_throttled() == 0


def test_a_gateway_has_an_upstream_cluster_and_other_gateways(
    control: Control, committer: StoreCommitter, live: Live
) -> None:
    info = ServerInfo(1, "weir 1", (), "")
    views = views_of(control, live, committer, info, Upstream())
    assert views.is_gateway
    assert views.upstream is not None and repr(views.upstream.row()) == repr(upstream())
    assert views.overview().upstream == Upstream().summary()
    assert [each["gateway_id"] for each in upstream_report(views)["gateways"]] == ["g1", "g2"]
    assert list(views.shares.shares()) == Shares().shares()
    own = METRICS
    assert views.overview().gateways == GatewaySums(
        3,
        30 + own.connections,
        4 + own.throttled,
        1_000.0 + own.bytes_in_per_s,
        2_000.0 + own.bytes_out_per_s,
        3.0 + own.requests_per_s,
    )
    live.throttled_rows = [muted("short", 10), muted("long", 30)]
    rows = [(row.connection_id, row.gateway) for row in views.quotas.throttled()]
    assert rows == [("long", ""), ("theirs", "g2"), ("short", "")]
    assert views.shares.unlisted_throttled() == 3


def test_limits_that_are_not_shared_have_no_shares() -> None:
    alone = ShareViews()
    assert (list(alone.gateways()), list(alone.shares()), list(alone.throttled())) == ([], [], [])
    assert alone.others() is None
    assert alone.unlisted_throttled() == 0
    assert (list(alone.clients()), list(alone.addresses()), list(alone.without_report())) == ([], [], [])
    assert (alone.unlisted_clients(), alone.unlisted_addresses()) == (0, 0)
    assert alone.incomplete() == Incomplete()
    assert alone.share("producer_byte_rate", ("alice", None), "") is None


def test_the_longest_throttle_is_shown_first(views: Views, live: Live) -> None:
    live.throttled_rows = [muted("short", 10), muted("long", 30), muted("middle", 20)]
    assert [row.connection_id for row in views.quotas.throttled()] == ["long", "middle", "short"]


# Quotas


async def test_limits_in_shadow_say_what_they_would_have_done(
    control: Control, views: Views, live: Live
) -> None:
    alice: EntityPairs = (("user", "alice"),)
    entry = QuotaAlteration(alice, (QuotaOp("producer_byte_rate", 5.0),), shadow=True)
    await control.apply(AlterClientQuotas((entry,)), actor())
    would = ShadowUse(alice, "producer_byte_rate", 37, 12_400, 1_000)
    live.shadows = [would, ShadowUse(alice, "consumer_byte_rate", 0, 0, None)]
    (row,) = quota_rows(views)
    assert row == run_through(views.quotas.quota(alice))
    assert row.shadow
    assert [limit.shadow for limit in row.limits] == [would]


async def test_a_quota_row_has_its_limits_use_and_last_change(
    control: Control, views: Views, live: Live
) -> None:
    alice: EntityPairs = (("user", "alice"),)
    await store(control, (alice, "producer_byte_rate", 1000.0), (alice, "consumer_byte_rate", 500.0))
    live.use = [RuleUse(Entity.of(alice), "producer_byte_rate", 1500.0, 2)]
    (row,) = quota_rows(views)
    assert (row.entity, row.version, row.changed_by) == (alice, control.image.version, "ann")
    consumer, producer = row.limits
    assert (producer.key, producer.value, producer.observed, producer.throttled) == (
        "producer_byte_rate",
        1000.0,
        1500.0,
        2,
    )
    assert producer.used == 1.5
    assert (consumer.observed, consumer.used, consumer.throttled) == (None, None, 0)
    assert row.value("consumer_byte_rate") == 500.0 and row.value("request_percentage") is None
    assert run_through(views.quotas.quota(alice)) == row
    assert run_through(views.quotas.quota((("user", "bob"),))) is None


async def test_unused_rows_are_made_once_until_a_rule_changes(
    control: Control, views: Views, live: Live
) -> None:
    alice: EntityPairs = (("user", "alice"),)
    bob: EntityPairs = (("user", "bob"),)
    await store(control, (alice, "producer_byte_rate", 1000.0), (bob, "producer_byte_rate", 500.0))
    live.use = [RuleUse(Entity.of(alice), "producer_byte_rate", 1500.0, 2)]
    used, unused = quota_rows(views)
    assert used.limits[0].observed == 1500.0 and unused.limits[0].observed is None
    again, kept = quota_rows(views)
    assert kept is unused and again == used and again is not used
    assert [row for row in views.quotas.each_quota([QuotaFilter("user", MatchType.EXACT, "bob")]) if row] == [
        unused
    ]
    live.use = [RuleUse(Entity.of(bob), "producer_byte_rate", 7.0, 0)]
    assert [row.limits[0].observed for row in quota_rows(views)] == [None, 7.0]
    live.use = []
    assert [row.limits[0].observed for row in quota_rows(views)] == [None, None]
    await store(control, (bob, "producer_byte_rate", 600.0))
    assert [row.value("producer_byte_rate") for row in quota_rows(views)] == [1000.0, 600.0]


async def test_a_change_makes_the_rows_of_other_rules_not_anew(control: Control, views: Views) -> None:
    alice: EntityPairs = (("user", "alice"),)
    bob: EntityPairs = (("user", "bob"),)
    carol: EntityPairs = (("user", "carol"),)
    limits = [(who, "producer_byte_rate", 1000.0) for who in (alice, bob, carol)]
    await store(control, *limits)
    first, second, third = quota_rows(views)
    await store(control, (bob, "producer_byte_rate", 600.0), (carol, "producer_byte_rate", None))
    kept, changed = quota_rows(views)
    assert kept is first
    assert (second.value("producer_byte_rate"), changed.value("producer_byte_rate")) == (1000.0, 600.0)
    await store(control, (carol, "producer_byte_rate", 1000.0))
    *_, again = quota_rows(views)
    assert again is not third and again.version != third.version


async def test_the_version_of_the_views_changes_with_every_change(control: Control, views: Views) -> None:
    before = views.metadata.version
    await store(control, ((("user", "alice"),), "producer_byte_rate", 1.0))
    assert views.metadata.version == before + 1


async def store_thirteen(control: Control) -> None:
    """The entities of ClientQuotasRequestTest.setupDescribeClientQuotasMatchTest."""
    both: list[tuple[str | None, str | None]] = [
        ("user-1", "client-id-1"),
        ("user-2", "client-id-1"),
        ("user-3", "client-id-2"),
        (None, "client-id-1"),
        ("user-1", None),
        ("user-3", None),
    ]
    alone: list[EntityPairs] = [(("user", user),) for user in ("user-1", "user-2", "user-3", None)]
    entities: list[EntityPairs] = [(("user", user), ("client-id", client)) for user, client in both]
    entities += [*alone, (("client-id", "client-id-2"),)]
    await store(control, *((each, "request_percentage", 50.5 + n) for n, each in enumerate(entities)))
    await store(control, ((("ip", "1.2.3.4"),), "connection_creation_rate", 1707.0))
    await store(control, ((("ip", None),), "connection_creation_rate", 2707.0))


def exact(kind: str, name: str) -> QuotaFilter:
    return QuotaFilter(kind, MatchType.EXACT, name)


def default(kind: str) -> QuotaFilter:
    return QuotaFilter(kind, MatchType.DEFAULT)


def anyone(kind: str) -> QuotaFilter:
    return QuotaFilter(kind, MatchType.ANY)


@pytest.mark.parametrize(
    ("components", "strict", "count"),
    [
        ([exact("user", "user-1")], False, 3),
        ([exact("user", "unknown")], False, 0),
        ([exact("client-id", "client-id-2")], False, 2),
        ([default("user")], False, 2),
        ([exact("user", "user-2")], True, 1),
        ([exact("client-id", "client-id-1")], True, 0),
        ([anyone("user")], True, 4),
        ([anyone("user")], False, 10),
        ([anyone("client-id")], True, 1),
        ([anyone("client-id")], False, 7),
        ([anyone("ip")], False, 2),
        ([exact("user", "user-1"), exact("client-id", "client-id-1")], True, 1),
        ([exact("user", "user-1"), default("client-id")], True, 1),
        ([default("user"), default("client-id")], True, 0),
        ([], False, 13),
        ([], True, 0),
    ],
)
async def test_filters_match_as_kafkas_do(
    control: Control, views: Views, components: list[QuotaFilter], strict: bool, count: int
) -> None:
    """ClientQuotasRequestTest.testDescribeClientQuotasMatchPartial."""
    await store_thirteen(control)
    assert len(quota_rows(views, components, strict=strict)) == count


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([exact("ip", "1.2.3.4"), exact("user", "a")], ErrorCode.INVALID_REQUEST),
        ([anyone("ip"), anyone("client-id")], ErrorCode.INVALID_REQUEST),
        ([anyone("user"), anyone("user")], ErrorCode.INVALID_REQUEST),
        ([anyone("")], ErrorCode.INVALID_REQUEST),
        ([anyone("other")], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_bad_filters_are_refused_as_kafka_does(
    views: Views, components: list[QuotaFilter], error: ErrorCode
) -> None:
    """ClientQuotasRequestTest, its tests of unsupported filters."""
    with pytest.raises(ApiError) as caught:
        quota_rows(views, components)
    assert caught.value.code is error


async def test_quotas_are_listed_by_name_with_the_defaults_last(control: Control, views: Views) -> None:
    await store_thirteen(control)
    rows = quota_rows(views, [anyone("user")], strict=True)
    users = [row.entity[0][1] for row in sorted(rows, key=lambda row: order_of(row.entity))]
    assert users == ["user-1", "user-2", "user-3", None]


# Explain


# The rest


async def test_topics_come_with_their_partitions_and_settings(control: Control, views: Views) -> None:
    await control.apply(
        CreateTopics((NewTopic("b", 2, configs=(("retention.ms", "5"),)), NewTopic("__consumer_offsets"))),
        actor(),
    )
    offsets, row = (row for row in views.topics.each_topic() if row is not None)
    assert (offsets.name, offsets.partitions, offsets.internal) == ("__consumer_offsets", 1, True)
    assert (row.name, row.partitions, row.internal, row.configs) == ("b", 2, False, (("retention.ms", "5"),))


def test_groups_are_sorted_and_connections_are_as_they_are(views: Views, live: Live) -> None:
    live.all_groups = [GroupRow("z", "Stable", "range", 1, None), GroupRow("a", "Empty", "", 0, 3)]
    assert [row.group_id for row in group_rows(views)] == ["a", "z"]
    assert connection_rows(views) == []


def test_settings_are_described(views: Views) -> None:
    rows = run_through(views.metadata.describe_configs(ConfigResource(ResourceType.BROKER, "1")))
    assert "listeners" in [row.name for row in rows]


async def test_an_address_is_one_row_with_its_rule_and_what_it_does(
    control: Control, views: Views, live: Live
) -> None:
    def limit(name: str | None, value: float) -> QuotaAlteration:
        return QuotaAlteration((("ip", name),), (QuotaOp("connection_creation_rate", value),))

    limits = (limit(None, 5), limit("10.0.0.7", 20), limit("10.0.0.8", 3))
    await control.apply(AlterClientQuotas(limits), actor(Role.ADMIN))
    live.seen = [AddressUse(address, 1.0, 2, None, 9, 1, 0) for address in ("10.0.0.7", "10.0.0.9")]
    rows = {row.address: row for row in address_rows(views)}
    assert {address: (row.limit, row.bound) for address, row in rows.items()} == {
        None: (5, 5),
        "10.0.0.7": (20, 20),
        "10.0.0.8": (3, 3),
        "10.0.0.9": (None, 5),
    }
    assert rows["10.0.0.7"].use == live.seen[0] and rows["10.0.0.8"].use is None
    assert rows["10.0.0.9"].use == live.seen[1] and rows["10.0.0.9"].version == 0


async def test_an_address_has_its_temporary_limit_in_force_or_not_yet(control: Control, views: Views) -> None:
    now, hour = control.wall_ms(), 3_600_000
    running = TemporaryLimit(40.0, until_ms=now + hour)
    later = TemporaryLimit(50.0, from_ms=now + hour, until_ms=now + 2 * hour)
    key = "connection_creation_rate"
    edits = (
        QuotaAlteration((("ip", "10.0.0.7"),), (QuotaOp(key, 20),), temporary=(TemporaryOp(key, running),)),
        QuotaAlteration((("ip", "10.0.0.8"),), (), temporary=(TemporaryOp(key, later),)),
        QuotaAlteration((("ip", None),), (QuotaOp(key, 5),)),
    )
    await control.apply(AlterClientQuotas(edits), actor(Role.ADMIN))
    rows = {row.address: row for row in address_rows(views)}
    shown = {
        address: (row.limit, row.bound, row.temporary and (row.temporary.limit, row.temporary.permanent))
        for address, row in rows.items()
    }
    assert shown == {
        None: (5, 5, None),
        "10.0.0.7": (40, 40, (running, 20)),
        "10.0.0.8": (None, 5, (later, None)),
    }


async def test_use_of_the_controllers_listeners_stands_beside_the_brokers(
    control: Control, views: Views, live: Live
) -> None:
    live.seen = [AddressUse("10.0.0.7", 1.0, 2, None, 9, 1, 0)]
    live.controller_seen = [AddressUse(address, 3.0, 1, 5, 1, 0, 2) for address in ("10.0.0.7", "10.0.0.8")]
    rows = {row.address: row for row in address_rows(views)}
    assert set(rows) == {"10.0.0.7", "10.0.0.8"}
    assert rows["10.0.0.7"].uses == (live.seen[0], live.controller_seen[0])
    assert (rows["10.0.0.8"].use, rows["10.0.0.8"].controller_use) == (None, live.controller_seen[1])


async def test_a_password_among_the_settings_is_not_in_the_trail(control: Control, views: Views) -> None:
    key = "listener.name.safe.plain.sasl.jaas.config"
    resource = ConfigResource(ResourceType.BROKER, "1")
    for ops in (
        (ConfigOp(key, OpType.SET, "hush"), ConfigOp("num.io.threads", OpType.SET, "9")),
        (ConfigOp(key, OpType.DELETE), ConfigOp("num.io.threads", OpType.DELETE)),
    ):
        await control.apply(IncrementalAlterConfigs((ConfigAlteration(resource, ops),)), actor())
    rows = list(await views.metadata.audit(AuditFilter(kind="broker-config")))
    assert {(row.key, row.old, row.new) for row in rows} == {
        (key, None, "(secret)"),
        (key, "(secret)", None),
        ("num.io.threads", None, "9"),
        ("num.io.threads", "9", None),
    }


async def test_a_secret_is_identified_and_never_shown(control: Control, views: Views) -> None:
    issued = await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    renewed = await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    (row,) = views.metadata.tokens()
    assert views.metadata.identify(renewed.secret) == row
    assert views.metadata.identify(issued.secret) is None
    assert (row.name, row.role, row.changed_by) == ("first", "editor", "ann")
    trail = list(await views.metadata.audit(AuditFilter(kind="admin-token")))
    assert [(each.old, each.new) for each in trail] == [
        ("(secret)", "(secret)"),
        ("(secret)", "(secret)"),
        (None, "(secret)"),
    ]


async def test_the_trail_is_read_with_its_values(control: Control, views: Views) -> None:
    limit = QuotaAlteration((("user", "alice"),), (QuotaOp("producer_byte_rate", 1.0),))
    await control.apply(AlterClientQuotas((limit,)), actor())
    (row,) = await views.metadata.audit(AuditFilter(kind="client-quota"))
    assert (row.entity, row.key, row.old, row.new) == ('[["user","alice"]]', "producer_byte_rate", None, "1")


async def test_the_trail_says_what_can_be_put_back(control: Control, views: Views) -> None:
    for value in (1000.0, 2000.0):
        entry = QuotaAlteration((("user", "alice"),), (QuotaOp("producer_byte_rate", value),))
        await control.apply(AlterClientQuotas((entry,)), actor())
    await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    rows = list(await views.metadata.audit(AuditFilter()))
    assert [(row.kind, row.final) for row in rows[:3]] == [
        ("admin-token", "A change of kind admin-token cannot be undone"),
        ("client-quota", None),
        ("client-quota", "The value has been changed since"),
    ]
