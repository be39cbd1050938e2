"""A consumer group's own settings: IncrementalAlterConfigs and DescribeConfigs of the type GROUP."""

import pytest

from broker.common.errors import ApiError, ChangeRefused, ErrorCode
from broker.config.load import build_config, load
from broker.config.sections.groups import ConsumerGroupConfig, GroupTimes, group_times
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    IncrementalAlterConfigs,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.controller.configs import plan_alter_configs
from broker.controller.describe import ConfigSource, describe, named_resources
from broker.metadata.image import Image
from tests.controller.world import World

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"
GROUP = ConfigResource(ResourceType.GROUP, "readers")


def altered(
    world: World, key: str, value: str | None, op: OpType = OpType.SET, name: str = "readers"
) -> ResourceOutcome:
    alteration = ConfigAlteration(ConfigResource(ResourceType.GROUP, name), (ConfigOp(key, op, value),))
    (outcome,) = world.do(plan_alter_configs, IncrementalAlterConfigs((alteration,)))
    return outcome


def alter(
    world: World, key: str, value: str | None, op: OpType = OpType.SET, name: str = "readers"
) -> ErrorCode:
    return altered(world, key, value, op, name).error


def times(world: World) -> GroupTimes:
    config = world.configuration.config.consumer_groups
    return group_times(world.image.group_configs.get("readers", {}), config)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (SESSION, "44999", ErrorCode.INVALID_CONFIG),
        (SESSION, "45000", ErrorCode.NONE),
        (SESSION, "60000", ErrorCode.NONE),
        (SESSION, "60001", ErrorCode.INVALID_CONFIG),
        (HEARTBEAT, "4999", ErrorCode.INVALID_CONFIG),
        (HEARTBEAT, "5000", ErrorCode.NONE),
        (HEARTBEAT, "15000", ErrorCode.NONE),
        (HEARTBEAT, "15001", ErrorCode.INVALID_CONFIG),
        (INTERVAL, "-1", ErrorCode.INVALID_CONFIG),
        (INTERVAL, "0", ErrorCode.NONE),
        (INTERVAL, "15000", ErrorCode.NONE),
        (INTERVAL, "15001", ErrorCode.INVALID_CONFIG),
        (SESSION, "long", ErrorCode.INVALID_CONFIG),
        ("consumer.max.size", "1", ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_setting_is_within_the_brokers_range(world, key, value, error):
    assert alter(world, key, value) is error
    assert bool(world.image.group_configs) is (error is ErrorCode.NONE)


def test_a_value_beyond_the_brokers_range_is_refused_in_kafkas_words(world):
    for value in ("44999", "60001"):
        assert (
            altered(world, SESSION, value).message
            == f"{SESSION} must be in the range 45000 to 60000 inclusive."
        )


def test_a_session_is_longer_than_the_heartbeat_interval():
    times = build_config({"group.consumer.min.session.timeout.ms": "5000"}).consumer_groups.times
    times.check_group({SESSION: "5001"}, "consumer")
    with pytest.raises(ChangeRefused) as refused:
        times.check_group({SESSION: "5000"}, "consumer")
    assert refused.value.allowed == f"{SESSION} must be greater than {HEARTBEAT}"


def test_a_group_without_name_is_refused(world):
    assert alter(world, SESSION, "50000", name="") is ErrorCode.INVALID_REQUEST


def test_a_list_operation_is_refused(world):
    assert alter(world, SESSION, "1", OpType.APPEND) is ErrorCode.INVALID_CONFIG


def test_a_groups_settings_precede_the_brokers_until_they_are_deleted(world):
    alter(world, SESSION, "50000")
    alter(world, HEARTBEAT, "7000")
    assert times(world) == (50_000, 7_000, 1_000)
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert (rows[SESSION].value, rows[SESSION].source) == ("50000", ConfigSource.GROUP)
    assert [each.source for each in rows[SESSION].synonyms] == [ConfigSource.GROUP, ConfigSource.DEFAULT]
    found = named_resources(world.image, world.configuration)
    assert found[ResourceType.GROUP] == ["readers"]
    alter(world, SESSION, None, OpType.DELETE)
    alter(world, HEARTBEAT, None, OpType.DELETE)
    assert times(world) == (45_000, 5_000, 1_000)
    assert world.image.group_configs == {}


def test_a_group_that_has_none_has_the_brokers():
    configuration = load(None, ["group.consumer.session.timeout.ms=50000"], {})
    rows = {row.name: row for row in describe(GROUP, Image(), configuration)}
    assert (rows[SESSION].value, rows[SESSION].source) == ("50000", ConfigSource.STATIC_BROKER)
    assert (rows[HEARTBEAT].value, rows[HEARTBEAT].source) == ("5000", ConfigSource.DEFAULT)
    with pytest.raises(ApiError, match="must not be empty"):
        describe(ConfigResource(ResourceType.GROUP, ""), Image(), configuration)


@pytest.mark.parametrize(("stored", "used"), [("1", 45_000), ("70000", 60_000), ("46000", 46_000)])
def test_a_value_that_the_broker_no_longer_allows_counts_as_the_limit(stored, used):
    assert group_times({SESSION: stored}, ConsumerGroupConfig()).session_timeout_ms == used
