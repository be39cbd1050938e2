"""A share group's own settings, and the broker's."""

from contextlib import nullcontext

import pytest

from broker.common.errors import ConfigError, ErrorCode
from broker.config.group_settings import check_group_configs
from broker.config.load import build_config
from broker.config.sections.share_groups import duration_ms, share_group_times
from broker.controller.commands import ConfigResource, OpType, ResourceType
from broker.controller.describe import ConfigSource, describe
from broker.coordinator.share.share_partitions import ShareSettings, share_settings
from tests.controller.test_group_configs import alter

SESSION, HEARTBEAT = "share.session.timeout.ms", "share.heartbeat.interval.ms"
LOCK, RESET, ISOLATION = (
    "share.record.lock.duration.ms",
    "share.auto.offset.reset",
    "share.isolation.level",
)
DELIVERIES, LOCKS, INTERVAL, RENEWS = (
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "share.renew.acknowledge.enable",
)
OFFLOAD = "share.assignor.offload.enable"
DEAD_LETTERS, COPIES = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"
MOST = "group.share.max.delivery.count.limit"
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
        (LOCK, "14999", INVALID),
        (LOCK, "15000", OK),
        (LOCK, "60000", OK),
        (LOCK, "60001", INVALID),
        (RESET, "earliest", OK),
        (RESET, "latest", OK),
        (RESET, "none", INVALID),
        (RESET, "by_duration:PT1H", OK),
        (RESET, "by_duration:1h", INVALID),
        (ISOLATION, "read_committed", OK),
        (ISOLATION, "read_uncommitted", OK),
        (ISOLATION, "READ_COMMITTED", INVALID),
        (DELIVERIES, "1", INVALID),
        (DELIVERIES, "2", OK),
        (DELIVERIES, "10", OK),
        (DELIVERIES, "11", INVALID),
        (LOCKS, "99", INVALID),
        (LOCKS, "100", OK),
        (LOCKS, "4000", OK),
        (LOCKS, "4001", INVALID),
        (INTERVAL, "-1", INVALID),
        (INTERVAL, "0", OK),
        (INTERVAL, "15000", OK),
        (INTERVAL, "15001", INVALID),
        (RENEWS, "false", OK),
        (RENEWS, "x", INVALID),
        (DEAD_LETTERS, "dlq.orders", OK),
        (DEAD_LETTERS, "_dlq", OK),
        (DEAD_LETTERS, "__dlq", INVALID),
        (DEAD_LETTERS, " __dlq", INVALID),
        (COPIES, "true", OK),
        (COPIES, "1", INVALID),
        (OFFLOAD, "false", OK),
        ("share.max.size", "1", INVALID),
    ],
)
def test_a_setting_is_within_the_brokers_range(world, key, value, error):
    assert alter(world, key, value) is error
    assert bool(world.image.group_configs) is (error is OK)


def test_a_groups_settings_precede_the_brokers_until_they_are_deleted(world):
    config = world.configuration.config.share_groups
    partitions = world.configuration.config.share_partitions
    for key, value in ((SESSION, "50000"), (HEARTBEAT, "7000"), (LOCK, "20000"), (RESET, " earliest")):
        assert alter(world, key, value) is OK
    configs = world.image.group_configs["readers"]
    assert share_group_times(configs, config) == (50_000, 7_000, 1_000)
    assert share_settings(configs, partitions) == ShareSettings(20_000, "earliest")
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert (rows[LOCK].value, rows[LOCK].source) == ("20000", ConfigSource.GROUP)
    assert [each.source for each in rows[LOCK].synonyms] == [ConfigSource.GROUP, ConfigSource.DEFAULT]
    assert (rows[ISOLATION].value, rows[ISOLATION].source) == ("read_uncommitted", ConfigSource.DEFAULT)
    for key in (SESSION, HEARTBEAT, LOCK, RESET):
        assert alter(world, key, None, OpType.DELETE) is OK
    assert world.image.group_configs == {}
    assert share_group_times({}, config) == (45_000, 5_000, 1_000)
    assert share_settings({}, partitions) == ShareSettings(30_000, "latest")


def test_a_setting_with_a_default_of_the_broker_names_it(world):
    assert alter(world, DELIVERIES, "7") is OK
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert [(each.name, each.value, each.source) for each in rows[DELIVERIES].synonyms] == [
        (DELIVERIES, "7", ConfigSource.GROUP),
        ("group.share.delivery.count.limit", "5", ConfigSource.DEFAULT),
    ]
    assert [each.name for each in rows[LOCKS].synonyms] == ["group.share.partition.max.record.locks"]
    assert [each.name for each in rows[RENEWS].synonyms] == [RENEWS]


def test_an_internal_setting_is_described_where_it_is_set(world):
    assert OFFLOAD not in {row.name for row in describe(GROUP, world.image, world.configuration)}
    assert alter(world, OFFLOAD, "false") is OK
    rows = {row.name: row for row in describe(GROUP, world.image, world.configuration)}
    assert (rows[OFFLOAD].value, rows[OFFLOAD].source) == ("false", ConfigSource.GROUP)


@pytest.mark.parametrize(("most", "own", "expected"), [(5, 10, 5), (10, 10, 10), (25, 25, 25), (25, 26, 25)])
def test_a_limit_that_the_broker_lowered_since_counts(most, own, expected):
    config = build_config({"group.share.max.delivery.count.limit": str(most)}).share_partitions
    assert share_settings({DELIVERIES: str(own)}, config).limits == (expected, 2_000, False)


def test_the_broker_can_allow_more_deliveries_than_its_own_limit():
    """As in Kafka, whose group.share.delivery.count.limit is at most 10."""
    config = build_config({"group.share.max.delivery.count.limit": "25"})
    for deliveries, is_good in ((25, True), (26, False)):
        with nullcontext() if is_good else pytest.raises(ConfigError):
            check_group_configs(
                {DELIVERIES: str(deliveries)},
                config.consumer_groups,
                config.share_groups,
                config.share_partitions,
                config.streams_groups,
            )


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("PT1.5S", 1_500),
        ("PT0.0019S", 1),
        ("pt1m", 60_000),
        ("PT2H3M4S", 7_384_000),
        ("P1D", 86_400_000),
        ("P1DT1S", 86_401_000),
    ],
)
def test_a_duration_is_read(text, milliseconds):
    assert duration_ms(f"by_duration:{text}") == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Earliest",
        "by_duration",
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:-PT1S",
        "by_duration:PT-1S",
        "by_duration:P1Y",
        "by_duration:PT1H1H",
    ],
)
def test_anything_else_is_no_strategy(world, text):
    assert duration_ms(text) is None
    assert alter(world, RESET, text) is INVALID


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"group.share.session.timeout.ms": "60001"}, "group.share.session.timeout.ms"),
        ({"group.share.min.session.timeout.ms": "60001"}, "group.share.min.session.timeout.ms"),
        (
            {"group.share.min.session.timeout.ms": "1", "group.share.session.timeout.ms": "5000"},
            "group.share.heartbeat.interval.ms",
        ),
        ({"group.share.record.lock.duration.ms": "60001"}, "group.share.record.lock.duration.ms"),
        ({"group.share.delivery.count.limit": "10", MOST: "9"}, "group.share.delivery.count.limit"),
        ({MOST: "4"}, MOST),
        ({MOST: "26"}, MOST),
        ({"group.share.partition.max.record.locks": "4001"}, "group.share.partition.max.record.locks"),
        ({"group.share.assignment.interval.ms": "15001"}, "group.share.assignment.interval.ms"),
        ({"group.share.max.share.sessions": "199"}, "group.share.max.share.sessions"),
        ({"group.share.max.size": "1001"}, "group.share.max.size"),
        ({"group.share.max.size": "0"}, "group.share.max.size"),
        ({"group.share.assignors": "range"}, "group.share.assignors"),
    ],
)
def test_the_brokers_settings_are_checked(values, key):
    with pytest.raises(ConfigError) as raised:
        build_config(values)
    assert raised.value.key == key


def test_the_brokers_settings_are_kafkas():
    config = build_config({"group.share.max.size": "1000", "group.share.session.timeout.ms": "60000"})
    assert (config.share_groups.max_size, config.share_groups.session_timeout_ms) == (1_000, 60_000)
    assert config.share_groups.assignors == ("simple",)
    for sessions in ("200", "201"):
        build_config({"group.share.max.share.sessions": sessions})
