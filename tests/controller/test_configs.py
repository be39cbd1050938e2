"""Alterations of topics, brokers and client metrics, with Kafka's codes and messages (KIP-339, KIP-714)."""

from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import Steps
from broker.config.sections.topics import topic_settings
from broker.controller.commands import (
    ConfigAlteration,
    ConfigOp,
    ConfigResource,
    CreateTopics,
    IncrementalAlterConfigs,
    NewTopic,
    OpType,
    ResourceOutcome,
    ResourceType,
)
from broker.controller.configs import LONGEST_VALUE, MAX_ITEMS, MAX_SETTINGS, plan_alter_configs
from broker.controller.describe import ConfigSource, describe
from broker.controller.topics import plan_create_topics
from broker.metadata.actor import ChangeOrigin, Role
from broker.metadata.changes import Change, ChangeKind, Delta
from tests.controller.world import World

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


def filled(*overrides: str) -> World:
    world = World(*overrides)
    world.do(plan_create_topics, CreateTopics((NewTopic("t", configs=(("retention.ms", "5"),)),)))
    return world


@pytest.fixture
def world() -> World:
    return filled()


def put(key: str, value: str | None) -> ConfigOp:
    return ConfigOp(key, OpType.SET, value)


def alter(
    world: World,
    resource: ConfigResource,
    *ops: ConfigOp,
    validate_only: bool = False,
    role: Role = Role.ADMIN,
) -> ResourceOutcome:
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops),), validate_only)
    (outcome,) = world.do(plan_alter_configs, command, role)
    assert outcome.resource == resource
    return outcome


def of_topic(world: World) -> dict[str, str]:
    return dict(world.image.topics["t"].configs)


# Topics


def test_a_topics_settings_are_set_changed_and_deleted_one_by_one(world: World) -> None:
    assert alter(world, TOPIC, put("segment.bytes", "1048576")).ok
    assert of_topic(world) == {"retention.ms": "5", "segment.bytes": "1048576"}
    assert alter(world, TOPIC, put("segment.bytes", "2000000"), ConfigOp("retention.ms", OpType.DELETE)).ok
    assert of_topic(world) == {"segment.bytes": "2000000"}


def test_small_segments_are_for_tests_and_those_of_an_earlier_version_stay(world: World) -> None:
    world.write([Change(ChangeKind.TOPIC_CONFIG, "t", "segment.bytes", "14")])
    assert topic_settings(world.at().config.topic_settings, of_topic(world)).segment_bytes == 14
    assert alter(world, TOPIC, put("retention.ms", "7")).ok
    assert alter(world, TOPIC, put("segment.bytes", "14")).error is ErrorCode.INVALID_CONFIG
    assert alter(world, TOPIC, put("internal.segment.bytes", "15")).ok
    assert topic_settings(world.at().config.topic_settings, of_topic(world)).segment_bytes == 15
    assert alter(world, TOPIC, put("segment.bytes", "1048576")).ok
    assert alter(world, TOPIC, ConfigOp("internal.segment.bytes", OpType.DELETE)).ok
    assert topic_settings(world.at().config.topic_settings, of_topic(world)).segment_bytes == 1_048_576
    append = alter(world, TOPIC, ConfigOp("internal.segment.bytes", OpType.APPEND, "1"))
    assert append.error is ErrorCode.INVALID_CONFIG


def test_deleting_what_is_not_set_and_setting_what_is_so_change_nothing(world: World) -> None:
    before = world.image.version
    assert alter(world, TOPIC, ConfigOp("segment.bytes", OpType.DELETE), put("retention.ms", "5")).ok
    assert world.image.version == before


def test_validating_only_changes_nothing_and_still_refuses(world: World) -> None:
    before = world.image.version
    assert alter(world, TOPIC, put("retention.ms", "6"), validate_only=True).ok
    assert not alter(world, TOPIC, put("retention.ms", "-2"), validate_only=True).ok
    assert world.image.version == before


def test_append_begins_from_the_value_that_holds_also_from_the_default(world: World) -> None:
    assert alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.APPEND, "compact")).ok
    assert of_topic(world)["cleanup.policy"] == "delete,compact"
    assert alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.APPEND, "compact")).ok
    assert of_topic(world)["cleanup.policy"] == "delete,compact"
    assert alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.SUBTRACT, "delete")).ok
    assert of_topic(world)["cleanup.policy"] == "compact"


def test_a_list_may_be_empty_after_a_subtraction(world: World) -> None:
    assert alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.SUBTRACT, "delete")).error is ErrorCode.NONE
    assert of_topic(world)["cleanup.policy"] == ""
    assert alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.APPEND, "compact")).error is ErrorCode.NONE
    assert of_topic(world)["cleanup.policy"] == "compact"


def test_a_list_must_still_be_allowed_after_an_addition(world: World) -> None:
    outcome = alter(world, TOPIC, ConfigOp("cleanup.policy", OpType.APPEND, "shred"))
    assert outcome.error is ErrorCode.INVALID_CONFIG
    assert "cleanup.policy" not in of_topic(world)


@pytest.mark.parametrize(
    ("op", "error", "message"),
    [
        (put("no.such.key", "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such.key"),
        (
            put("segment.bytes", "1048575"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 1048575 for configuration segment.bytes: must be a whole number from 1048576 to "
            "2147483647",
        ),
        (
            put("internal.segment.bytes", "13"),
            ErrorCode.INVALID_CONFIG,
            "Invalid value 13 for configuration internal.segment.bytes: must be a whole number from 14 to "
            "2147483647",
        ),
        (put("retention.ms", None), ErrorCode.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (ConfigOp("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST, "Unknown operation type 4."),
        (ConfigOp("retention.ms", -1, "1"), ErrorCode.INVALID_REQUEST, "Unknown operation type -1."),
        (
            ConfigOp("retention.ms", OpType.APPEND, "1"),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            ConfigOp("retention.ms", OpType.SUBTRACT, "1"),
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
    ],
)
def test_one_bad_op_refuses_all_ops_of_the_resource(
    world: World, op: ConfigOp, error: ErrorCode, message: str
) -> None:
    outcome = alter(world, TOPIC, put("segment.ms", "100"), op)
    assert (outcome.error, outcome.message) == (error, message)
    assert of_topic(world) == {"retention.ms": "5"}


def test_every_key_without_a_value_is_named(world: World) -> None:
    outcome = alter(world, TOPIC, put("retention.ms", None), put("segment.ms", None))
    assert outcome.message == "Null value not supported for : retention.ms, segment.ms"


def test_replacing_takes_away_what_is_not_named_and_nothing_where_it_is_refused(world: World) -> None:
    assert alter(world, TOPIC, put("segment.ms", "100")).ok

    def replaced(*ops: ConfigOp, validate_only: bool = False) -> ErrorCode:
        command = IncrementalAlterConfigs((ConfigAlteration(TOPIC, ops),), validate_only, replaces=True)
        (outcome,) = world.do(plan_alter_configs, command)
        return outcome.error

    assert replaced(put("segment.ms", "13"), put("no.such.key", "1")) is ErrorCode.INVALID_CONFIG
    assert replaced(put("segment.ms", None)) is ErrorCode.INVALID_REQUEST
    assert replaced(put("segment.ms", "1"), put("segment.ms", "2")) is ErrorCode.INVALID_REQUEST
    assert replaced(put("segment.ms", "200"), validate_only=True) is ErrorCode.NONE
    assert of_topic(world) == {"retention.ms": "5", "segment.ms": "100"}
    assert replaced(put("segment.ms", "200")) is ErrorCode.NONE
    assert of_topic(world) == {"segment.ms": "200"}


def test_a_key_given_twice_is_refused(world: World) -> None:
    outcome = alter(world, TOPIC, put("segment.ms", "1"), put("segment.ms", "2"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REQUEST,
        "Error due to duplicate config keys",
    )


@pytest.mark.parametrize(
    ("resource", "error", "message"),
    [
        (
            ConfigResource(ResourceType.TOPIC, "absent"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'absent' does not exist.",
        ),
        (
            ConfigResource(ResourceType.TOPIC, ""),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            ConfigResource(ResourceType.TOPIC, ".."),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '..' is not allowed",
        ),
        (
            ConfigResource(ResourceType.GROUP, "g"),
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: retention.ms",
        ),
        (ConfigResource(99, "x"), ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
        (
            ConfigResource(ResourceType.BROKER, "2"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            ConfigResource(ResourceType.BROKER, "one"),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: one",
        ),
    ],
)
def test_resources_that_are_not_here_are_refused(
    world: World, resource: ConfigResource, error: ErrorCode, message: str
) -> None:
    outcome = alter(world, resource, put("retention.ms", "1"))
    assert (outcome.error, outcome.message) == (error, message)


def test_resources_stand_or_fall_by_themselves_and_one_given_twice_falls(world: World) -> None:
    good = ConfigAlteration(ALL_BROKERS, (put("log.retention.ms", "7"),))
    twice = ConfigAlteration(TOPIC, (put("retention.ms", "1"),))
    outcomes = world.do(plan_alter_configs, IncrementalAlterConfigs((twice, good, twice)))
    assert [(each.resource, each.error, each.message) for each in outcomes] == [
        (TOPIC, ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."),
        (ALL_BROKERS, ErrorCode.NONE, None),
        (TOPIC, ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."),
    ]
    assert of_topic(world) == {"retention.ms": "5"}


# Brokers


def test_a_dynamic_setting_of_all_brokers_and_of_one(world: World) -> None:
    assert alter(world, ALL_BROKERS, put("log.retention.ms", "7"), put("log.segment.bytes", "2000000")).ok
    assert alter(world, BROKER, put("log.retention.ms", "8")).ok
    settings = world.at().config.topic_settings
    assert (settings.retention_ms, settings.segment_bytes) == (8, 2_000_000)
    assert alter(world, BROKER, ConfigOp("log.retention.ms", OpType.DELETE)).ok
    assert world.at().config.topic_settings.retention_ms == 7


@pytest.mark.parametrize(
    "key", ["process.roles", "queued.max.requests", "log.dirs", "no.such.key", "retention.ms"]
)
def test_other_settings_of_a_broker_are_fixed_while_it_runs(world: World, key: str) -> None:
    outcome = alter(world, ALL_BROKERS, put(key, "1"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs dynamically: [{key}]",
    )


UNKNOWN = "no.such.key"
OF_LISTENER = "listener.name.x.no.such.key"


@pytest.mark.parametrize("resource", [BROKER, ALL_BROKERS])
def test_a_client_can_set_and_delete_a_key_that_nothing_reads(resource: ConfigResource) -> None:
    world = filled()
    world.origin = ChangeOrigin.WIRE
    assert alter(world, resource, put(UNKNOWN, "1"), put("log.retention.ms", "7")).ok
    assert world.image.broker_configs == {resource.name: {UNKNOWN: "1", "log.retention.ms": "7"}}
    assert world.at().config.topic_settings.retention_ms == 7
    assert alter(world, resource, put(UNKNOWN, "")).ok
    assert world.image.broker_configs[resource.name][UNKNOWN] == ""
    assert alter(world, resource, ConfigOp(UNKNOWN, OpType.DELETE)).ok
    assert alter(world, resource, ConfigOp(UNKNOWN, OpType.DELETE)).ok
    assert world.image.broker_configs == {resource.name: {"log.retention.ms": "7"}}


def test_an_unknown_key_is_no_list_and_has_a_value() -> None:
    world = filled()
    world.origin = ChangeOrigin.WIRE
    for how in (OpType.APPEND, OpType.SUBTRACT):
        refused = alter(world, BROKER, ConfigOp(UNKNOWN, how, "1"))
        assert (refused.error, refused.message) == (
            ErrorCode.INVALID_CONFIG,
            f"Can't {how.name} to key {UNKNOWN} because its type is not LIST.",
        )
    assert alter(world, BROKER, put(UNKNOWN, None)).error is ErrorCode.INVALID_REQUEST
    assert world.image.broker_configs == {}


def test_an_unknown_key_is_refused_with_a_bad_value_of_another() -> None:
    world = filled()
    world.origin = ChangeOrigin.WIRE
    assert not alter(world, BROKER, put(UNKNOWN, "1"), put("num.io.threads", "0")).ok
    assert world.image.broker_configs == {}


def test_an_unknown_key_of_a_listener_is_set_for_one_broker_only() -> None:
    world = filled()
    world.origin = ChangeOrigin.WIRE
    assert alter(world, BROKER, put(OF_LISTENER, "1")).ok
    refused = alter(world, ALL_BROKERS, put(OF_LISTENER, "1"))
    assert (refused.error, refused.message) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs at default cluster level, broker id must be specified: [{OF_LISTENER}]",
    )
    assert alter(world, ALL_BROKERS, ConfigOp(OF_LISTENER, OpType.DELETE)).ok


def test_the_console_only_changes_unknown_keys_that_a_client_has_set() -> None:
    world = filled()
    assert alter(world, BROKER, ConfigOp(UNKNOWN, OpType.DELETE)).error is ErrorCode.INVALID_REQUEST
    world.origin = ChangeOrigin.WIRE
    assert alter(world, BROKER, put(UNKNOWN, "1")).ok
    world.origin = ChangeOrigin.PAGE
    assert alter(world, BROKER, put(UNKNOWN, "2")).ok
    assert alter(world, ALL_BROKERS, put(UNKNOWN, "2")).error is ErrorCode.INVALID_REQUEST
    assert alter(world, BROKER, ConfigOp(UNKNOWN, OpType.DELETE)).ok
    assert alter(world, BROKER, put(UNKNOWN, "2")).error is ErrorCode.INVALID_REQUEST


def test_a_bad_value_of_a_broker_is_an_invalid_request_as_in_kafka(world: World) -> None:
    outcome = alter(world, BROKER, put("log.segment.bytes", "1048575"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid value 1048575 for configuration log.segment.bytes: must be a whole number from 1048576 to "
        "2147483647",
    )
    assert world.image.broker_configs == {}


@pytest.mark.parametrize(
    "key",
    [
        "listeners",
        "listener.security.protocol.map",
        "listener.name.x.plain.sasl.jaas.config",
    ],
)
def test_keys_that_differ_by_machine_are_set_for_one_broker_only(world: World, key: str) -> None:
    outcome = alter(world, ALL_BROKERS, put(key, "x"))
    assert (outcome.error, outcome.message) == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs at default cluster level, broker id must be specified: [{key}]",
    )


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("listener.name.x.num.network.threads", True),
        ("listener.name.x.num.io.threads", False),
        ("listener.name.num.network.threads", False),
        ("plain.sasl.jaas.config", False),
    ],
)
def test_only_some_settings_can_be_set_for_one_listener(world: World, key: str, known: bool) -> None:
    outcome = alter(world, ALL_BROKERS, put(key, "1"))
    assert outcome.ok is known
    if not known:
        assert outcome.message == f"Cannot update these configs dynamically: [{key}]"


def test_a_value_that_another_level_hides_must_be_allowed_all_the_same(world: World) -> None:
    """Otherwise the value would take effect when the other level is deleted."""
    assert alter(world, BROKER, put("log.segment.bytes", "2000000")).ok
    assert alter(world, ALL_BROKERS, put("log.segment.bytes", "1048575")).error is ErrorCode.INVALID_REQUEST
    assert alter(world, ALL_BROKERS, put("log.segment.bytes", "1048576")).ok
    assert alter(world, BROKER, ConfigOp("log.segment.bytes", OpType.DELETE)).ok
    assert world.at().config.topic_settings.segment_bytes == 1_048_576


def test_taking_back_the_default_of_all_is_checked_without_it(world: World) -> None:
    assert alter(world, ALL_BROKERS, put("num.io.threads", "9")).ok
    assert alter(world, ALL_BROKERS, ConfigOp("num.io.threads", OpType.DELETE)).ok
    assert world.image.broker_configs == {}
    assert world.at().config.network.num_io_threads == 8


def test_append_on_a_broker_begins_from_the_file() -> None:
    world = filled("log.cleanup.policy=compact")
    assert alter(world, BROKER, ConfigOp("log.cleanup.policy", OpType.APPEND, "delete")).ok
    assert world.image.broker_configs == {"1": {"log.cleanup.policy": "compact,delete"}}


# Roles


@pytest.mark.parametrize(
    ("resource", "role", "error"),
    [
        (TOPIC, Role.VIEWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TOPIC, Role.EDITOR, ErrorCode.NONE),
        (BROKER, Role.VIEWER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER, Role.EDITOR, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER, Role.ADMIN, ErrorCode.NONE),
        (ConfigResource(ResourceType.TOPIC, "absent"), Role.VIEWER, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_topics_are_an_editors_to_set_and_the_broker_an_administrators(
    world: World, resource: ConfigResource, role: Role, error: ErrorCode
) -> None:
    key = "retention.ms" if resource.type == ResourceType.TOPIC else "log.retention.ms"
    before = world.image.version
    assert alter(world, resource, put(key, "77"), role=role).error is error
    assert (world.image.version == before) is (error is not ErrorCode.NONE)


PER_IP = "max.connections.per.ip"
PER_IP_OVERRIDES = "max.connections.per.ip.overrides"


def test_no_connection_for_every_address_is_refused_without_overrides(world: World) -> None:
    refused = alter(world, BROKER, put(PER_IP, "0"))
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert PER_IP_OVERRIDES in (refused.message or "")
    assert world.image.dynamic_configs(1) == {}
    assert alter(world, BROKER, put(PER_IP, "1")).ok
    assert alter(world, BROKER, put(PER_IP, "0"), put(PER_IP_OVERRIDES, "10.0.0.7:5")).ok


@pytest.mark.parametrize("take_away", [ConfigOp(PER_IP_OVERRIDES, OpType.DELETE), put(PER_IP_OVERRIDES, "")])
def test_overrides_stay_while_every_other_address_may_have_none(world: World, take_away: ConfigOp) -> None:
    assert alter(world, ALL_BROKERS, put(PER_IP_OVERRIDES, "10.0.0.7:5")).ok
    assert alter(world, BROKER, put(PER_IP, "0")).ok
    assert alter(world, ALL_BROKERS, take_away).error is ErrorCode.INVALID_REQUEST
    assert alter(world, BROKER, ConfigOp(PER_IP, OpType.DELETE)).ok
    assert alter(world, ALL_BROKERS, take_away).ok


QUEUES = ConfigResource(ResourceType.CLIENT_METRICS, "queues")


def alter_subscription(
    world: World,
    *ops: ConfigOp,
    role: Role = Role.EDITOR,
    resource: ConfigResource = QUEUES,
    expected: int | None = None,
) -> ResourceOutcome:
    command = IncrementalAlterConfigs((ConfigAlteration(resource, ops, expected),))
    (outcome,) = world.do(plan_alter_configs, command, role)
    return outcome


def subscribed(world: World) -> dict[str, str]:
    entry = world.image.client_metrics.get("queues")
    return {} if entry is None else dict(entry.configs)


def test_the_first_setting_makes_a_subscription_and_the_last_one_takes_it_away(world: World) -> None:
    assert alter_subscription(world, put("interval.ms", "1000"), put("metrics", "org.a.")).ok
    assert subscribed(world) == {"interval.ms": "1000", "metrics": "org.a."}
    assert alter_subscription(world, ConfigOp("interval.ms", OpType.DELETE)).ok
    assert list(world.image.client_metrics) == ["queues"]
    assert alter_subscription(world, ConfigOp("metrics", OpType.DELETE)).ok
    assert world.image.client_metrics == {}


def test_a_list_is_extended_and_shortened(world: World) -> None:
    alter_subscription(world, put("metrics", "org.a.,org.b."))
    alter_subscription(world, ConfigOp("metrics", OpType.APPEND, "org.c."))
    alter_subscription(world, ConfigOp("metrics", OpType.SUBTRACT, "org.a."))
    assert subscribed(world) == {"metrics": "org.b.,org.c."}


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
    assert (
        alter_subscription(world, put("metrics", "*") if op.key != "metrics" else put("match", ""), op).error
        is error
    )
    assert subscribed(world) == {}


def test_a_subscription_must_have_a_name(world: World) -> None:
    nameless = ConfigResource(ResourceType.CLIENT_METRICS, "")
    assert (
        alter_subscription(world, put("metrics", "*"), resource=nameless).error is ErrorCode.INVALID_REQUEST
    )


def test_an_editor_may_and_a_viewer_may_not(world: World) -> None:
    outcome = alter_subscription(world, put("metrics", "*"), role=Role.VIEWER)
    assert outcome.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and not subscribed(world)


def test_of_two_edits_of_the_same_version_the_second_is_refused(world: World) -> None:
    assert alter_subscription(world, put("metrics", "*"), expected=0).ok
    version = world.image.client_metrics["queues"].version
    assert alter_subscription(world, put("interval.ms", "200"), expected=version).ok
    late = alter_subscription(world, put("interval.ms", "300"), expected=version)
    assert late.error is ErrorCode.INVALID_UPDATE_VERSION and "changed by ann" in str(late.message)
    assert subscribed(world)["interval.ms"] == "200"


def test_a_listener_gets_the_names(world: World) -> None:
    command = IncrementalAlterConfigs((ConfigAlteration(QUEUES, (put("metrics", "*"),)),))
    delta = Delta.of(world.plan(plan_alter_configs, command).changes)
    assert delta.client_metrics == {"queues"}
    assert not delta.broker_configs and not delta.topics and not delta.quotas


def test_set_keys_are_described_with_their_source_and_others_as_defaults(world: World) -> None:
    alter_subscription(world, put("metrics", " org.a. , org.b. "))
    rows = describe(QUEUES, world.image, world.configuration)
    assert [(row.name, row.value, row.source, row.type) for row in rows] == [
        ("interval.ms", "300000", ConfigSource.DEFAULT, 3),
        ("match", "", ConfigSource.DEFAULT, 7),
        ("metrics", "org.a.,org.b.", ConfigSource.CLIENT_METRICS, 7),
    ]
    assert [len(row.synonyms) for row in rows] == [0, 0, 1]
    assert all(row.documentation and not row.read_only for row in rows)


def test_a_subscription_that_is_not_there_has_the_defaults_and_a_nameless_one_is_refused(
    world: World,
) -> None:
    rows = describe(QUEUES, world.image, world.configuration)
    assert {row.source for row in rows} == {ConfigSource.DEFAULT}
    with pytest.raises(ApiError) as caught:
        describe(ConfigResource(ResourceType.CLIENT_METRICS, ""), world.image, world.configuration)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


KEYS = ("ssl.keystore.location", "ssl.truststore.location", "listener.name.ssl.ssl.keystore.location")


def set_location(world: World, key: str, location: str) -> tuple[ErrorCode, str | None]:
    op = ConfigOp(key, OpType.SET, location)
    resource = ConfigResource(ResourceType.BROKER, "1")
    (outcome,) = world.do(plan_alter_configs, IncrementalAlterConfigs((ConfigAlteration(resource, (op,)),)))
    return outcome.error, outcome.message


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", ["a.pem", "below/a.pem", "./a.pem", "below//a.pem"])
def test_a_store_may_lie_in_an_allowed_folder_or_below(key: str, name: str) -> None:
    world = World("ssl.store.allowed.directories=/etc/weir,/srv/keys/")
    assert set_location(world, key, f"/etc/weir/{name}") == (ErrorCode.NONE, None)
    assert set_location(world, key, f"/srv/keys/{name}") == (ErrorCode.NONE, None)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "location",
    [
        *("/etc/passwd", "/nowhere", "/dev/zero", "/etc/weir", "/etc/weir/", "/etc/weirdo/a.pem", "/a.pem"),
        *("/etc/weir/../passwd", "/etc/weir/below/../a.pem", "a.pem", "/etc", "/"),
    ],
)
def test_any_other_path_is_refused_in_the_same_words(key: str, location: str) -> None:
    world = World("ssl.store.allowed.directories=/etc/weir")
    error, words = set_location(world, key, location)
    assert error is ErrorCode.INVALID_REQUEST and words is not None
    assert words.replace(repr(location), "...").replace(location, "...") == (
        f"Invalid value ... for configuration {key}: must be a PEM file: a regular file of at most 1048576 "
        "bytes that the broker can read, in one of ssl.store.allowed.directories if set while the broker runs"
    )


def test_without_the_setting_the_folders_count_in_which_the_stores_of_the_file_lie(tmp_path: Path) -> None:
    world = World(f"ssl.keystore.location={tmp_path}/server.pem", "console.ssl.keystore.location=/c/d.pem")
    assert set_location(world, KEYS[1], f"{tmp_path}/trust.pem")[0] is ErrorCode.NONE
    assert set_location(world, KEYS[1], "/c/trust.pem")[0] is ErrorCode.NONE
    assert set_location(world, KEYS[1], f"{tmp_path.parent}/trust.pem")[0] is ErrorCode.INVALID_REQUEST


def test_without_the_setting_and_without_stores_there_is_no_such_folder() -> None:
    assert set_location(World(), KEYS[0], "/etc/weir/a.pem")[0] is ErrorCode.INVALID_REQUEST


def test_a_location_may_always_be_taken_away() -> None:
    assert set_location(World(), KEYS[0], "")[0] is ErrorCode.NONE


def pauses(world: World, *alterations: ConfigAlteration) -> int:
    """Of planning them, all of which succeed."""
    outcomes: list[list[ResourceOutcome]] = []

    def planned() -> Steps[None]:
        plan = yield from plan_alter_configs(IncrementalAlterConfigs(alterations), world.at())
        outcomes.append(plan.result)

    made = sum(1 for _ in planned())
    assert all(each.ok for each in outcomes[0]), outcomes
    return made


def test_every_value_is_planned_in_a_step_of_its_own(world: World) -> None:
    subscriptions = [
        ConfigAlteration(ConfigResource(ResourceType.CLIENT_METRICS, f"s{number}"), (put("metrics", "x"),))
        for number in range(4)
    ]
    assert pauses(world, *subscriptions) >= 4
    keys = ("retention.ms", "segment.bytes", "retention.bytes")
    assert pauses(world, ConfigAlteration(TOPIC, tuple(put(key, "1048576") for key in keys))) >= 3
    one = pauses(world, ConfigAlteration(BROKER, (put("max.connections.per.user.overrides", "a:1"),)))
    names = [f"listener.name.a{number}.sasl.enabled.mechanisms" for number in range(20)]
    many = pauses(world, ConfigAlteration(BROKER, tuple(put(key, "PLAIN") for key in names)))
    # Each is applied, read, and read again with the whole configuration.
    assert many - one == 3 * 19


OVERRIDES = "max.connections.per.user.overrides"


@pytest.mark.parametrize("count", [MAX_ITEMS - 1, MAX_ITEMS, MAX_ITEMS + 1])
@pytest.mark.parametrize(
    ("resource", "key", "item"),
    [
        (BROKER, OVERRIDES, "u{}:1"),
        (BROKER, "max.connections.per.ip.overrides", "h{}:1"),
        (BROKER, "ssl.cipher.suites", "c{}"),
        (TOPIC, "leader.replication.throttled.replicas", "{}:1"),
        (ConfigResource(ResourceType.CLIENT_METRICS, "s"), "metrics", "m{}"),
    ],
)
def test_a_client_may_set_so_many_items(
    world: World, resource: ConfigResource, key: str, item: str, count: int
) -> None:
    value = ",".join(item.format(number) for number in range(count))
    outcome = alter(world, resource, put(key, value), validate_only=True)
    if count <= MAX_ITEMS:
        assert outcome.ok
    else:
        problem = f"The value of {key} has more than {MAX_ITEMS} items."
        assert (outcome.error, outcome.message) == (ErrorCode.INVALID_CONFIG, problem)


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("key", ["plain.own.key", "ssl.keystore.key"])
def test_a_client_may_set_so_many_characters(key: str, over: int) -> None:
    world = World()
    world.origin = ChangeOrigin.WIRE
    outcome = alter(world, BROKER, put(key, "x" * (LONGEST_VALUE + over)))
    if over <= 0:
        assert outcome.ok
    else:
        problem = f"The value of {key} has more than {LONGEST_VALUE} characters."
        assert (outcome.error, outcome.message) == (ErrorCode.INVALID_CONFIG, problem)


def test_a_list_does_not_grow_beyond_its_limits_by_appending(world: World) -> None:
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "s")
    items = [f"m{number}" for number in range(MAX_ITEMS)]
    append = ConfigOp("metrics", OpType.APPEND, ",".join(items[:-1]))
    assert alter(world, resource, append).ok
    assert alter(world, resource, ConfigOp("metrics", OpType.APPEND, items[-1])).ok
    refused = alter(world, resource, ConfigOp("metrics", OpType.APPEND, "one.more"))
    assert refused.error is ErrorCode.INVALID_CONFIG
    assert alter(world, resource, ConfigOp("metrics", OpType.SUBTRACT, items[0])).ok
    assert alter(world, resource, ConfigOp("metrics", OpType.APPEND, "one.more")).ok


@pytest.mark.parametrize("count", [MAX_SETTINGS - 1, MAX_SETTINGS, MAX_SETTINGS + 1])
def test_a_broker_has_so_many_dynamic_settings(count: int) -> None:
    world = World()
    world.origin = ChangeOrigin.WIRE
    outcome = alter(world, BROKER, *(put(f"own.{number}", "") for number in range(count)))
    assert outcome.ok is (count <= MAX_SETTINGS)
    if not outcome.ok:
        assert outcome.message == f"At most {MAX_SETTINGS} settings of a broker can be dynamic."


def test_settings_can_be_deleted_from_a_broker_with_too_many(world: World) -> None:
    world.origin = ChangeOrigin.WIRE
    kept = [Change(ChangeKind.BROKER_CONFIG, "1", f"own.{number}", "") for number in range(MAX_SETTINGS + 2)]
    world.write(kept)
    assert alter(world, BROKER, ConfigOp("own.1", OpType.DELETE, None)).ok


def test_a_small_rate_of_replication_is_warned_of_where_it_is_kept_only_roughly() -> None:
    small = put("leader.replication.throttled.rate", "999999")
    by_kafkas_rule = filled("quota.bandwidth.algorithm=rate")
    (warning,) = alter(by_kafkas_rule, BROKER, small, validate_only=True).warnings
    assert warning.startswith("leader.replication.throttled.rate=999999 is kept only roughly")
    assert alter(filled(), BROKER, small).warnings == ()
    assert alter(by_kafkas_rule, BROKER, put("leader.replication.throttled.rate", "1000000")).warnings == ()
