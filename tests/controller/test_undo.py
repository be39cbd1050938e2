"""An undo is a new change that restores the old value, unless it has changed since."""

import pytest
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.controller.alerts import AlertSilence, RemoveAlertSilence, SetAlertSilence
from broker.controller.commands import (
    AlterClientQuotas,
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateTopics,
    DeleteTopics,
    IncrementalAlterConfigs,
    NewTopic,
    OpType,
    QuotaAlteration,
    QuotaOp,
    ResourceType,
    TopicRef,
    Undo,
)
from broker.controller.control import Control
from broker.controller.undo import inverse_of
from broker.metadata.actor import Role
from broker.metadata.alerts import RULE
from broker.metadata.changes import AuditFilter, AuditRow, Change, ChangeKind
from broker.metadata.sealing import Unreadable
from tests.controller.world import StoreCommitter, actor

ALICE = (("user", "alice"),)


async def limit(control: Control, value: float | None) -> int:
    command = AlterClientQuotas((QuotaAlteration(ALICE, (QuotaOp("producer_byte_rate", value),)),))
    await control.apply(command, actor())
    return control.image.version


async def configure(control: Control, kind: ResourceType, name: str, key: str, value: str) -> int:
    op = ConfigOp(key, OpType.SET, value)
    await control.apply(
        IncrementalAlterConfigs((ConfigAlteration(ConfigResource(kind, name), (op,)),)), actor()
    )
    return control.image.version


def limit_of(control: Control) -> float | None:
    entry = control.image.quotas.get(ALICE)
    return None if entry is None else entry.limits["producer_byte_rate"].value


async def test_a_quota_goes_back_to_what_it_was(control: Control, committer: StoreCommitter) -> None:
    first = await limit(control, 1000.0)
    second = await limit(control, 2000.0)
    assert (await control.apply(Undo(second), actor())).ok
    assert limit_of(control) == 1000.0
    third = control.image.version
    assert (await control.apply(Undo(third), actor())).ok
    assert limit_of(control) == 2000.0
    rows = committer.store.history(AuditFilter(kind="client-quota"))
    assert [(row.old, row.new) for row in rows] == [
        ("1000", "2000"),
        ("2000", "1000"),
        ("1000", "2000"),
        (None, "1000"),
    ]
    assert first < second < third


async def test_undo_removes_new_limits_and_restores_removed_ones(control: Control) -> None:
    added = await limit(control, 1000.0)
    assert (await control.apply(Undo(added), actor())).ok
    assert limit_of(control) is None
    assert (await control.apply(Undo(control.image.version), actor())).ok
    assert limit_of(control) == 1000.0


async def test_undo_leaves_later_changes_alone(control: Control) -> None:
    first = await limit(control, 1000.0)
    await limit(control, 2000.0)
    outcome = await control.apply(Undo(first), actor())
    assert outcome.error is ErrorCode.INVALID_UPDATE_VERSION
    assert limit_of(control) == 2000.0


async def test_settings_of_topics_and_of_the_broker_go_back(control: Control) -> None:
    await control.apply(CreateTopics((NewTopic("t"),)), actor())
    of_topic = await configure(control, ResourceType.TOPIC, "t", "retention.ms", "5")
    of_broker = await configure(control, ResourceType.BROKER, "", "log.retention.ms", "6")
    assert (await control.apply(Undo(of_topic), actor())).ok
    assert (await control.apply(Undo(of_broker), actor())).ok
    assert control.image.topics["t"].configs == {} == control.image.broker_configs


async def test_a_setting_of_a_subscription_goes_back(control: Control) -> None:
    made = await configure(control, ResourceType.CLIENT_METRICS, "s", "metrics", "org.a.")
    changed = await configure(control, ResourceType.CLIENT_METRICS, "s", "metrics", "*")
    assert (await control.apply(Undo(made), actor())).error is ErrorCode.INVALID_UPDATE_VERSION
    assert (await control.apply(Undo(changed), actor())).ok
    assert control.image.client_metrics["s"].configs == {"metrics": "org.a."}
    removed = await control.apply(Undo(made), actor())
    assert removed.ok and control.image.client_metrics == {}


async def test_the_settings_of_a_deleted_topic_do_not_come_back(control: Control) -> None:
    await control.apply(CreateTopics((NewTopic("t", configs=(("retention.ms", "5"),)),)), actor())
    await control.apply(DeleteTopics((TopicRef("t"),)), actor())
    outcome = await control.apply(Undo(control.image.version), actor())
    assert (
        outcome.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and outcome.message == "The topic t no longer exists"
    )


async def test_a_topic_does_not_come_back_and_the_cluster_id_stays(control: Control) -> None:
    await control.apply(CreateTopics((NewTopic("t"),)), actor())
    for seq in (1, control.image.version):
        assert (await control.apply(Undo(seq), actor())).error is ErrorCode.INVALID_REQUEST


async def test_a_change_that_never_was_is_not_found(control: Control) -> None:
    assert (await control.apply(Undo(99), actor())).error is ErrorCode.RESOURCE_NOT_FOUND


async def test_a_password_goes_back_and_one_whose_key_is_lost_does_not(
    control: Control, committer: StoreCommitter
) -> None:
    key = "listener.name.safe.plain.sasl.jaas.config"
    for value in ("first", "second"):
        seq = await configure(control, ResourceType.BROKER, "1", key, value)
    (row,) = committer.store.history(AuditFilter(seq=seq))
    lost = replace(row, old=Unreadable("weir1:0123456789abcdef:AAAA"))
    with pytest.raises(ApiError, match="is not available"):
        inverse_of(lost, (), control.image, 0)
    assert (await control.apply(Undo(seq), actor())).ok
    assert control.image.broker_configs["1"][key] == "first"


@pytest.mark.parametrize(("role", "undone"), [(Role.VIEWER, False), (Role.EDITOR, True)])
async def test_an_undo_needs_the_role_of_the_change(control: Control, role: Role, undone: bool) -> None:
    seq = await limit(control, 1000.0)
    assert (await control.apply(Undo(seq), actor(role))).ok is undone
    assert (limit_of(control) is None) is undone


async def alter(control: Control, shadow: bool | None, **values: float | None) -> list[AuditRow]:
    """The rows of this change, oldest first."""
    ops = tuple(QuotaOp(key, value) for key, value in values.items())
    first = control.image.version + 1
    await control.apply(AlterClientQuotas((QuotaAlteration(ALICE, ops, shadow=shadow),)), actor())
    rows = await control._committer.history(AuditFilter(limit=control.image.version - first + 1))
    return list(reversed(rows))


async def test_the_mark_of_shadow_mode_is_undone_by_itself(control: Control) -> None:
    mark, _ = await alter(control, True, producer_byte_rate=5.0)
    assert (mark.key, mark.old, mark.new, mark.actor) == ("shadow", None, "true", "ann")
    assert (await control.apply(Undo(mark.seq), actor())).ok
    assert not control.image.quotas[ALICE].shadow
    assert limit_of(control) == 5.0
    assert (await control.apply(Undo(control.image.version), actor())).ok
    assert control.image.quotas[ALICE].shadow
    assert (await control.apply(Undo(mark.seq), actor())).ok
    assert (await control.apply(Undo(mark.seq), actor())).error is ErrorCode.INVALID_UPDATE_VERSION


async def test_a_limit_that_was_only_measured_is_not_enforced_when_its_removal_is_undone(
    control: Control,
) -> None:
    await alter(control, True, producer_byte_rate=5.0, consumer_byte_rate=6.0)
    gone, producer, consumer = await alter(control, None, producer_byte_rate=None, consumer_byte_rate=None)
    assert (gone.key, gone.new) == ("shadow", None)
    refused = await control.apply(Undo(gone.seq), actor())
    assert refused.error is ErrorCode.INVALID_REQUEST
    for row in (consumer, producer):
        assert (await control.apply(Undo(row.seq), actor())).ok
        assert control.image.quotas[ALICE].shadow
    assert sorted(control.image.quotas[ALICE].limits) == ["consumer_byte_rate", "producer_byte_rate"]


async def test_a_limit_that_was_enforced_when_it_went_is_enforced_when_it_is_back(control: Control) -> None:
    await alter(control, True, producer_byte_rate=5.0)
    await alter(control, False)
    (removed,) = await alter(control, None, producer_byte_rate=None)
    assert (await control.apply(Undo(removed.seq), actor())).ok
    assert not control.image.quotas[ALICE].shadow


async def test_asking_first_changes_nothing(control: Control, committer: StoreCommitter) -> None:
    first = await limit(control, 1000.0)
    second = await limit(control, 2000.0)
    assert (await control.apply(Undo(second, validate_only=True), actor())).ok
    refused = await control.apply(Undo(first, validate_only=True), actor())
    assert refused.error is ErrorCode.INVALID_UPDATE_VERSION
    refused = await control.apply(Undo(second, validate_only=True), actor(Role.VIEWER))
    assert refused.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert limit_of(control) == 2000.0 and control.image.version == second


async def test_a_silence_goes_back_to_what_it_was(control: Control) -> None:
    await control.apply(SetAlertSilence("works", AlertSilence(1_000)), actor())
    await control.apply(SetAlertSilence("works", AlertSilence(2_000, "lag")), actor())
    assert (await control.apply(Undo(control.image.version), actor())).ok
    assert control.image.alert_silences["works"].silence == AlertSilence(1_000)
    await control.apply(RemoveAlertSilence("works"), actor())
    removed = control.image.version
    assert (await control.apply(Undo(removed), actor())).ok
    assert control.image.alert_silences["works"].silence == AlertSilence(1_000)
    refused = await control.apply(Undo(removed), actor())
    assert refused.error is ErrorCode.INVALID_UPDATE_VERSION


async def test_a_rule_of_an_earlier_version_is_undone(control: Control, committer: StoreCommitter) -> None:
    """Its text lacks the fields that later versions have added."""
    text = '{"condition":"lag","threshold":1.0}'
    control.image = committer.store.commit([Change(ChangeKind.ALERT_RULE, "lag", RULE, text)], actor(), 1)
    assert (await control.apply(Undo(control.image.version), actor())).ok
    assert control.image.alert_rules == {}
