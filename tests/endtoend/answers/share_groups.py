"""Share groups: members, offsets and the state of their partitions."""

from typing import Any, Final

from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.support.kafka_answers import Case, topic_id

GROUP: Final = "sharing"
NONE: Final = "no-such-group"
STORED: Final = "stored"
NEVER: Final = "never-joined"
UNKNOWN_ID: Final = b"\7" * 16

NO_NAME: Final = "Kafka fails with UNKNOWN_SERVER_ERROR on a group without a name"
NAMED: Final = [{"topic_name": TOPIC, "partitions": [1, 0]}]
NO_GROUP: Final = "Kafka opens a share session of a group without a name"


def heartbeat(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": [TOPIC],
    } | changes


def states(group: str, **partition: int) -> dict[str, Any]:
    return {
        "group_id": group,
        "topics": [{"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, **partition}]}],
    }


def stored(**partition: Any) -> dict[str, Any]:
    """The state of the second partition of a topic for a group that no member has joined."""
    return {
        "group_id": STORED,
        "topics": [{"topic_id": topic_id(TOPIC), "partitions": [{"partition": 1, **partition}]}],
    }


def written(start: int, complete: int, *batches: tuple[int, int, int], epoch: int = 1) -> dict[str, Any]:
    """A write that states the number of complete records. A batch: first and last offset, and state."""
    return stored(
        state_epoch=epoch,
        leader_epoch=0,
        start_offset=start,
        delivery_complete_count=complete,
        state_batches=[
            {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": 1}
            for first, last, state in batches
        ],
    )


def reset(group: str, *indexes: int, topic: str = TOPIC) -> dict[str, Any]:
    partitions = [{"partition_index": index, "start_offset": 0} for index in indexes]
    return {"group_id": group, "topics": [{"topic_name": topic, "partitions": partitions}]}


CASES: Final = (
    *(
        Case("ShareGroupHeartbeat", heartbeat(**changes))
        for changes in (
            {"group_id": ""},
            {"member_id": ""},
            {"subscribed_topic_names": None},
            {"subscribed_topic_names": []},
            {"member_epoch": 5},
            {"member_epoch": -1},
            {"member_epoch": -2},
            {"rack_id": ""},
        )
    ),
    Case("ShareGroupDescribe", {"group_ids": [NONE, ""]}),
    *(
        Case(
            "ShareFetch",
            {"group_id": group, "member_id": member, "share_session_epoch": epoch},
            differs="" if group else NO_GROUP,
        )
        for group, member, epoch in ((GROUP, "m", 3), ("", "m", 0), (GROUP, "", 0))
    ),
    *(
        Case(
            "ShareAcknowledge",
            {"group_id": GROUP, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "share_session_epoch": epoch},
        )
        for epoch in (0, 5)
    ),
    Case("AlterShareGroupOffsets", reset(NEVER, 0)),
    Case("ShareGroupHeartbeat", heartbeat()),
    Case("AlterShareGroupOffsets", reset(GROUP, 0)),
    Case("ShareGroupHeartbeat", heartbeat(member_epoch=-1)),
    Case("AlterShareGroupOffsets", reset(GROUP, 0)),
    Case("AlterShareGroupOffsets", reset(GROUP, 0, 9)),
    Case("AlterShareGroupOffsets", reset(GROUP, 0, topic=ABSENT)),
    Case("DeleteShareGroupOffsets", {"group_id": NONE, "topics": [{"topic_name": TOPIC}]}),
    Case("DeleteShareGroupOffsets", {"group_id": GROUP, "topics": [{"topic_name": ABSENT}]}),
    Case("DeleteGroups", {"groups_names": [GROUP]}, (2,)),
    Case("ReadShareGroupStateSummary", states("x", leader_epoch=0)),
    Case("DeleteShareGroupState", states("x")),
    Case("WriteShareGroupState", states("x", partition=-1, state_epoch=0, leader_epoch=0, start_offset=0)),
    Case("InitializeShareGroupState", stored(state_epoch=1, start_offset=5)),
    *(
        case
        for body in (
            written(5, 2, (5, 6, 2)),
            written(5, 1),
            written(4, 9),
            written(7, 0, (9, 9, 4)),
            written(-1, 5),
            written(7, 5, epoch=0),
        )
        for case in (
            Case("WriteShareGroupState", body, (1,)),
            Case("ReadShareGroupStateSummary", stored(leader_epoch=0)),
        )
    ),
    Case("ReadShareGroupState", stored(leader_epoch=1)),
    Case("ReadShareGroupStateSummary", stored(leader_epoch=1)),
    *(
        Case("DescribeShareGroupOffsets", {"groups": [{"group_id": group, "topics": topics}]})
        for group in (STORED, NONE)
        for topics in (None, NAMED, [{"topic_name": ABSENT}])
    ),
    Case("DescribeShareGroupOffsets", {"groups": [{"group_id": "", "topics": None}]}),
    Case("DescribeShareGroupOffsets", {"groups": [{"group_id": "", "topics": NAMED}]}, differs=NO_NAME),
    Case("DeleteShareGroupState", stored()),
    Case("ReadShareGroupStateSummary", stored(leader_epoch=0)),
    Case("GetTelemetrySubscriptions", {"client_instance_id": bytes(16)}),
)
