"""A streams group's own settings, and the broker's."""

import pytest

from broker.common.errors import ConfigError, ErrorCode
from broker.config.load import build_config
from broker.config.sections.streams_groups import streams_group_settings
from broker.controller.commands import ConfigResource, OpType, ResourceType
from broker.controller.describe import ConfigSource, ConfigSynonym, describe
from tests.controller.test_group_configs import alter, altered

SESSION, HEARTBEAT = "streams.session.timeout.ms", "streams.heartbeat.interval.ms"
STANDBYS, DELAY = "streams.num.standby.replicas", "streams.initial.rebalance.delay.ms"
INTERVAL, OFFSETS = "streams.assignment.interval.ms", "streams.task.offset.interval.ms"
WARMUPS, LAG = "streams.num.warmup.replicas", "streams.acceptable.recovery.lag"
TAGS, ASSIGNOR = "streams.rack.aware.assignment.tags", "streams.assignor.name"
GROUP = ConfigResource(ResourceType.GROUP, "readers")
INVALID, OK = ErrorCode.INVALID_CONFIG, ErrorCode.NONE


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (SESSION, "44999", INVALID),
        (SESSION, "45000", OK),
        (SESSION, "60000", OK),
        (SESSION, "60001", INVALID),
        (HEARTBEAT, "4999", INVALID),
        (HEARTBEAT, "5000", OK),
        (HEARTBEAT, "15000", OK),
        (HEARTBEAT, "15001", INVALID),
        (STANDBYS, "-1", INVALID),
        (STANDBYS, "0", OK),
        (STANDBYS, "2", OK),
        (STANDBYS, "3", INVALID),
        (DELAY, "-1", INVALID),
        (DELAY, "0", OK),
        (INTERVAL, "-1", INVALID),
        (INTERVAL, "0", OK),
        (INTERVAL, "15000", OK),
        (INTERVAL, "15001", INVALID),
        (OFFSETS, "14999", INVALID),
        (OFFSETS, "15000", OK),
        (WARMUPS, "20", OK),
        (WARMUPS, "21", INVALID),
        (LAG, "-1", INVALID),
        (LAG, "0", OK),
        (TAGS, "", OK),
        (TAGS, "zone, rack", OK),
        (TAGS, "zone,,rack", INVALID),
        (TAGS, "zone, zone", INVALID),
        (ASSIGNOR, "sticky", OK),
        (ASSIGNOR, "other", INVALID),
        ("streams.assignor.offload.enable", "false", OK),
        ("streams.max.size", "1", INVALID),
    ],
)
def test_a_setting_is_within_the_brokers_range(world, key, value, error):
    assert alter(world, key, value) is error
    assert bool(world.image.group_configs) is (error is OK)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (HEARTBEAT, "15001", "must be in the range 5000 to 15000 inclusive."),
        (STANDBYS, "3", "must be less than or equal to 2"),
        (WARMUPS, "21", "must be less than or equal to 20"),
        (OFFSETS, "14999", "must be greater than or equal to 15000"),
        (TAGS, "zone, zone", "must not contain duplicate tag keys."),
    ],
)
def test_a_value_beyond_the_brokers_range_is_refused_in_kafkas_words(world, key, value, words):
    assert altered(world, key, value).message == f"{key} {words}"


def test_a_groups_settings_precede_the_brokers_until_they_are_deleted(world):
    config = world.configuration.config.streams_groups
    own = {
        SESSION: "50000",
        HEARTBEAT: "7000",
        STANDBYS: "1",
        DELAY: "10",
        INTERVAL: "20",
        OFFSETS: "30000",
        LAG: "40",
        TAGS: "zone,rack",
        ASSIGNOR: "sticky",
    }
    for key, value in own.items():
        assert alter(world, key, value) is OK
    settings = streams_group_settings(world.image.group_configs["readers"], config)
    assert settings == (50_000, 7_000, 10, 20, 30_000, 40, 1, ("zone", "rack"), "sticky", 1_000)
    assert settings.assignment_configs == (
        ("num.standby.replicas", "1"),
        ("rack.aware.assignment.tags", "zone,rack"),
    )
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert (rows[STANDBYS].value, rows[STANDBYS].source) == ("1", ConfigSource.GROUP)
    for key in own:
        assert alter(world, key, None, OpType.DELETE) is OK
    assert world.image.group_configs == {}
    settings = streams_group_settings({}, config)
    assert settings == (45_000, 5_000, 3_000, 1_000, 60_000, 10_000, 0, (), "sticky", 1_000)
    assert settings.assignment_configs == (("num.standby.replicas", "0"),)
    # The default of a group's assignor is the broker's first one.
    assert rows[ASSIGNOR].value == "sticky"
    assert [each.source for each in rows[ASSIGNOR].synonyms] == [ConfigSource.GROUP, ConfigSource.DEFAULT]
    # Settings that Kafka keeps to itself are described only where they are set.
    assert {STANDBYS, DELAY, TAGS} < rows.keys()
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert not {OFFSETS, LAG, WARMUPS} & rows.keys()
    default = ConfigSynonym("group.streams.assignors", "sticky", ConfigSource.DEFAULT)
    assert (rows[ASSIGNOR].value, rows[ASSIGNOR].synonyms) == ("sticky", (default,))


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"group.streams.session.timeout.ms": "60001"}, "group.streams.session.timeout.ms"),
        ({"group.streams.min.heartbeat.interval.ms": "15001"}, "group.streams.min.heartbeat.interval.ms"),
        ({"group.streams.num.standby.replicas": "3"}, "group.streams.num.standby.replicas"),
        ({"group.streams.assignment.interval.ms": "15001"}, "group.streams.assignment.interval.ms"),
        ({"group.streams.task.offset.interval.ms": "14999"}, "group.streams.task.offset.interval.ms"),
        ({"group.streams.num.warmup.replicas": "21"}, "group.streams.num.warmup.replicas"),
        ({"group.streams.max.size": "0"}, "group.streams.max.size"),
        ({"group.streams.assignors": "uniform"}, "group.streams.assignors"),
    ],
)
def test_the_brokers_settings_are_checked(values, key):
    with pytest.raises(ConfigError) as raised:
        build_config(values)
    assert raised.value.key == key


def test_the_brokers_settings_are_kafkas():
    config = build_config({"group.streams.rack.aware.assignment.tags": "zone,rack"}).streams_groups
    assert config.rack_aware_assignment_tags == ("zone", "rack")
    assert (config.num_standby_replicas, config.max_standby_replicas) == (0, 2)
