"""Groups of every protocol and their offsets."""

from typing import Any, Final

from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.support.kafka_answers import Case, kept, topic_id

NONE: Final = "no-such-group"
NEW: Final = "consumers"
SIMPLE: Final = "simple"

LEFT_GROUP: Final = "Kafka keeps the empty group of a refused JoinGroup"


def join(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": "joined",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 1_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    } | changes


def commit(group: str, *partitions: tuple[int, int], topic: str = TOPIC, **more: Any) -> dict[str, Any]:
    rows = [{"partition_index": index, "committed_offset": offset} for index, offset in partitions]
    named = {"name": topic, "topic_id": topic_id(topic), "partitions": rows}
    return {"group_id": group, "topics": [named], **more}


def fetch(group: str, *indexes: int, **more: Any) -> dict[str, Any]:
    """Fetch all offsets if no partition is named."""
    named = {"name": TOPIC, "topic_id": topic_id(TOPIC), "partition_indexes": list(indexes)}
    topics = [named] if indexes else None
    return {
        "group_id": group,
        "topics": topics and [{key: named[key] for key in ("name", "partition_indexes")}],
        "groups": [{"group_id": group, "topics": topics, **more}],
    }


def heartbeat(**changes: Any) -> dict[str, Any]:
    return {"group_id": NEW, "member_id": "m", "member_epoch": 0} | changes


FIRST: Final = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}

EPOCH: Final = kept("member_epoch")
"""That of the member whose first heartbeat was answered last."""

ALL: Final = range(2, 11)
BY_GROUP: Final = (9, 10)

CASES: Final = (
    *(
        Case("FindCoordinator", {"key": key, "key_type": kind, "coordinator_keys": [key]})
        for key, kind in (("g", 0), ("", 0), ("t", 1), ("", 1), ("g", 2), ("g", 9))
    ),
    *(
        Case("JoinGroup", join(**changes))
        for changes in (
            {"group_id": ""},
            {"session_timeout_ms": 1},
            {"member_id": "unknown"},
            {"protocol_type": ""},
            {"protocols": []},
        )
    ),
    *(
        Case(api, {"group_id": group, "generation_id": 1, "member_id": "m"})
        for api in ("SyncGroup", "Heartbeat")
        for group in (NONE, "")
    ),
    *(
        Case("LeaveGroup", {"group_id": group, "member_id": "m", "members": [{"member_id": "m"}]})
        for group in (NONE, "")
    ),
    Case("LeaveGroup", {"group_id": NONE, "members": [{"group_instance_id": "i"}]}, (3, 4, 5)),
    Case("DescribeGroups", {"groups": [NONE, ""]}),
    Case("DescribeGroups", {"groups": []}),
    Case("OffsetFetch", fetch(NONE, 0, 9)),
    Case("OffsetFetch", fetch(NONE), ALL),
    Case("OffsetFetch", fetch(NONE, member_id="m", member_epoch=3), BY_GROUP),
    Case("OffsetFetch", fetch("", 0)),
    Case("OffsetCommit", commit(NONE, (0, 1), generation_id_or_member_epoch=5, member_id="m")),
    Case("OffsetCommit", commit(SIMPLE, (0, 1), (9, 1))),
    Case("OffsetCommit", commit(SIMPLE, (0, 1), topic=ABSENT)),
    Case(
        "OffsetCommit", {"group_id": SIMPLE, "topics": [{"topic_id": bytes(16), "partitions": [{}]}]}, (10,)
    ),
    Case("OffsetCommit", commit(SIMPLE, (1, -5))),
    Case("OffsetCommit", commit("", (0, 1))),
    Case("OffsetFetch", fetch(SIMPLE), ALL),
    Case("OffsetFetch", fetch(SIMPLE, 0, 1)),
    Case("DescribeGroups", {"groups": [SIMPLE]}),
    Case(
        "OffsetDelete",
        {"group_id": NONE, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
    ),
    Case("OffsetDelete", {"group_id": "", "topics": []}),
    Case(
        "OffsetDelete",
        {
            "group_id": SIMPLE,
            "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
                {"name": ABSENT, "partitions": [{"partition_index": 0}]},
            ],
        },
    ),
    Case("DeleteGroups", {"groups_names": [NONE, "", SIMPLE]}),
    Case("ConsumerGroupDescribe", {"group_ids": [NONE, ""]}),
    *(
        Case("ConsumerGroupHeartbeat", heartbeat(**changes))
        for changes in (
            {"group_id": ""},
            {"rebalance_timeout_ms": 5_000},
            {"subscribed_topic_names": [TOPIC], "topic_partitions": []},
            {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": [TOPIC]},
            {"member_epoch": 5},
            {"member_epoch": -1},
            {"member_epoch": -2},
            {"member_epoch": -3},
            FIRST | {"server_assignor": "no such assignor"},
            FIRST | {"instance_id": ""},
            FIRST | {"rack_id": ""},
        )
    ),
    Case("ConsumerGroupHeartbeat", heartbeat(**FIRST), (1,), keeps=("member_epoch",)),
    Case("ConsumerGroupHeartbeat", heartbeat(member_epoch=EPOCH), (1,)),
    Case("ConsumerGroupHeartbeat", heartbeat(member_epoch=9), (1,)),
    Case("ConsumerGroupDescribe", {"group_ids": [NEW], "include_authorized_operations": True}),
    Case("DescribeGroups", {"groups": [NEW]}),
    Case("ListGroups", {}, differs=LEFT_GROUP),
    Case("ListGroups", {"states_filter": ["Stable"]}, (4, 5)),
    Case("ListGroups", {"types_filter": ["consumer"]}, (5,)),
    Case("ListGroups", {"types_filter": ["no such type"]}, (5,)),
    Case("DeleteGroups", {"groups_names": [NEW]}),
    Case("Heartbeat", {"group_id": NEW, "generation_id": 1, "member_id": "m"}),
    Case("OffsetCommit", commit(NEW, (0, 1), generation_id_or_member_epoch=EPOCH, member_id="m")),
    Case("OffsetCommit", commit(NEW, (0, 1), generation_id_or_member_epoch=7, member_id="m")),
    Case("OffsetCommit", commit(NEW, (0, 1))),
    *(
        Case("OffsetFetch", fetch(NEW, member_id=member, member_epoch=epoch), BY_GROUP)
        for member, epoch in (("m", EPOCH), ("m", 9), ("other", EPOCH))
    ),
    *(Case("JoinGroup", join(group_id=NEW), (version,)) for version in (0, 4)),
    Case("ConsumerGroupHeartbeat", heartbeat(member_epoch=-1), (1,)),
    Case("DeleteGroups", {"groups_names": [NEW]}),
)
