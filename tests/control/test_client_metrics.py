"""Subscriptions to client metrics through IncrementalAlterConfigs and DescribeConfigs (KIP-714)."""

import pytest

from broker.control.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.control.configs import plan_alter_configs
from broker.control.describe import Source, describe
from broker.errors import ApiError, ErrorCode
from broker.metadata.actor import Role
from broker.metadata.publisher import Delta
from tests.control.world import World

QUEUES = ConfigResource(ResourceType.CLIENT_METRICS, "queues")


def put(key: str, value: str) -> ConfigOp:
    return ConfigOp(key, OpType.SET, value)


def alter(
    world: World,
    *ops: ConfigOp,
    role: Role = Role.EDITOR,
    resource: ConfigResource = QUEUES,
    expected: int | None = None,
) -> ResourceOutcome:
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops, expected),))
    (outcome,) = world.do(plan_alter_configs, command, role)
    return outcome


def held(world: World) -> dict[str, str]:
    entry = world.image.client_metrics.get("queues")
    return {} if entry is None else dict(entry.configs)


def test_the_first_setting_makes_a_subscription_and_the_last_one_takes_it_away(world: World) -> None:
    assert alter(world, put("interval.ms", "1000"), put("metrics", "org.a.")).ok
    assert held(world) == {"interval.ms": "1000", "metrics": "org.a."}
    assert alter(world, ConfigOp("interval.ms", OpType.DELETE)).ok
    assert list(world.image.client_metrics) == ["queues"]
    assert alter(world, ConfigOp("metrics", OpType.DELETE)).ok
    assert world.image.client_metrics == {}


def test_a_list_is_extended_and_shortened(world: World) -> None:
    alter(world, put("metrics", "org.a.,org.b."))
    alter(world, ConfigOp("metrics", OpType.APPEND, "org.c."))
    alter(world, ConfigOp("metrics", OpType.SUBTRACT, "org.a."))
    assert held(world) == {"metrics": "org.b.,org.c."}


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (put("interval.ms", "99"), ErrorCode.INVALID_REQUEST),
        (put("interval.ms", "3600001"), ErrorCode.INVALID_REQUEST),
        (put("interval", "100"), ErrorCode.INVALID_REQUEST),
        (put("match", "client_id"), ErrorCode.INVALID_CONFIG),
        (put("match", "client_id=("), ErrorCode.INVALID_CONFIG),
        (put("match", "team=a"), ErrorCode.INVALID_CONFIG),
        (ConfigOp("interval.ms", OpType.APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (ConfigOp("metrics", OpType.SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_one_bad_op_refuses_all_ops_of_the_subscription(world: World, op: ConfigOp, error: ErrorCode) -> None:
    assert alter(world, put("metrics", "*") if op.key != "metrics" else put("match", ""), op).error is error
    assert held(world) == {}


def test_a_subscription_must_have_a_name(world: World) -> None:
    nameless = ConfigResource(ResourceType.CLIENT_METRICS, "")
    assert alter(world, put("metrics", "*"), resource=nameless).error is ErrorCode.INVALID_REQUEST


def test_an_editor_may_and_a_viewer_may_not(world: World) -> None:
    outcome = alter(world, put("metrics", "*"), role=Role.VIEWER)
    assert outcome.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not held(world)


def test_of_two_editors_who_saw_the_same_version_the_second_is_refused(world: World) -> None:
    assert alter(world, put("metrics", "*"), expected=0).ok
    version = world.image.client_metrics["queues"].version
    assert alter(world, put("interval.ms", "200"), expected=version).ok
    late = alter(world, put("interval.ms", "300"), expected=version)
    assert late.error is ErrorCode.INVALID_UPDATE_VERSION and "changed by ann" in str(late.message)
    assert held(world)["interval.ms"] == "200"


def test_who_follows_is_told_the_names(world: World) -> None:
    command = IncrementalAlterConfigs((ConfigAlteration(QUEUES, (put("metrics", "*"),)),))
    delta = Delta.of(world.plan(plan_alter_configs, command).changes)
    assert delta.client_metrics == {"queues"}
    assert not delta.broker_configs and not delta.topics and not delta.quotas


def test_what_is_set_is_described_with_its_source_and_the_rest_as_defaults(world: World) -> None:
    alter(world, put("metrics", " org.a. , org.b. "))
    rows = describe(QUEUES, world.image, world.configuration)
    assert [(row.name, row.value, row.source, row.type) for row in rows] == [
        ("interval.ms", "300000", Source.DEFAULT, 3),
        ("match", "", Source.DEFAULT, 7),
        ("metrics", "org.a.,org.b.", Source.CLIENT_METRICS, 7),
    ]
    assert [len(row.synonyms) for row in rows] == [0, 0, 1]
    assert all(row.documentation and not row.read_only for row in rows)


def test_a_subscription_that_is_not_there_has_the_defaults_and_a_nameless_one_is_refused(
    world: World,
) -> None:
    rows = describe(QUEUES, world.image, world.configuration)
    assert {row.source for row in rows} == {Source.DEFAULT}
    with pytest.raises(ApiError) as caught:
        describe(ConfigResource(ResourceType.CLIENT_METRICS, ""), world.image, world.configuration)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
