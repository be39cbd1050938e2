"""The audit trail for display: without secrets, and with the changes that can be undone."""

from broker.control.commands import (
    AlterClientQuotas,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    IssueAdminToken,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
)
from broker.control.control import Control
from broker.control.reading import ControlViews
from broker.control.views import (
    AuditFilter,
)
from broker.metadata.actor import Role
from tests.control.world import actor


async def test_a_password_among_the_settings_is_not_in_the_trail(
    control: Control, views: ControlViews
) -> None:
    key = "listener.name.safe.plain.sasl.jaas.config"
    resource = ConfigResource(ResourceType.BROKER, "1")
    for ops in (
        (ConfigOp(key, OpType.SET, "hush"), ConfigOp("num.io.threads", OpType.SET, "9")),
        (ConfigOp(key, OpType.DELETE), ConfigOp("num.io.threads", OpType.DELETE)),
    ):
        await control.apply(IncrementalAlterConfigs((ConfigAlteration(resource, ops),)), actor())
    rows = list(await views.audit(AuditFilter(kind="broker-config")))
    assert {(row.key, row.old, row.new) for row in rows} == {
        (key, None, "(secret)"),
        (key, "(secret)", None),
        ("num.io.threads", None, "9"),
        ("num.io.threads", "9", None),
    }


async def test_a_secret_is_identified_and_never_shown(control: Control, views: ControlViews) -> None:
    issued = await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    renewed = await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    (row,) = views.tokens()
    assert views.identify(renewed.secret) == row
    assert views.identify(issued.secret) is None
    assert (row.name, row.role, row.changed_by) == ("first", "editor", "ann")
    trail = list(await views.audit(AuditFilter(kind="admin-token")))
    assert [(each.old, each.new) for each in trail] == [
        ("(secret)", "(secret)"),
        ("(secret)", "(secret)"),
        (None, "(secret)"),
    ]


async def test_the_trail_is_read_with_its_values(control: Control, views: ControlViews) -> None:
    limit = QuotaAlteration((("user", "alice"),), (QuotaOp("producer_byte_rate", 1.0),))
    await control.apply(AlterClientQuotas((limit,)), actor())
    (row,) = await views.audit(AuditFilter(kind="client-quota"))
    assert (row.entity, row.key, row.old, row.new) == ('[["user","alice"]]', "producer_byte_rate", None, "1")


async def test_the_trail_says_what_can_be_put_back(control: Control, views: ControlViews) -> None:
    for value in (1000.0, 2000.0):
        entry = QuotaAlteration((("user", "alice"),), (QuotaOp("producer_byte_rate", value),))
        await control.apply(AlterClientQuotas((entry,)), actor())
    await control.apply(IssueAdminToken("first", Role.EDITOR), actor())
    rows = list(await views.audit(AuditFilter()))
    assert [(row.kind, row.final) for row in rows[:3]] == [
        ("admin-token", "A change of kind admin-token cannot be undone"),
        ("client-quota", None),
        ("client-quota", "The value has been changed since"),
    ]
