"""Share groups: members, offsets and the state of their partitions."""

from typing import Any, Final

from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.support.kafka_answers import Case

GROUP: Final = "sharing"
NONE: Final = "no-such-group"
NEVER: Final = "never-joined"
UNKNOWN_ID: Final = b"\7" * 16
V1: Final = (1,)

NO_RESULTS: Final = "Kafka answers without an error and without the results of partitions"
NO_MEMBER_ID: Final = "Kafka fails with UNKNOWN_SERVER_ERROR where the member id is no id"


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


def reset(group: str, *indexes: int, topic: str = TOPIC) -> dict[str, Any]:
    partitions = [{"partition_index": index, "start_offset": 0} for index in indexes]
    return {"group_id": group, "topics": [{"topic_name": topic, "partitions": partitions}]}


CASES: Final = (
    *(
        Case("ShareGroupHeartbeat", heartbeat(**changes), V1)
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
    Case("ShareGroupDescribe", {"group_ids": [NONE, ""]}, V1),
    *(
        Case(
            "ShareFetch",
            {"group_id": group, "member_id": member, "share_session_epoch": epoch},
            V1,
            differs=NO_MEMBER_ID,
        )
        for group, member, epoch in ((GROUP, "m", 3), ("", "m", 0), (GROUP, "", 0))
    ),
    *(
        Case(
            "ShareAcknowledge",
            {"group_id": GROUP, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ", "share_session_epoch": epoch},
            V1,
        )
        for epoch in (0, 5)
    ),
    Case("AlterShareGroupOffsets", reset(NEVER, 0), differs=NO_RESULTS),
    Case("ShareGroupHeartbeat", heartbeat(), V1),
    Case("AlterShareGroupOffsets", reset(GROUP, 0), differs=NO_RESULTS),
    Case("ShareGroupHeartbeat", heartbeat(member_epoch=-1), V1),
    Case("AlterShareGroupOffsets", reset(GROUP, 0), differs=NO_RESULTS),
    Case("AlterShareGroupOffsets", reset(GROUP, 0, 9), differs=NO_RESULTS),
    Case("AlterShareGroupOffsets", reset(GROUP, 0, topic=ABSENT)),
    Case("DeleteShareGroupOffsets", {"group_id": NONE, "topics": [{"topic_name": TOPIC}]}),
    Case("DeleteShareGroupOffsets", {"group_id": GROUP, "topics": [{"topic_name": ABSENT}]}),
    Case("DeleteGroups", {"groups_names": [GROUP]}, (2,)),
    Case("ReadShareGroupStateSummary", states("x", leader_epoch=0)),
    Case("DeleteShareGroupState", states("x")),
    Case("WriteShareGroupState", states("x", partition=-1, state_epoch=0, leader_epoch=0, start_offset=0)),
    Case("GetTelemetrySubscriptions", {"client_instance_id": bytes(16)}),
)
