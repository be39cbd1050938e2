"""DescribeConfigs returns effective values and their sources (KIP-226)."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.config.load import load
from broker.controller.commands import ConfigResource, ResourceType
from broker.controller.describe import ConfigSource, describe
from broker.controller.rows.broker import ConfigRow
from broker.metadata.changes import Change, ChangeKind
from tests.controller.world import World

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")


def world(*overrides: str, topic: dict[str, str] | None = None, **brokers: dict[str, str]) -> World:
    made = World(*overrides)
    made.write(
        [
            Change(ChangeKind.TOPIC, "t", "id", bytes(range(16)).hex()),
            Change(ChangeKind.TOPIC, "t", "partitions", "1"),
            *(Change(ChangeKind.TOPIC_CONFIG, "t", key, value) for key, value in (topic or {}).items()),
            *(
                Change(ChangeKind.BROKER_CONFIG, {"one": "1", "all": ""}[name], key, value)
                for name, values in brokers.items()
                for key, value in values.items()
            ),
        ]
    )
    return made


def rows(world: World, resource: ConfigResource) -> dict[str, ConfigRow]:
    return {row.name: row for row in describe(resource, world.image, world.configuration)}


def sources(row: ConfigRow) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in row.synonyms]


def test_an_untouched_topic_has_every_setting_from_the_default() -> None:
    found = rows(world(), TOPIC)
    assert len(found) == 39 and list(found) == sorted(found)
    row = found["retention.bytes"]
    assert (row.value, row.source, row.is_default, row.read_only, row.sensitive) == (
        "-1",
        ConfigSource.DEFAULT,
        True,
        False,
        False,
    )
    assert sources(row) == [("log.retention.bytes", "-1", ConfigSource.DEFAULT)]
    assert row.documentation.startswith("The oldest segments of a larger")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", "604800000"),
        ("segment.ms", "604800000"),
        ("segment.jitter.ms", "0"),
        ("flush.ms", "9223372036854775807"),
        ("remote.storage.enable", "false"),
        ("leader.replication.throttled.replicas", ""),
    ],
)
def test_a_default_that_the_broker_has_in_no_setting_of_this_unit_has_no_synonym(
    key: str, value: str
) -> None:
    """As Kafka answers: log.retention.ms is null, as log.retention.hours is 168."""
    row = rows(world(), TOPIC)[key]
    assert (row.value, row.source, sources(row)) == (value, ConfigSource.DEFAULT, [])


def test_the_topic_wins_over_this_broker_over_all_brokers_over_the_file() -> None:
    layers = world(
        "log.retention.ms=4",
        topic={"retention.ms": "1"},
        one={"log.retention.ms": "2"},
        all={"log.retention.ms": "3"},
    )
    row = rows(layers, TOPIC)["retention.ms"]
    assert (row.value, row.source, row.is_default) == ("1", ConfigSource.DYNAMIC_TOPIC, False)
    assert sources(row) == [
        ("retention.ms", "1", ConfigSource.DYNAMIC_TOPIC),
        ("log.retention.ms", "2", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.ms", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    broker_row = rows(layers, BROKER)["log.retention.ms"]
    assert (broker_row.value, broker_row.source, broker_row.read_only) == (
        "2",
        ConfigSource.DYNAMIC_BROKER,
        False,
    )
    assert sources(broker_row) == sources(row)[1:]


def test_a_coarser_spelling_in_the_file_is_shown_in_the_unit_of_the_key() -> None:
    row = rows(world("log.retention.hours=1"), TOPIC)["retention.ms"]
    assert (row.value, row.source) == ("3600000", ConfigSource.STATIC_BROKER)
    assert sources(row)[0] == ("log.retention.hours", "1", ConfigSource.STATIC_BROKER)


def test_a_finer_spelling_wins_wherever_it_stands() -> None:
    made = world("log.retention.ms=9", all={"log.retention.hours": "1"})
    assert rows(made, TOPIC)["retention.ms"].value == "9"
    assert made.at().config.topic_settings.retention_ms == 9


def test_each_spelling_of_a_brokers_key_has_a_row_in_its_own_unit() -> None:
    def found(*overrides: str) -> dict[str, tuple[str | None, int, bool, list[str]]]:
        return {
            name: (row.value, row.source, row.read_only, [each.name for each in row.synonyms])
            for name, row in rows(world(*overrides), BROKER).items()
            if name.startswith(("log.retention.m", "log.retention.h", "log.dir", "broker.id", "node.id"))
        }

    hours = ["log.retention.hours"]
    assert found("log.dir=/x") == {
        "broker.id": ("1", ConfigSource.DEFAULT, True, ["broker.id"]),
        "log.dir": ("/x", ConfigSource.STATIC_BROKER, True, ["log.dir", "log.dir"]),
        "log.dirs": (None, ConfigSource.DEFAULT, True, []),
        "log.retention.hours": ("168", ConfigSource.DEFAULT, True, hours),
        "log.retention.minutes": (None, ConfigSource.DEFAULT, True, []),
        "log.retention.ms": (None, ConfigSource.DEFAULT, False, []),
        "node.id": ("1", ConfigSource.DEFAULT, True, ["node.id"]),
    }
    set_ = found("log.retention.minutes=3", "log.retention.hours=1", "broker.id=1")
    assert set_["log.retention.minutes"] == (
        "3",
        ConfigSource.STATIC_BROKER,
        True,
        ["log.retention.minutes", "log.retention.hours", "log.retention.hours"],
    )
    assert set_["log.retention.hours"] == ("1", ConfigSource.STATIC_BROKER, True, hours * 2)
    assert set_["log.retention.ms"] == (None, ConfigSource.DEFAULT, False, [])
    assert set_["node.id"][:2] == set_["broker.id"][:2] == ("1", ConfigSource.STATIC_BROKER)


@pytest.mark.parametrize(
    ("key", "type_"),
    [
        ("listeners", 7),
        ("advertised.listeners", 7),
        ("listener.security.protocol.map", 2),
        ("controller.listener.names", 7),
        ("log.dirs", 7),
        ("client.quota.callback.class", 8),
        ("share.coordinator.state.topic.min.isr", 4),
        ("share.coordinator.state.topic.replication.factor", 4),
        ("sasl.enabled.mechanisms", 7),
        ("log.cleaner.io.max.bytes.per.second", 6),
        ("log.retention.ms", 5),
        ("log.retention.hours", 3),
    ],
)
def test_types_are_kafkas(key: str, type_: int) -> None:
    assert rows(world(), BROKER)[key].type == type_


@pytest.mark.parametrize(
    "key",
    [
        "ssl.keystore.location",
        "sasl.oauthbearer.expected.issuer",
        "inter.broker.listener.name",
        "advertised.listeners",
        "log.flush.interval.ms",
        "client.quota.callback.class",
        "delegation.token.secret.key",
    ],
)
def test_defaults_that_are_null_in_kafka_are_null(key: str) -> None:
    row = rows(world(), BROKER)[key]
    assert (row.value, row.source, sources(row)) == (None, ConfigSource.DEFAULT, [])


@pytest.mark.parametrize("key", ["retention.ms", "cleanup.policy", "segment.bytes", "message.timestamp.type"])
def test_described_values_are_those_in_force(key: str) -> None:
    """Describing and resolving apply the same layers by different code."""
    made = world(
        "log.retention.minutes=3", "log.segment.bytes=2000000", all={"log.cleanup.policy": "compact,delete"}
    )
    value = rows(made, TOPIC)[key].value
    settings = made.at().config.topic_settings
    values = {
        "retention.ms": str(settings.retention_ms),
        "cleanup.policy": ",".join(settings.cleanup_policy),
        "segment.bytes": str(settings.segment_bytes),
        "message.timestamp.type": settings.message_timestamp_type,
    }
    assert value == values[key]


def test_the_broker_shows_all_its_keys_and_which_can_be_changed() -> None:
    found = rows(world("num.partitions=2"), BROKER)
    assert (found["num.partitions"].value, found["num.partitions"].source) == (
        "2",
        ConfigSource.STATIC_BROKER,
    )
    assert found["num.partitions"].read_only and not found["log.segment.bytes"].read_only
    assert found["listeners"].value == "PLAINTEXT://127.0.0.1:9092" and not found["listeners"].read_only
    assert found["advertised.listeners"].read_only
    assert list(found) == sorted(found)


def test_what_a_setting_means_is_explained_without_links() -> None:
    reported = rows(world(), TOPIC)["cleanup.policy"].documentation
    assert "(compaction.md). Both can be set." in reported
    for row in (*rows(world(), TOPIC).values(), *rows(world(), BROKER).values()):
        assert "](" not in row.documentation


def test_passwords_are_listed_without_their_value() -> None:
    key = "listener.name.clients.plain.sasl.jaas.config"
    row = rows(world(f"{key}=hush"), BROKER)[key]
    assert (row.value, row.sensitive, row.read_only) == (None, True, False)
    assert "hush" not in repr(row)


def test_a_listeners_own_setting_stands_before_the_common_one() -> None:
    """KIP-226: the synonyms list every source that has a value."""
    key = "listener.name.clients.num.network.threads"
    row = rows(world("num.network.threads=2", f"{key}=3", one={key: "4"}, all={key: "5"}), BROKER)[key]
    assert (row.value, row.source, row.read_only) == ("4", ConfigSource.DYNAMIC_BROKER, False)
    assert sources(row) == [
        (key, "4", ConfigSource.DYNAMIC_BROKER),
        (key, "5", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (key, "3", ConfigSource.STATIC_BROKER),
        ("num.network.threads", "2", ConfigSource.STATIC_BROKER),
        ("num.network.threads", "1", ConfigSource.DEFAULT),
    ]


def test_a_password_that_was_set_while_the_broker_runs_is_hidden_too() -> None:
    key = "listener.name.clients.plain.sasl.jaas.config"
    row = rows(world(one={key: "hush"}), BROKER)[key]
    assert (row.value, row.source, row.sensitive) == (None, ConfigSource.DYNAMIC_BROKER, True)
    assert "hush" not in repr(row)


def test_all_brokers_show_only_what_is_set_for_them() -> None:
    found = rows(
        world(one={"log.roll.ms": "1"}, all={"log.roll.hours": "2"}), ConfigResource(ResourceType.BROKER, "")
    )
    assert [(row.name, row.value, row.source) for row in found.values()] == [
        ("log.roll.hours", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (ConfigResource(ResourceType.TOPIC, "absent"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResource(ResourceType.TOPIC, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ConfigResource(ResourceType.BROKER, "2"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER, "-1"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.BROKER_LOGGER, "2"), ErrorCode.INVALID_REQUEST),
        (ConfigResource(ResourceType.GROUP, ""), ErrorCode.INVALID_REQUEST),
        (ConfigResource(99, "x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_resources_are_refused(resource: ConfigResource, error: ErrorCode) -> None:
    made = world()
    with pytest.raises(ApiError) as caught:
        describe(resource, made.image, load(None, [], {}))
    assert caught.value.code is error


def test_an_unknown_key_of_a_broker_is_described_without_its_value() -> None:
    made = world(one={"no.such.key": "hush"}, all={"no.such.key": "hush", "another.key": "hush"})
    found = rows(made, BROKER)
    row = found["no.such.key"]
    assert (row.value, row.source, row.type, row.read_only, row.sensitive) == (
        None,
        ConfigSource.DYNAMIC_BROKER,
        0,
        True,
        True,
    )
    assert sources(row) == [
        ("no.such.key", None, ConfigSource.DYNAMIC_BROKER),
        ("no.such.key", None, ConfigSource.DYNAMIC_DEFAULT_BROKER),
    ]
    assert sources(found["another.key"]) == [("another.key", None, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
    of_all = rows(made, ConfigResource(ResourceType.BROKER, ""))
    assert {name: sources(each) for name, each in of_all.items()} == {
        name: [(name, None, ConfigSource.DYNAMIC_DEFAULT_BROKER)] for name in ("another.key", "no.such.key")
    }


def test_the_size_of_segments_for_tests_is_described_only_where_it_is_set() -> None:
    assert "internal.segment.bytes" not in rows(world(), TOPIC)
    row = rows(world(topic={"internal.segment.bytes": "1000"}), TOPIC)["internal.segment.bytes"]
    assert (row.value, row.source, row.read_only, row.sensitive) == (
        "1000",
        ConfigSource.DYNAMIC_TOPIC,
        False,
        False,
    )
    assert sources(row) == [("internal.segment.bytes", "1000", ConfigSource.DYNAMIC_TOPIC)]
