"""A topic's own settings laid over the broker's."""

import pytest

from broker.common.errors import ConfigError
from broker.config.sections import TopicSettings
from broker.config.sections.quotas import ALL_REPLICAS
from broker.config.sections.topics import TOPIC_SETTINGS, default_text, topic_settings, topic_throttles


def test_a_topic_without_settings_shares_the_brokers() -> None:
    defaults = TopicSettings()
    assert topic_settings(defaults, {}) is defaults


def test_a_topics_setting_wins_over_the_brokers() -> None:
    settings = topic_settings(TopicSettings(retention_ms=5, segment_bytes=100), {"retention.ms": "-1"})
    assert (settings.retention_ms, settings.segment_bytes) == (-1, 100)


@pytest.mark.parametrize(
    ("key", "below", "at"),
    [
        ("retention.ms", "-2", "-1"),
        ("retention.bytes", "-2", "-1"),
        ("segment.bytes", "13", "14"),
        ("segment.ms", "0", "1"),
        ("segment.index.bytes", "3", "4"),
        ("index.interval.bytes", "-1", "0"),
        ("max.message.bytes", "-1", "0"),
        ("flush.messages", "0", "1"),
        ("flush.ms", "-1", "0"),
        ("file.delete.delay.ms", "-1", "0"),
        ("min.insync.replicas", "0", "1"),
        ("message.timestamp.before.max.ms", "-1", "0"),
        ("message.timestamp.after.max.ms", "-1", "0"),
    ],
)
def test_each_key_holds_kafkas_lower_bound(key: str, below: str, at: str) -> None:
    assert topic_settings(TopicSettings(), {key: at}) is not None
    with pytest.raises(ConfigError) as caught:
        topic_settings(TopicSettings(), {key: below})
    assert (caught.value.key, caught.value.value) == (key, below)


def test_the_cleanup_policy_says_what_happens_to_old_segments() -> None:
    both = topic_settings(TopicSettings(), {"cleanup.policy": "compact,delete"})
    assert both.deletes and both.compacts
    one = topic_settings(TopicSettings(), {"cleanup.policy": "compact"})
    assert one.compacts and not one.deletes


def test_the_timestamp_type_is_one_of_two() -> None:
    assert topic_settings(TopicSettings(), {"message.timestamp.type": "LogAppendTime"}).uses_append_time
    assert not TopicSettings().uses_append_time


@pytest.mark.parametrize("text", ["*", " * ", "", "0:1", "0:1,2:3", " 0:1 , 2:3 ", "0:1,", "0:1,,"])
def test_throttled_replicas_are_all_or_some_and_empty_items_stand_at_the_end(text: str) -> None:
    throttles = topic_throttles({"leader.replication.throttled.replicas": text, "retention.ms": "1"})
    assert throttles.follower == ()
    expected = (
        ALL_REPLICAS if "*" in text else tuple((0, 1) if "0" in item else (2, 3) for item in items(text))
    )
    assert throttles.leader == expected


def items(text: str) -> list[str]:
    return [item for item in text.split(",") if item.strip()]


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "0:1:2",
        "a:1",
        "0:b",
        "-1:1",
        ":1",
        "0:",
        ",0:1",
        "0:1,,2:3",
        "*,0:1",
        "**",
        "2147483648:1",
        "\u0661:1",
    ],
)
def test_throttled_replicas_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        topic_throttles({"follower.replication.throttled.replicas": text})
    assert topic_throttles({"follower.replication.throttled.replicas": "2147483647:1"}).follower


@pytest.mark.parametrize(
    ("name", "codec", "level"),
    [
        ("producer", 3, None),
        ("uncompressed", 0, None),
        ("gzip", 1, 7),
        ("snappy", 2, None),
        ("lz4", 3, 8),
        ("zstd", 4, 9),
    ],
)
def test_the_compression_type_says_which_codec_and_level_a_batch_gets(
    name: str, codec: int, level: int | None
) -> None:
    levels = {"compression.gzip.level": "7", "compression.lz4.level": "8", "compression.zstd.level": "9"}
    settings = topic_settings(TopicSettings(), {"compression.type": name, **levels})
    assert settings.recompresses is (name != "producer")
    assert (settings.codec_for(3), settings.compression_level) == (codec, level)


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("compression.type", ["zstd"], ["none", "GZIP", ""]),
        ("compression.gzip.level", ["-1", "1", "9"], ["-2", "0", "10", "x"]),
        ("compression.lz4.level", ["1", "17"], ["0", "18"]),
        ("compression.zstd.level", ["-131072", "0", "22"], ["-131073", "23"]),
        ("min.cleanable.dirty.ratio", ["0", "0.5", "1"], ["-0.01", "1.01"]),
        ("delete.retention.ms", ["0"], ["-1"]),
        ("min.compaction.lag.ms", ["0"], ["-1"]),
        ("max.compaction.lag.ms", ["1"], ["0"]),
        ("segment.jitter.ms", ["0"], ["-1"]),
        ("local.retention.ms", ["-2", "-1"], ["-3"]),
        ("local.retention.bytes", ["-2", "-1"], ["-3"]),
        ("preallocate", ["true", "FALSE"], ["yes"]),
        ("unclean.leader.election.enable", ["true"], ["1"]),
        ("remote.storage.enable", ["false"], ["true", "x"]),
        ("remote.log.copy.disable", ["true", "false"], ["x"]),
        ("remote.log.delete.on.disable", ["true", "false"], ["x"]),
        ("cleanup.policy", ["", "compact", "delete,compact"], ["shred", "compact,,delete"]),
    ],
)
def test_which_values_a_topic_key_takes(key: str, taken: list[str], refused: list[str]) -> None:
    for text in taken:
        topic_settings(TopicSettings(), {key: text})
    for text in refused:
        with pytest.raises(ConfigError) as caught:
            topic_settings(TopicSettings(), {key: text})
        assert caught.value.key == key


def test_without_a_policy_nothing_is_removed() -> None:
    neither = topic_settings(TopicSettings(), {"cleanup.policy": ""})
    assert not neither.deletes and not neither.compacts


KAFKAS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas max.decompressed.message.bytes remote.copy.lag.bytes
remote.copy.lag.ms
index.interval.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms
message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
"""


def test_every_field_has_a_topic_key_whose_default_is_the_brokers() -> None:
    ours = {"max.message.records", "record.validation"}
    assert set(TOPIC_SETTINGS) == {*KAFKAS.split(), "internal.segment.bytes", *ours}
    assert default_text(TopicSettings(retention_ms=7), "retention.ms") == "7"
    assert default_text(TopicSettings(), "cleanup.policy") == "delete"
