"""Settings of topics, brokers, loggers, subscriptions and groups."""

from typing import Any, Final

from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.support.kafka_answers import Case

TOPIC_TYPE, BROKER, LOGGER, SUBSCRIPTION, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)

NO_LISTS: Final = "Kafka's controller does not know which settings of a subscription are lists"
NO_SEGMENT: Final = "Kafka takes any number, and no batch fits into such a segment"
UNKNOWN_OPERATION: Final = "Kafka fails with UNKNOWN_SERVER_ERROR"


def incremental(kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}], **more}


def alter(kind: int, name: str, *values: tuple[str, str | None]) -> dict[str, Any]:
    configs = [{"name": key, "value": value} for key, value in values]
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def describe(kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    return {"resources": [resource], "include_synonyms": True}


LISTS: Final = ("cleanup.policy", "follower.replication.throttled.replicas")
SIZES: Final = ("segment.bytes", "internal.segment.bytes")
TOPIC_KEYS: Final = (
    *("cleanup.policy", "compression.type", "compression.gzip.level", "compression.lz4.level"),
    *("compression.zstd.level", "delete.retention.ms", "errors.deadletterqueue.group.enable"),
    *("file.delete.delay.ms", "flush.messages", "flush.ms", "max.decompressed.message.bytes"),
    *("follower.replication.throttled.replicas", "index.interval.bytes", "local.retention.bytes"),
    *("local.retention.ms", "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms"),
    *("message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio"),
    *(
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    ),
    *("remote.storage.enable", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes"),
    *("segment.jitter.ms", "segment.ms", "unclean.leader.election.enable"),
)
"""All of Kafka 4.4."""

GROUP_KEYS: Final = (
    *("consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
    *("errors.deadletterqueue.copy.record.enable", "errors.deadletterqueue.topic.name"),
    *("share.assignment.interval.ms", "share.auto.offset.reset", "share.delivery.count.limit"),
    *("share.heartbeat.interval.ms", "share.isolation.level", "share.partition.max.record.locks"),
    *("share.record.lock.duration.ms", "share.renew.acknowledge.enable", "share.session.timeout.ms"),
    *("consumer.assignor.offload.enable", "share.assignor.offload.enable"),
)
"""All of Kafka 4.4 but those of streams groups; the last two are described where they are set."""

BROKER_KEYS: Final = (
    *("log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.roll.hours"),
    *("log.roll.ms", "log.roll.jitter.hours", "log.roll.jitter.ms", "log.flush.interval.ms"),
    *("log.retention.bytes", "log.segment.bytes", "message.max.bytes", "num.io.threads"),
    *("auto.create.topics.enable", "compression.type", "log.cleaner.io.max.bytes.per.second"),
    *("log.cleaner.min.cleanable.ratio", "quota.window.num", "quota.window.size.seconds"),
    *("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"),
    *("max.connection.creation.rate", "fetch.max.bytes", "transactional.id.expiration.ms"),
    *("group.min.session.timeout.ms", "group.max.session.timeout.ms", "offsets.retention.minutes"),
    *("ssl.truststore.certificates", "client.quota.callback.class"),
    *("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    *("group.consumer.assignor.offload.enable", "group.share.assignor.offload.enable"),
    *("group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    *("group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"),
    *("group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"),
    *("errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name.prefix"),
    *("log.remote.copy.lag.ms", "log.remote.copy.lag.bytes", "max.decompressed.message.bytes"),
    *("sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"),
    *("share.coordinator.append.linger.ms", "share.coordinator.snapshot.update.records.per.snapshot"),
)

CASES: Final = (
    Case("DescribeConfigs", describe(TOPIC_TYPE, TOPIC, *TOPIC_KEYS)),
    Case("DescribeConfigs", describe(BROKER, "1", *BROKER_KEYS)),
    Case("DescribeConfigs", describe(BROKER, "")),
    Case("DescribeConfigs", describe(GROUP, "grp", *GROUP_KEYS)),
    Case("DescribeConfigs", describe(SUBSCRIPTION, "sub")),
    *(
        Case("IncrementalAlterConfigs", incremental(GROUP, "limits", (key, SET, value)))
        for key, values in (
            ("share.delivery.count.limit", ("1", "2", "10", "11")),
            ("share.partition.max.record.locks", ("99", "100", "4000", "4001")),
            ("share.assignment.interval.ms", ("-1", "0", "15000", "15001")),
            ("consumer.assignment.interval.ms", ("-1", "0", "15000", "15001")),
            ("share.renew.acknowledge.enable", ("x", "false")),
            ("errors.deadletterqueue.topic.name", ("__x", "bad name!", "dlq.x")),
            ("errors.deadletterqueue.copy.record.enable", ("1", "true")),
            ("consumer.assignor.offload.enable", ("false",)),
        )
        for value in values
    ),
    Case("DescribeConfigs", describe(GROUP, "limits", *GROUP_KEYS), until_same=True),
    *(
        Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, TOPIC, (key, SET, value), validate_only=True))
        for key, values in (
            ("max.decompressed.message.bytes", ("0", "1", "2147483639", "2147483640")),
            ("remote.copy.lag.ms", ("-2", "-1", "9223372036854775807")),
            ("remote.copy.lag.bytes", ("-2", "-1")),
            ("errors.deadletterqueue.group.enable", ("x", "true")),
        )
        for value in values
    ),
    *(
        Case("DescribeConfigs", describe(kind, name, "no.such.key"))
        for kind, name in (
            *((TOPIC_TYPE, TOPIC), (TOPIC_TYPE, ABSENT), (TOPIC_TYPE, ""), (TOPIC_TYPE, "bad name!")),
            *((BROKER, "9"), (BROKER, "x"), (LOGGER, "9"), (LOGGER, ""), (LOGGER, "x")),
            *((SUBSCRIPTION, ""), (SUBSCRIPTION, ABSENT), (GROUP, ""), (GROUP, ABSENT), (99, "x"), (1, "x")),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, TOPIC, change))
        for change in (
            ("retention.ms", SET, "1000"),
            ("retention.ms", DELETE, None),
            ("retention.ms", APPEND, "5"),
            ("retention.ms", SET, None),
            ("cleanup.policy", APPEND, "compact"),
            ("cleanup.policy", SUBTRACT, "delete"),
            ("cleanup.policy", SUBTRACT, "other"),
            ("cleanup.policy", DELETE, None),
            ("max.message.bytes", SET, "-1"),
            ("min.insync.replicas", SET, "0"),
            ("message.timestamp.type", SET, "x"),
            ("unclean.leader.election.enable", SET, "x"),
            ("compression.zstd.level", SET, "99"),
            ("remote.storage.enable", SET, "true"),
            ("local.retention.ms", SET, "100"),
            ("no.such.key", SET, "1"),
        )
    ),
    Case(
        "IncrementalAlterConfigs",
        incremental(TOPIC_TYPE, TOPIC, ("retention.ms", 9, "5")),
        differs=UNKNOWN_OPERATION,
    ),
    Case(
        "IncrementalAlterConfigs",
        incremental(TOPIC_TYPE, TOPIC, ("no.such.key", DELETE, None)),
        differs="Kafka deletes what no topic can have",
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, TOPIC, change))
        for change in (
            ("cleanup.policy", SET, "delete,delete"),
            ("cleanup.policy", SET, " compact , delete "),
            ("cleanup.policy", SET, ""),
            ("cleanup.policy", SET, ","),
            ("cleanup.policy", APPEND, "delete"),
            ("cleanup.policy", APPEND, "compact,compact"),
            ("cleanup.policy", APPEND, ""),
            ("cleanup.policy", APPEND, "x"),
            ("cleanup.policy", APPEND, None),
            ("cleanup.policy", SUBTRACT, "delete,compact"),
            ("cleanup.policy", SUBTRACT, "delete"),
            ("cleanup.policy", DELETE, "ignored"),
            ("retention.ms", SUBTRACT, "5"),
            ("compression.type", APPEND, "gzip"),
            ("no.such.key", APPEND, "1"),
            ("no.such.key", SUBTRACT, "1"),
            *(
                (key, SET, value)
                for key, values in (
                    ("segment.bytes", ("1048575", "2147483648", "x", "1048576")),
                    ("internal.segment.bytes", ("2147483648", "x", "14")),
                )
                for value in values
            ),
            ("internal.segment.bytes", APPEND, "1"),
            ("follower.replication.throttled.replicas", APPEND, "0:1"),
            ("follower.replication.throttled.replicas", APPEND, "0:1,1:1"),
            ("follower.replication.throttled.replicas", SUBTRACT, "0:1"),
            ("follower.replication.throttled.replicas", SET, "*"),
            ("follower.replication.throttled.replicas", SET, "x"),
            ("follower.replication.throttled.replicas", DELETE, None),
        )
    ),
    Case(
        "IncrementalAlterConfigs",
        incremental(
            TOPIC_TYPE, TOPIC, ("cleanup.policy", SET, "compact"), ("cleanup.policy", APPEND, "delete")
        ),
    ),
    Case("DescribeConfigs", describe(TOPIC_TYPE, TOPIC, *LISTS, *SIZES), until_same=True),
    *(Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, TOPIC, (key, DELETE, None))) for key in SIZES),
    Case("DescribeConfigs", describe(TOPIC_TYPE, TOPIC, *SIZES), until_same=True),
    Case(
        "IncrementalAlterConfigs",
        incremental(TOPIC_TYPE, TOPIC, ("internal.segment.bytes", SET, "-1"), validate_only=True),
        differs=NO_SEGMENT,
    ),
    Case(
        "IncrementalAlterConfigs",
        {"resources": incremental(TOPIC_TYPE, TOPIC, ("retention.ms", SET, "1"))["resources"] * 2},
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(BROKER, "1", change))
        for change in (
            ("log.cleanup.policy", APPEND, "compact"),
            ("log.cleanup.policy", APPEND, "compact"),
            ("log.cleanup.policy", SUBTRACT, "compact,delete"),
            ("log.cleanup.policy", SUBTRACT, "x"),
            ("log.cleanup.policy", APPEND, "x"),
            ("log.cleanup.policy", DELETE, None),
            ("log.retention.ms", APPEND, "1"),
            ("log.retention.ms", SUBTRACT, "1"),
            ("log.retention.ms", SET, None),
            ("log.segment.bytes", SET, "1048575"),
            ("log.segment.bytes", SET, "1048576"),
            ("log.segment.bytes", DELETE, None),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(SUBSCRIPTION, "sub", change))
        for change in (
            ("interval.ms", APPEND, "1"),
            ("match", APPEND, "x=y"),
        )
    ),
    *(
        Case(
            "IncrementalAlterConfigs",
            incremental(SUBSCRIPTION, "sub", ("metrics", how, "a")),
            differs=NO_LISTS,
        )
        for how in (APPEND, SUBTRACT)
    ),
    Case("IncrementalAlterConfigs", incremental(SUBSCRIPTION, "sub", ("metrics", DELETE, None))),
    Case("IncrementalAlterConfigs", incremental(GROUP, "grp", ("share.auto.offset.reset", APPEND, "latest"))),
    Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, TOPIC)),
    Case(
        "IncrementalAlterConfigs",
        incremental(TOPIC_TYPE, TOPIC, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    ),
    Case(
        "IncrementalAlterConfigs",
        incremental(TOPIC_TYPE, TOPIC, ("retention.bytes", SET, "7"), validate_only=True),
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(TOPIC_TYPE, name, ("retention.ms", SET, "1000")))
        for name in (ABSENT, "", "bad name!")
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(BROKER, name, change))
        for name, change in (
            ("1", ("log.retention.ms", SET, "1000")),
            ("1", ("log.retention.ms", DELETE, None)),
            ("1", ("log.retention.hours", SET, "1")),
            ("1", ("num.partitions", SET, "3")),
            ("9", ("log.retention.ms", SET, "1000")),
            ("x", ("log.retention.ms", SET, "1000")),
            ("", ("log.retention.ms", SET, "1000")),
            ("", ("log.retention.ms", DELETE, None)),
            ("1", ("num.io.threads", SET, "0")),
            ("1", ("num.io.threads", SET, "999")),
            ("", ("listeners", SET, "PLAINTEXT://x:1")),
            ("1", ("message.max.bytes", SET, "-7")),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(BROKER, name, change))
        for name in ("1", "")
        for change in (
            ("no.such.key", SET, "1"),
            ("no.such.key", SET, None),
            ("no.such.key", APPEND, None),
            ("listener.name.plaintext.no.such.key", SET, "1"),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(BROKER, "1", ("no.such.key", how, "1")))
        for how in (APPEND, SUBTRACT, 9)
    ),
    Case(
        "IncrementalAlterConfigs",
        incremental(BROKER, "1", ("no.such.key", SET, "2"), ("num.io.threads", SET, "x")),
    ),
    *(Case("DescribeConfigs", describe(BROKER, name, "no.such.key"), until_same=True) for name in ("1", "")),
    *(
        Case("IncrementalAlterConfigs", incremental(BROKER, name, (key, DELETE, None)))
        for name in ("1", "")
        for key in ("no.such.key", "listener.name.plaintext.no.such.key", "never.set")
    ),
    Case("AlterConfigs", alter(BROKER, "1", ("no.such.key", "1"))),
    Case("AlterConfigs", alter(BROKER, "1", ("no.such.key", None))),
    Case("AlterConfigs", alter(BROKER, "1")),
    *(
        Case("IncrementalAlterConfigs", incremental(LOGGER, name, change))
        for name, change in (
            ("1", ("root", SET, "INFO")),
            ("1", ("root", SET, "LOUD")),
            ("1", ("no.such.logger", SET, "INFO")),
            ("1", ("root", DELETE, None)),
            ("1", ("root", APPEND, "INFO")),
            ("9", ("root", SET, "INFO")),
            ("", ("root", SET, "INFO")),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(SUBSCRIPTION, name, *changes))
        for name, changes in (
            ("sub", [("interval.ms", SET, "1000")]),
            ("sub", [("interval.ms", SET, "1")]),
            ("sub", [("metrics", SET, "a,b")]),
            ("sub", [("match", SET, "x=y")]),
            ("sub", [("match", SET, "client_id=(")]),
            ("sub", [("no.such.key", SET, "1")]),
            ("", [("interval.ms", SET, "1000")]),
            ("sub", [("interval.ms", DELETE, None), ("metrics", DELETE, None)]),
        )
    ),
    *(
        Case("IncrementalAlterConfigs", incremental(GROUP, name, change))
        for name, change in (
            ("grp", ("consumer.session.timeout.ms", SET, "50000")),
            ("grp", ("consumer.session.timeout.ms", SET, "1")),
            ("grp", ("no.such.key", SET, "1")),
            ("", ("consumer.session.timeout.ms", SET, "50000")),
            ("grp", ("share.auto.offset.reset", SET, "x")),
            ("grp", ("consumer.session.timeout.ms", DELETE, None)),
        )
    ),
    *(Case("IncrementalAlterConfigs", incremental(kind, "x", ("a", SET, "1"))) for kind in (99, 0)),
    *(
        Case("AlterConfigs", alter(kind, name, *values))
        for kind, name, values in (
            (TOPIC_TYPE, TOPIC, [("retention.ms", "1000")]),
            (TOPIC_TYPE, TOPIC, [("retention.ms", "x")]),
            (TOPIC_TYPE, TOPIC, [("no.such.key", "1")]),
            (TOPIC_TYPE, ABSENT, [("retention.ms", "1")]),
            (TOPIC_TYPE, TOPIC, [("retention.ms", None)]),
            (TOPIC_TYPE, TOPIC, []),
            (BROKER, "1", [("log.retention.ms", "1000")]),
            (BROKER, "1", []),
            (BROKER, "9", [("a", "1")]),
            (LOGGER, "1", [("root", "INFO")]),
            (SUBSCRIPTION, "sub", [("interval.ms", "1000")]),
            (SUBSCRIPTION, "sub", []),
            (GROUP, "grp", [("consumer.session.timeout.ms", "50000")]),
            (GROUP, "grp", []),
            (99, "x", [("a", "1")]),
        )
    ),
    Case("ListConfigResources", {}, (0,)),
    Case("ListConfigResources", {"resource_types": [99]}, (1,)),
    Case("ListConfigResources", {"resource_types": [SUBSCRIPTION]}, (1,)),
)
