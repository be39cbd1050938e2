"""Control plans, commits, publishes and responds, one change at a time."""

import gc
import operator
from functools import partial
from typing import Any

import pytest
import trio

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.slices import Steps, run_through
from broker.config.load import load
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
    EntryOutcome,
    IncrementalAlterConfigs,
    IssueAdminToken,
    NewPartitions,
    NewTopic,
    OpType,
    ProducerIdBlock,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    RevokeAdminToken,
    ScramUpsertion,
    TopicRef,
    Undo,
)
from broker.controller.control import PLANNERS, Control, plan_close, plan_drain, plan_producer_ids
from broker.controller.delegation_tokens import (
    CreateDelegationToken,
    ExpireDelegationToken,
    RemoveExpiredDelegationTokens,
    RenewDelegationToken,
)
from broker.controller.group_changes import DeleteGroup, DeleteGroupOffsets, ResetOffsets
from broker.controller.tokens import SetPassword
from broker.controller.topic_records import BrowseRecords, ProduceRecord
from broker.controller.transaction_changes import AbortTransaction
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter, Change, ChangeKind, Delta, QuotaChange
from broker.metadata.image import Image, Topic
from broker.security.acl.acl import AclFilter, Operation
from broker.security.passwords import Cost, StoredPassword
from tests.controller.world import StoreCommitter, World, actor
from tests.security.acl.acls import allow

ALICE = (("user", "alice"),)
FULL = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "cannot write the metadata: the disk is full")


def quota(value: float | None, entity: tuple[tuple[str, str | None], ...] = ALICE) -> AlterClientQuotas:
    return AlterClientQuotas((QuotaAlteration(entity, (QuotaOp("producer_byte_rate", value),)),))


def setting(kind: ResourceType, name: str, key: str, value: str) -> IncrementalAlterConfigs:
    op = ConfigOp(key, OpType.SET, value)
    return IncrementalAlterConfigs((ConfigAlteration(ConfigResource(kind, name), (op,)),))


EVERY_COMMAND: list[Command[Any]] = [
    quota(1000.0),
    CreateTopics((NewTopic("t"),)),
    CreatePartitions((NewPartitions("exists", 2),)),
    DeleteTopics((TopicRef("exists"),)),
    setting(ResourceType.TOPIC, "exists", "retention.ms", "1"),
    setting(ResourceType.BROKER, "1", "log.retention.ms", "1"),
    AllocateProducerIds(),
    IssueAdminToken("mine", Role.VIEWER),
    RevokeAdminToken("spare"),
    SetPassword("one", StoredPassword(b"s", Cost(2, 1, 1), b"d")),
    AlterUserScramCredentials((ScramUpsertion("ann", 1, 4_096, b"salt", b"salted"),)),
    CreateAcls((allow(Operation.READ),)),
    DeleteAcls((AclFilter(),)),
    SetAlertRule("new", AlertRule(AlertCondition.LAG, 1.0)),
    RemoveAlertRule("lag"),
    SetAlertSilence("new", AlertSilence(1)),
    RemoveAlertSilence("works"),
    SetAlertDestination("new", DestinationKind.WEBHOOK, "https://a.example/"),
    RemoveAlertDestination("hook"),
    Undo(2),
    CloseConnection("there"),
    DrainGateway(),
]


OPERATIONS = {
    each.__name__
    for each in (
        BrowseRecords,
        ProduceRecord,
        ResetOffsets,
        DeleteGroup,
        DeleteGroupOffsets,
        AbortTransaction,
    )
}
"""Commands without a planner: test_topic_records, test_group_changes and tests/webui/rest/test_transactions
have their roles and refusals.
"""


OF_PRINCIPALS = {
    each.__name__
    for each in (
        CreateDelegationToken,
        RenewDelegationToken,
        ExpireDelegationToken,
        RemoveExpiredDelegationTokens,
    )
}
"""Commands that depend on who is the actor: test_delegation_tokens has their roles and refusals."""


class OneGateway:
    gateway = "1-5f0c77aa"
    has_begun = False

    def begin(self) -> None:
        self.has_begun = True


class OneConnection:
    """An `OpenConnections` with one connection; closing it has no effect."""

    def client_of(self, connection_id: str) -> str | None:
        return "app" if connection_id == "there" else None

    def close_connection(self, connection_id: str) -> None:
        assert connection_id == "there"


async def error_of(control: Control, command: Command[Any], who: Actor) -> ErrorCode:
    """Return the refusal: raised, in the outcome, or in the outcome of the only entry."""
    try:
        answer = await control.apply(command, who)
    except ApiError as error:
        return error.code
    (outcome,) = answer if isinstance(answer, list) else [answer]
    assert isinstance(outcome, EntryOutcome)
    return outcome.error


@pytest.fixture
async def prepared(control: Control) -> Control:
    """One instance of every subject of a command; change 2 is the quota."""
    control.add_planner(CloseConnection, partial(plan_close, OneConnection()))
    control.add_planner(DrainGateway, partial(plan_drain, OneGateway()))
    await control.apply(quota(500.0), actor())
    await control.apply(CreateTopics((NewTopic("exists"),)), actor())
    await control.apply(IssueAdminToken("one", Role.ADMIN), actor())
    await control.apply(IssueAdminToken("spare", Role.ADMIN), actor())
    await control.apply(SetAlertRule("lag", AlertRule(AlertCondition.LAG, 1.0)), actor())
    await control.apply(SetAlertSilence("works", AlertSilence(1)), actor())
    hook = SetAlertDestination("hook", DestinationKind.WEBHOOK, "https://a.example/")
    await control.apply(hook, actor())
    await control.apply(CreateAcls((allow(Operation.WRITE),)), actor())
    return control


def test_every_command_has_a_planner_and_is_in_the_list_above() -> None:
    """The planners of CloseConnection and DrainGateway are registered separately."""
    # By name: a dataclass with slots leaves its original class among the subclasses.
    known = {each.__name__ for each in Command.__subclasses__()} - OPERATIONS
    assert (
        {each.__name__ for each in (*PLANNERS, Undo, CloseConnection, DrainGateway)}
        == known
        == {type(each).__name__ for each in EVERY_COMMAND} | OF_PRINCIPALS
    )


@pytest.mark.rotates
@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize(
    "origin", [ChangeOrigin.WIRE, ChangeOrigin.REST, ChangeOrigin.PAGE, ChangeOrigin.COMMAND_LINE]
)
async def test_a_viewer_changes_nothing_from_any_origin(
    prepared: Control, committer: StoreCommitter, command: Command[Any], origin: ChangeOrigin
) -> None:
    before = prepared.image
    refusals = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert await error_of(prepared, command, actor(Role.VIEWER, origin=origin)) in refusals
    assert prepared.image is before
    assert committer.store.image is before


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
async def test_an_administrator_changes_everything_and_is_in_the_trail(
    prepared: Control, committer: StoreCommitter, command: Command[Any]
) -> None:
    before = prepared.image.version
    await prepared.apply(command, actor(name="root", origin=ChangeOrigin.PAGE))
    assert prepared.image.version > before
    newest = committer.store.history(AuditFilter(limit=1))[0]
    assert (newest.actor, newest.role, newest.address, newest.origin) == ("root", "admin", "10.0.0.1", "page")


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
async def test_a_full_disk_refuses_every_command_and_leaves_everything_as_it_was(
    prepared: Control, committer: StoreCommitter, command: Command[Any]
) -> None:
    before, config = prepared.image, prepared.config
    committer.fault = FULL
    assert await error_of(prepared, command, actor()) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (prepared.image, prepared.config) == (before, config)
    committer.fault = None
    await prepared.apply(command, actor())
    assert prepared.image.version > before.version


async def test_a_full_disk_keeps_the_other_refusals_of_a_request(
    prepared: Control, committer: StoreCommitter
) -> None:
    committer.fault = FULL
    outcomes = await prepared.apply(CreateTopics((NewTopic("fine"), NewTopic("not fine"))), actor())
    assert [each.error for each in outcomes] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


async def test_subscribers_are_called_before_the_answer(control: Control) -> None:
    received: list[tuple[Image, Image, Delta]] = []
    control.subscribe(lambda old, new, delta: received.append((old, new, delta)))
    before = control.image
    await control.apply(quota(1000.0), actor())
    ((old, new, delta),) = received
    assert (old, new) == (before, control.image)
    assert delta.quotas == (QuotaChange(ALICE, "producer_byte_rate", 1000.0),)


@pytest.mark.parametrize(
    "command",
    [
        AlterClientQuotas(
            (QuotaAlteration(ALICE, (QuotaOp("producer_byte_rate", 1.0),)),), validate_only=True
        ),
        quota(None),
        quota(-1.0),
        AlterClientQuotas(()),
    ],
)
async def test_a_command_without_effect_is_neither_committed_nor_published(
    control: Control, committer: StoreCommitter, command: AlterClientQuotas
) -> None:
    received: list[Image] = []
    control.subscribe(lambda _old, new, _delta: received.append(new))
    await control.apply(command, actor())
    assert (committer.commits, received) == (0, [])


async def test_a_change_that_another_gateway_committed_is_published_like_an_own_one(
    control: Control, committer: StoreCommitter
) -> None:
    received: list[tuple[Image, Image, Delta]] = []
    control.subscribe(lambda old, new, delta: received.append((old, new, delta)))
    before = control.image
    change = Change(ChangeKind.CLIENT_QUOTA, '[["user","alice"]]', "producer_byte_rate", "1000")
    async with committer.exclusive():
        image = await committer.commit([change], actor())
        await control.adopt(image, [change], actor())
    assert control.image is image
    assert received == [(before, image, Delta.of([change], actor()))]
    assert committer.commits == 1


async def test_two_changes_at_once_do_not_interleave(control: Control, committer: StoreCommitter) -> None:
    """Each plans against the other's result: one topic is created, and no producer id is allocated twice."""
    answers: list[Any] = []

    async def apply(command: Command[Any]) -> None:
        answers.append(await control.apply(command, actor()))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(apply, CreateTopics((NewTopic("t"),)))
            nursery.start_soon(apply, AllocateProducerIds(10))
    topics = [answer[0].error for answer in answers if isinstance(answer, list)]
    firsts = [answer.first for answer in answers if not isinstance(answer, list)]
    assert sorted(topics) == [ErrorCode.NONE] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 4
    assert sorted(firsts) == [0, 10, 20, 30, 40]
    assert committer.store.image == control.image


async def test_cancelled_before_the_commit_nothing_has_happened(
    control: Control, committer: StoreCommitter
) -> None:
    before = control.image
    with trio.CancelScope() as scope:
        scope.cancel()
        await control.apply(quota(1.0), actor())
    assert scope.cancelled_caught
    assert control.image is before is committer.store.image
    await control.apply(quota(1.0), actor())


async def test_dynamic_settings_hold_for_subscribers_already(control: Control) -> None:
    seen: list[int] = []
    control.subscribe(lambda *_: seen.append(control.config.topic_settings.retention_ms))
    await control.apply(setting(ResourceType.BROKER, "", "log.retention.ms", "77"), actor())
    assert seen == [77]


async def test_after_a_restart_everything_holds_as_before(
    control: Control, committer: StoreCommitter
) -> None:
    await control.apply(quota(1000.0), actor())
    await control.apply(setting(ResourceType.BROKER, "1", "log.retention.ms", "77"), actor())
    again = Control(committer.store.image, load(None, [], {}), committer, lambda: 0)
    assert again.image == control.image
    assert again.config.topic_settings.retention_ms == 77


async def test_a_dynamic_setting_that_no_longer_fits_stops_the_start(
    control: Control, committer: StoreCommitter
) -> None:
    await control.apply(setting(ResourceType.BROKER, "", "log.retention.ms", "77"), actor())
    image = control.image
    broken = Image(broker_configs={"": {"log.retention.ms": "many"}}, cluster_id=image.cluster_id)
    with pytest.raises(ConfigError):
        Control(broken, load(None, [], {}), committer, lambda: 0)


async def test_the_last_slice_of_a_change_has_freed_it(
    control: Control, committer: StoreCommitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 10,000 changes are freed at once, in 5 ms, when the command returns."""
    left: list[int] = []
    in_slices = committer.in_slices

    async def counted(steps: Steps[Any], *, to_the_end: bool = False) -> Any:
        result = await in_slices(steps, to_the_end=to_the_end)
        del steps
        left.append(sum(type(each) in (Change, QuotaChange) for each in gc.get_objects()))
        return result

    monkeypatch.setattr(committer, "in_slices", counted)
    entries = tuple(
        QuotaAlteration((("user", f"u{at}"),), (QuotaOp("producer_byte_rate", 1.0),)) for at in range(500)
    )
    gc.collect()  # changes of earlier tests
    before = sum(type(each) in (Change, QuotaChange) for each in gc.get_objects())
    await control.apply(AlterClientQuotas(entries), actor())
    assert max(left) >= before + 1_000 and left[-1] == before


def test_each_block_begins_where_the_last_one_ended(world: World) -> None:
    blocks = [world.do(plan_producer_ids, AllocateProducerIds(count)) for count in (1000, 1, 10)]
    assert blocks == [ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1), ProducerIdBlock(1001, 10)]
    assert world.image.next_producer_id == 1011


@pytest.mark.parametrize(("count", "fine"), [(9, True), (10, True), (11, False), (0, False)])
def test_ids_end_at_2_to_the_63(world: World, count: int, fine: bool) -> None:
    world.write([Change(ChangeKind.PRODUCER_IDS, "", "next", str(2**63 - 10))])
    if fine:
        assert world.do(plan_producer_ids, AllocateProducerIds(count)).first == 2**63 - 10
    else:
        with pytest.raises(ApiError) as caught:
            world.do(plan_producer_ids, AllocateProducerIds(count))
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_blocks_are_the_brokers_own_affair(world: World) -> None:
    with pytest.raises(ApiError):
        world.do(plan_producer_ids, AllocateProducerIds(), Role.EDITOR)
    assert world.image.next_producer_id == 0


def test_subscribers_are_called_in_order_and_already_see_the_new_image(committer: StoreCommitter) -> None:
    old, new = Image(version=1), Image(version=2)
    control = Control(old, load(None, [], {}), committer, lambda: 0)
    heard: list[tuple[str, Image, Image, Image]] = []
    control.subscribe(lambda a, b, _: heard.append(("first", a, b, control.image)))
    control.subscribe(lambda a, b, _: heard.append(("second", a, b, control.image)))
    run_through(control._replace(new, Delta.of([])))
    assert heard == [("first", old, new, new), ("second", old, new, new)]


def alive(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


def test_entries_of_the_old_image_are_freed_one_at_a_time(committer: StoreCommitter) -> None:
    """10,000 deleted topics were freed at once with the old image, in 5 ms."""
    count = 200
    gc.collect()  # topics of earlier tests
    before = alive(Topic)
    topics = {f"t{at}": Topic(f"t{at}", at.to_bytes(16, "big"), 1, {}) for at in range(count)}
    image = Image(topics=topics, topics_by_id={each.topic_id: each for each in topics.values()})
    control = Control(image, load(None, [], {}), committer, lambda: 0)
    del image
    del topics
    left = [alive(Topic) - before]
    delta = Delta.of(Change(ChangeKind.TOPIC, f"t{at}", "id", None) for at in range(count))
    for _ in control._replace(Image(version=1), delta):
        left.append(alive(Topic) - before)
    assert (left[0], left[-1]) == (count, 0)
    assert max(map(operator.sub, left, left[1:])) == 1


async def test_the_trail_says_who_drained_a_gateway_once(control: Control, committer: StoreCommitter) -> None:
    gateway = OneGateway()
    control.add_planner(DrainGateway, partial(plan_drain, gateway))
    for _ in range(2):
        assert (await control.apply(DrainGateway(), actor())).ok
        assert gateway.has_begun
    (row,) = committer.store.history(AuditFilter(kind=ChangeKind.GATEWAY))
    assert (row.actor, row.entity, row.key, row.old, row.new) == (
        actor().name,
        gateway.gateway,
        "drain",
        None,
        "begun",
    )
