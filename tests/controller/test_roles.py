"""Every command with every role through every interface: run, or refused without a change."""

from functools import partial
from typing import Any

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.alerts import (
    AlertCondition,
    AlertRule,
    AlertSilence,
    DestinationKind,
    RemoveAlertDestination,
    RemoveAlertRule,
    RemoveAlertSilence,
    SetAlertDestination,
    SetAlertRule,
    SetAlertSilence,
)
from broker.controller.commands import (
    AllocateProducerIds,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CloseConnection,
    Command,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DrainGateway,
    IncrementalAlterConfigs,
    IssueAdminToken,
    NewPartitions,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    RevokeAdminToken,
    ScramUpsertion,
    TopicRef,
    Undo,
)
from broker.controller.control import Control, plan_close, plan_drain
from broker.controller.tokens import SetPassword
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter
from broker.security.acl.acl import AclFilter, Operation
from broker.security.passwords import Cost, StoredPassword
from tests.controller.test_control import OF_PRINCIPALS, OPERATIONS
from tests.controller.world import StoreCommitter, actor
from tests.security.acl.acls import allow

ALICE = (("user", "alice"),)
LAG = AlertRule(AlertCondition.LAG, 1.0)
HOOK = SetAlertDestination("new", DestinationKind.WEBHOOK, "https://a.example/")
REFUSALS = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def config(kind: ResourceType, name: str, key: str, value: str, **how: bool) -> IncrementalAlterConfigs:
    alteration = ConfigAlteration(ConfigResource(kind, name), (ConfigOp(key, OpType.SET, value),))
    return IncrementalAlterConfigs((alteration,), **how)


def quota(value: float | None, **how: bool) -> AlterClientQuotas:
    return AlterClientQuotas((QuotaAlteration(ALICE, (QuotaOp("producer_byte_rate", value),)),), **how)


NEEDS: dict[str, tuple[Role, Command[Any]]] = {
    "set a quota": (Role.EDITOR, quota(1e6)),
    "remove a quota": (Role.EDITOR, quota(None)),
    "ask about a quota": (Role.EDITOR, quota(1e6, validate_only=True)),
    "put a quota into shadow": (Role.EDITOR, AlterClientQuotas((QuotaAlteration(ALICE, (), shadow=True),))),
    "make a topic": (Role.EDITOR, CreateTopics((NewTopic("new", 1, 1),))),
    "ask about a topic": (Role.EDITOR, CreateTopics((NewTopic("new", 1, 1),), validate_only=True)),
    "add partitions": (Role.EDITOR, CreatePartitions((NewPartitions("orders", 2),))),
    "delete a topic": (Role.ADMIN, DeleteTopics((TopicRef("orders"),))),
    "configure a topic": (Role.EDITOR, config(ResourceType.TOPIC, "orders", "retention.ms", "5")),
    "replace a topic's settings": (
        Role.EDITOR,
        config(ResourceType.TOPIC, "orders", "retention.ms", "5", replaces=True),
    ),
    "subscribe to client metrics": (
        Role.EDITOR,
        config(ResourceType.CLIENT_METRICS, "all", "interval.ms", "60000"),
    ),
    "configure the broker": (Role.ADMIN, config(ResourceType.BROKER, "1", "num.io.threads", "9")),
    "configure all brokers": (Role.ADMIN, config(ResourceType.BROKER, "", "num.io.threads", "9")),
    "replace the broker's settings": (
        Role.ADMIN,
        config(ResourceType.BROKER, "1", "num.io.threads", "9", replaces=True),
    ),
    "ask about the broker's settings": (
        Role.ADMIN,
        config(ResourceType.BROKER, "1", "num.io.threads", "9", validate_only=True),
    ),
    "set a log level": (Role.ADMIN, config(ResourceType.BROKER_LOGGER, "1", "root", "WARN")),
    "take producer ids": (Role.ADMIN, AllocateProducerIds()),
    "make a token": (Role.ADMIN, IssueAdminToken("mine", Role.ADMIN)),
    "renew a token": (Role.ADMIN, IssueAdminToken("spare", Role.VIEWER)),
    "revoke a token": (Role.ADMIN, RevokeAdminToken("spare")),
    "set a console password": (Role.ADMIN, SetPassword("spare", StoredPassword(b"s", Cost(2, 1, 1), b"d"))),
    "set a password": (
        Role.ADMIN,
        AlterUserScramCredentials((ScramUpsertion("alice", 1, 4096, b"salt" * 4, b"x" * 32),)),
    ),
    "create an ACL": (Role.ADMIN, CreateAcls((allow(Operation.READ),))),
    "delete ACLs": (Role.ADMIN, DeleteAcls((AclFilter(),))),
    "set an alert rule": (Role.EDITOR, SetAlertRule("new", LAG)),
    "ask about an alert rule": (Role.EDITOR, SetAlertRule("new", LAG, validate_only=True)),
    "remove an alert rule": (Role.EDITOR, RemoveAlertRule("lag")),
    "set a silence": (Role.EDITOR, SetAlertSilence("new", AlertSilence(1))),
    "remove a silence": (Role.EDITOR, RemoveAlertSilence("works")),
    "set a destination": (Role.ADMIN, HOOK),
    "remove a destination": (Role.ADMIN, RemoveAlertDestination("hook")),
    "close a connection": (Role.EDITOR, CloseConnection("here")),
    "drain a gateway": (Role.ADMIN, DrainGateway()),
}


class OneGateway:
    gateway = "1-5f0c77aa"
    has_begun = False

    def begin(self) -> None:
        self.has_begun = True


class OneConnection:
    """The connections that can be closed."""

    def __init__(self) -> None:
        self.open = True

    def client_of(self, connection_id: str) -> str | None:
        return "a client" if self.open and connection_id == "here" else None

    def close_connection(self, connection_id: str) -> None:
        self.open = False


@pytest.fixture
async def connections(control: Control) -> OneConnection:
    """A control with a topic, a limit and two tokens to change."""
    connection = OneConnection()
    control.add_planner(CloseConnection, partial(plan_close, connection))
    control.add_planner(DrainGateway, partial(plan_drain, OneGateway()))
    for role, name in ((Role.ADMIN, "first"), (Role.VIEWER, "spare")):
        await control.apply(IssueAdminToken(name, role), actor())
    await control.apply(SetAlertRule("lag", LAG), actor())
    await control.apply(SetAlertSilence("works", AlertSilence(1)), actor())
    hook = SetAlertDestination("hook", DestinationKind.WEBHOOK, "https://a.example/")
    await control.apply(hook, actor())
    for command in (CreateTopics((NewTopic("orders", 1, 1),)), quota(5.0)):
        (outcome,) = await control.apply(command, actor())
        assert outcome.ok
    return connection


async def carry_out(control: Control, command: Command[Any], who: Actor) -> ErrorCode:
    """Return the result: raised, in the outcome, or in the outcome of the only entry."""
    try:
        answer = await control.apply(command, who)
    except ApiError as refusal:
        return refusal.code
    (first,) = answer if isinstance(answer, list) else (answer,)
    return getattr(first, "error", ErrorCode.NONE)


@pytest.mark.rotates
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("what", NEEDS)
async def test_a_command_is_done_for_its_role_and_above_and_for_none_below(
    control: Control, committer: StoreCommitter, connections: OneConnection, what: str, role: Role
) -> None:
    needed, command = NEEDS[what]
    for origin in (ChangeOrigin.WIRE, ChangeOrigin.REST, ChangeOrigin.PAGE, ChangeOrigin.COMMAND_LINE):
        before = control.image
        error = await carry_out(control, command, actor(role, origin=origin))
        if role < needed:
            assert error in REFUSALS
            assert control.image is before and connections.open
        else:
            assert error not in REFUSALS
            assert (
                error is ErrorCode.NONE or origin is not ChangeOrigin.WIRE
            )  # there is one connection to close


def test_no_command_is_left_out() -> None:
    """Add a new command to the table above, with its role."""
    walked = {type(command).__name__ for _, command in NEEDS.values()} | {Undo.__name__}
    # By name: a dataclass with slots is created twice, and its first class remains a subclass.
    assert walked == {command.__name__ for command in Command.__subclasses__()} - OPERATIONS - OF_PRINCIPALS


UNDONE = (
    "create an ACL",
    "set an alert rule",
    "set a quota",
    "configure a topic",
    "subscribe to client metrics",
    "configure the broker",
)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("what", UNDONE)
async def test_an_undo_needs_what_the_change_needs(
    control: Control, committer: StoreCommitter, connections: OneConnection, what: str, role: Role
) -> None:
    needed, command = NEEDS[what]
    assert await carry_out(control, command, actor()) is ErrorCode.NONE
    (newest, *_) = await committer.history(AuditFilter(limit=1))
    before = control.image
    error = await carry_out(control, Undo(newest.seq), actor(role))
    if role < needed:
        assert error in REFUSALS and control.image is before
    else:
        assert error is ErrorCode.NONE and control.image is not before
