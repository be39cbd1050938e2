"""Topics, their partitions and offsets, the cluster and its features."""

from typing import Any, Final

from tests.support.kafka_answers import Case, topic_id

TOPIC: Final = "compared"
ABSENT: Final = "absent"
SHARED: Final = "shared"
"""A topic with one partition, for a share group."""
COMPACTED: Final = "compacted"
NO_ID: Final = b"\7" * 16

STATED: Final = {"client_software_name": "suite", "client_software_version": "1"}

IMPLICIT_QUIRK: Final = "Kafka does not see that two new topics of one request collide"
FIXED_LEVELS: Final = "A level is fixed here, and can be lowered in Kafka"
NO_BROKERS: Final = "versions 10 and 11 with an id: Kafka's answer has no brokers"


def create(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}
    return {"topics": [topic], "timeout_ms": 5_000}


def only_checked(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "validate_only": True}


def assigned(*replicas: tuple[int, list[int]], partitions: int = -1, factor: int = -1) -> dict[str, Any]:
    rows = [{"partition_index": index, "broker_ids": ids} for index, ids in replicas]
    return create("assigned", partitions, factor, assignments=rows)


def grow(name: str, count: int, *assignments: list[int]) -> dict[str, Any]:
    rows = [{"broker_ids": ids} for ids in assignments] or None
    return {"topics": [{"name": name, "count": count, "assignments": rows}], "timeout_ms": 5_000}


def offsets(*partitions: tuple[int, int], name: str = TOPIC, epoch: int = -1) -> dict[str, Any]:
    rows = [
        {"partition_index": index, "timestamp": time, "current_leader_epoch": epoch}
        for index, time in partitions
    ]
    return {"replica_id": -1, "topics": [{"name": name, "partitions": rows}]}


def trim(name: str, index: int, offset: int) -> dict[str, Any]:
    partitions = [{"partition_index": index, "offset": offset}]
    return {"topics": [{"name": name, "partitions": partitions}], "timeout_ms": 5_000}


def epochs(*partitions: tuple[int, int, int], name: str = TOPIC, replica: int = -1) -> dict[str, Any]:
    """Partitions with the current epoch that the client knows, and the epoch whose end it asks for."""
    rows = [
        {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
        for index, current, epoch in partitions
    ]
    return {"replica_id": replica, "topics": [{"topic": name, "partitions": rows}]}


def elect(topics: list[dict[str, Any]] | None, kind: int = 0) -> dict[str, Any]:
    return {"election_type": kind, "topic_partitions": topics, "timeout_ms": 3_000}


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
CHECKS_ONLY: Final = (1, 2)
"""Versions of UpdateFeatures with `validate_only`."""


def features(*updates: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    rows = [
        {"feature": name, "max_version_level": level, "upgrade_type": how} for name, level, how in updates
    ]
    return {"feature_updates": rows, **more}


def reassign(*partitions: tuple[int, list[int] | None], name: str = TOPIC) -> dict[str, Any]:
    rows = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions]
    return {"topics": [{"name": name, "partitions": rows}]}


CASES: Final = (
    Case("Metadata", {"topics": [{"name": ABSENT}], "allow_auto_topic_creation": False}),
    *(
        Case("Metadata", {"topics": [{"name": name}], "allow_auto_topic_creation": creates})
        for name in ("", "bad name!", "x" * 250)
        for creates in (False, True)
    ),
    Case(
        "Metadata",
        {
            "topics": [{"name": TOPIC}],
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        },
    ),
    *(
        Case("Metadata", {"topics": [{"topic_id": each, "name": name}]}, versions, differs)
        for each, name in ((topic_id(TOPIC), None), (NO_ID, None), (topic_id(TOPIC), TOPIC))
        for versions, differs in ((range(10, 12), NO_BROKERS), (range(12, 14), ""))
    ),
    Case("Metadata", {"topics": []}, range(1, 14)),
    Case("DescribeCluster", {"include_cluster_authorized_operations": True}),
    *(Case("DescribeCluster", {"endpoint_type": kind}, (1, 2)) for kind in (2, 3)),
    Case("DescribeTopicPartitions", {"topics": [{"name": TOPIC}, {"name": ABSENT}]}),
    Case("DescribeTopicPartitions", {"topics": [{"name": TOPIC}], "response_partition_limit": 1}),
    *(
        Case(
            "DescribeTopicPartitions",
            {"topics": [{"name": TOPIC}], "cursor": {"topic_name": TOPIC, "partition_index": index}},
        )
        for index in (1, -1)
    ),
    *(
        Case("CreateTopics", create(name, partitions, replicas))
        for name, partitions, replicas in (
            (TOPIC, 1, 1),
            ("bad name!", 1, 1),
            ("", 1, 1),
            (".", 1, 1),
            ("x" * 250, 1, 1),
            ("none", 0, 1),
            ("negative", -2, 1),
            ("three", 1, 3),
            ("zero", 1, 0),
        )
    ),
    Case("CreateTopics", assigned((0, [9]))),
    Case("CreateTopics", assigned((1, [1]))),
    Case("CreateTopics", assigned((0, []))),
    Case("CreateTopics", assigned((0, [1, 1]))),
    Case("CreateTopics", assigned((0, [1]), partitions=2, factor=1)),
    Case("CreateTopics", assigned((0, [1]), (0, [1]))),
    *(
        Case("CreateTopics", create("configured", configs=[{"name": key, "value": value}]))
        for key, value in (
            ("no.such.key", "1"),
            ("retention.ms", "x"),
            ("retention.ms", "-5"),
            ("retention.ms", None),
            ("cleanup.policy", "x"),
            ("compression.type", "x"),
        )
    ),
    Case("CreateTopics", {"topics": create("twice")["topics"] * 2, "timeout_ms": 5_000}),
    Case("CreateTopics", {"topics": []}),
    Case(
        "CreateTopics",
        only_checked({"topics": create("a.b")["topics"] + create("a_b")["topics"], "timeout_ms": 5_000}),
        differs=IMPLICIT_QUIRK,
    ),
    Case("CreatePartitions", grow(ABSENT, 3)),
    *(Case("CreatePartitions", grow(TOPIC, count)) for count in (2, 1, 0)),
    Case("CreatePartitions", grow(TOPIC, 3, [9])),
    Case("CreatePartitions", grow(TOPIC, 4, [1])),
    Case("CreatePartitions", grow(TOPIC, 3, [1, 1])),
    Case("CreatePartitions", grow(TOPIC, 3, [])),
    Case("CreatePartitions", grow(TOPIC, 3, [-1])),
    Case("CreatePartitions", grow(TOPIC, 3, [1], [1])),
    Case("CreatePartitions", grow(TOPIC, 1, [1])),
    *(Case("CreatePartitions", grow(name, 3)) for name in ("", "bad name!")),
    Case("CreatePartitions", grow(TOPIC, -1)),
    Case("CreatePartitions", only_checked(grow(TOPIC, 3))),
    Case("CreatePartitions", {"topics": grow(TOPIC, 3)["topics"] * 2, "timeout_ms": 5_000}),
    Case("CreatePartitions", {"topics": [], "timeout_ms": 5_000}),
    Case("CreatePartitions", grow("__consumer_offsets", 1)),
    Case("DeleteTopics", {"topics": [{"name": ABSENT}], "topic_names": [ABSENT], "timeout_ms": 5_000}),
    *(
        Case("DeleteTopics", {"topics": [{"name": name, **more}], "timeout_ms": 5_000}, (6,))
        for name, more in ((None, {"topic_id": NO_ID}), (TOPIC, {"topic_id": NO_ID}), (None, {}))
    ),
    Case(
        "DeleteRecords",
        {
            "topics": [{"name": ABSENT, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 5_000,
        },
    ),
    Case(
        "DeleteRecords",
        {
            "topics": [
                {
                    "name": TOPIC,
                    "partitions": [
                        {"partition_index": index, "offset": offset}
                        for index, offset in ((0, 5), (1, -1), (7, 0))
                    ],
                }
            ],
            "timeout_ms": 5_000,
        },
    ),
    *(Case("DeleteRecords", trim(TOPIC, 0, offset)) for offset in (99_999, -2, 1 << 62, 0, -1, 0)),
    Case("DeleteRecords", trim("", 0, 0)),
    Case("DeleteRecords", trim("__consumer_offsets", 0, 0)),
    Case("ListOffsets", offsets((0, -1), (1, -2), (9, -1))),
    *(Case("ListOffsets", offsets((0, time))) for time in (-3, -4, -5, -6, -7, 5)),
    *(Case("ListOffsets", offsets((index, -6), epoch=0)) for index in (0, 1, 9)),
    Case("ListOffsets", offsets((0, -1), epoch=5)),
    Case("ListOffsets", offsets((0, -1), name=ABSENT)),
    *(Case("ListOffsets", offsets((0, time), epoch=0)) for time in (-1, -2, 0, 1 << 62, -(1 << 62))),
    *(
        Case("ListOffsets", offsets((0, time)) | {"isolation_level": 1})
        for time in (-1, -2, -3, -4, -5, -6, 5)
    ),
    *(Case("ListOffsets", offsets((0, -1)) | {"replica_id": replica}) for replica in (-2, -3, 1, 5)),
    Case("ListOffsets", offsets((0, -1), (0, -2))),
    Case("ListOffsets", {"replica_id": -1, "topics": offsets((0, -1))["topics"] * 2}),
    Case("ListOffsets", offsets((-1, -1))),
    Case("ListOffsets", offsets((0, -1), name="")),
    *(
        Case("OffsetForLeaderEpoch", epochs((0, current, epoch)))
        for current in (-1, 0, 1)
        for epoch in (-1, 0, 1)
    ),
    *(Case("OffsetForLeaderEpoch", epochs((0, -1, 0), replica=replica)) for replica in (-2, 1, 5)),
    Case("OffsetForLeaderEpoch", epochs((0, -1, 0), (0, -1, 0), (9, -1, 0))),
    Case("OffsetForLeaderEpoch", epochs((0, -1, 0), name="")),
    Case(
        "OffsetForLeaderEpoch",
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": TOPIC,
                    "partitions": [
                        {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
                        for current, epoch in ((-1, 0), (0, 5), (7, 0), (-1, -1))
                    ],
                },
                {"topic": ABSENT, "partitions": [{"partition": 0, "leader_epoch": 0}]},
            ],
        },
    ),
    Case(
        "DescribeProducers",
        {
            "topics": [
                {"name": TOPIC, "partition_indexes": [0, 9]},
                {"name": ABSENT, "partition_indexes": [0]},
            ]
        },
    ),
    Case(
        "ElectLeaders", elect([{"topic": TOPIC, "partitions": [0, 9]}, {"topic": ABSENT, "partitions": [0]}])
    ),
    *(Case("ElectLeaders", elect([{"topic": TOPIC, "partitions": [0]}], kind), (1, 2)) for kind in (1, 5)),
    Case("AlterPartitionReassignments", reassign((0, [1]), (1, [9]), (9, [1]))),
    Case("AlterPartitionReassignments", reassign((0, None), (1, []))),
    Case("AlterPartitionReassignments", reassign((1, [1, 1]))),
    Case("AlterPartitionReassignments", reassign((1, [-1]))),
    Case("AlterPartitionReassignments", reassign((0, [1]), name=ABSENT)),
    Case("ListPartitionReassignments", {"topics": None}),
    Case("ListPartitionReassignments", {"topics": [{"name": ABSENT, "partition_indexes": [0]}]}),
    Case(
        "AlterReplicaLogDirs",
        {"dirs": [{"path": "/absent", "topics": [{"name": TOPIC, "partitions": [0, 9]}]}]},
    ),
    Case("UnregisterBroker", {"broker_id": 99}),
    Case("DescribeLogDirs", {"topics": [{"topic": TOPIC, "partitions": [0, 9]}]}),
    *(Case("UnregisterController", {"controller_id": node}) for node in (1, 99, -1)),
    *(
        Case("ApiVersions", STATED | stated, (5,))
        for stated in (
            {"cluster_id": "another", "node_id": 1},
            {"cluster_id": "another", "node_id": 99},
            {"cluster_id": "", "node_id": 1},
            {"cluster_id": "another"},
            {"node_id": 1},
            {"node_id": -2},
            {"client_software_name": "", "cluster_id": "another", "node_id": 1},
            {"client_software_version": "-"},
        )
    ),
    *(
        Case("DescribeQuorum", {"topics": [{"topic_name": name, "partitions": [{"partition_index": index}]}]})
        for name, index in (("__cluster_metadata", 0), (TOPIC, 0), ("__cluster_metadata", 1))
    ),
    *(
        Case("UpdateFeatures", features(*updates))
        for updates in (
            *(
                [(name, level, UPGRADE)]
                for name, levels in (
                    ("no.such.feature", (-1, 0, 1)),
                    ("", (0, 1)),
                    ("metadata.version", (-1, 6, 7, 32, 33, 34)),
                    ("transaction.version", (-1, 0, 2, 3, 9)),
                    ("group.version", (0, 1, 2)),
                    ("share.version", (0, 1, 2, 3)),
                    ("eligible.leader.replicas.version", (0, 1, 2)),
                    ("kraft.version", (-1, 0, 2)),
                )
                for level in levels
            ),
            [],
            [("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE)],
            [("group.version", 0, UPGRADE), ("group.version", 1, UPGRADE)],
            [("group.version", 1, UPGRADE), ("group.version", 0, UPGRADE)],
            [("group.version", 1, UPGRADE), ("no.such.feature", 1, UPGRADE)],
        )
    ),
    *(
        Case("UpdateFeatures", features(*updates, validate_only=True), CHECKS_ONLY)
        for updates in (
            [("transaction.version", 2, UPGRADE)],
            *([("group.version", 1, how)] for how in (0, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, 4)),
            *(
                [("metadata.version", level, how)]
                for level in (7, 32)
                for how in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
            ),
            [("group.version", 2, SAFE_DOWNGRADE)],
        )
    ),
    *(
        Case("UpdateFeatures", features((name, level, how), validate_only=True), CHECKS_ONLY, differs)
        for name, level, how, differs in (
            ("streams.version", 1, UPGRADE, ""),
            ("group.version", 0, UNSAFE_DOWNGRADE, FIXED_LEVELS),
            ("kraft.version", 1, UPGRADE, "There is no quorum of controllers here"),
        )
    ),
    Case(
        "AddRaftVoter",
        {"voter_id": 5, "listeners": [{"name": "CONTROLLER", "host": "x", "port": 1}], "timeout_ms": 1_000},
    ),
    Case("RemoveRaftVoter", {"voter_id": 5}),
)
