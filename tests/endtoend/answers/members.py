"""Members of classic and consumer groups that are out of date, unknown, fenced, or of another protocol."""

import struct
from typing import Any, Final

from tests.endtoend.answers.groups import ALL, EPOCH, FIRST, commit, fetch, join
from tests.endtoend.answers.topics import ABSENT, TOPIC
from tests.support.kafka_answers import Body, Case, kept

CLASSIC: Final = "classic"
STATIC: Final = "static"
MODERN: Final = "modern"
MEMBER: Final = ("member_id", "generation_id")
"""What a JoinGroup keeps."""


def subscription(*topics: str) -> bytes:
    """Version 0 of ConsumerProtocolSubscription."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


RANGE: Final = {"name": "range", "metadata": subscription(TOPIC)}


OTHERS: Final = [{"name": "other", "metadata": subscription(TOPIC)}]


def joins(group: str = CLASSIC, **more: Any) -> Body:
    return (
        join(group_id=group, protocols=[RANGE], rebalance_timeout_ms=10_000, session_timeout_ms=30_000) | more
    )


def of(group: str = CLASSIC, generation: int = 0, member: Any = None, **more: Any) -> Body:
    """The group, the generation changed by so much, and the member, by default the one that has joined."""
    return {
        "group_id": group,
        "generation_id": lambda side: side.kept["generation_id"] + generation,
        "member_id": kept("member_id") if member is None else member,
        **more,
    }


def sync(group: str = CLASSIC, **more: Any) -> Body:
    assignments = [{"member_id": kept("member_id"), "assignment": b""}]
    return of(group, **({"assignments": assignments} | more))


def commits(generation: int = 0, member: Any = None, group: str = CLASSIC, **more: Any) -> Body:
    body = of(group, generation, member)
    body["generation_id_or_member_epoch"] = body.pop("generation_id")
    return commit(group, (0, 3)) | body | more


def leaves(group: str, *members: Body, **more: Any) -> Body:
    return {"group_id": group, "members": list(members), **more}


def delete(group: str, topic: str = TOPIC) -> Body:
    return {"group_id": group, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}


def beat(**changes: Any) -> Body:
    return {"group_id": MODERN, "member_id": "a", "member_epoch": 0} | changes


BEFORE_STATIC: Final = range(7)
STATIC_SINCE: Final = {
    "JoinGroup": range(5, 10),
    "SyncGroup": range(3, 6),
    "Heartbeat": range(3, 5),
    "OffsetCommit": range(7, 9),
}

STABLE: Final = (
    *(
        Case(api, of(generation=generation, member=member))
        for api in ("Heartbeat", "SyncGroup")
        for generation, member in ((1, None), (-1, None), (0, "unknown"), (0, ""), (0, None))
    ),
    *(
        Case("SyncGroup", sync(protocol_type=kind, protocol_name=name), (5,))
        for kind, name in (("other", "range"), ("consumer", "other"), ("consumer", "range"))
    ),
    *(
        Case("OffsetCommit", commits(generation, member), ALL)
        for generation, member in ((1, None), (-1, None), (0, "unknown"), (0, ""), (0, None))
    ),
    Case("OffsetCommit", commit(CLASSIC, (0, 3)), ALL),
    *(
        Case("JoinGroup", joins(**changes))
        for changes in (
            {"protocols": [{"name": "other", "metadata": b""}]},
            {"protocol_type": "connect"},
            {"member_id": "unknown"},
        )
    ),
    *(
        Case("TxnOffsetCommit", {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0} | body)
        for body in (commits(1), commits(0, "unknown"))
        if body.pop("generation_id_or_member_epoch") is not None
    ),
    Case("OffsetDelete", delete(CLASSIC)),
    Case("OffsetDelete", delete(CLASSIC, ABSENT)),
    Case("DeleteGroups", {"groups_names": [CLASSIC]}),
    Case("DescribeGroups", {"groups": [CLASSIC]}),
    *(
        Case("LeaveGroup", leaves(CLASSIC, *members), (3, 4, 5))
        for members in (
            [{"member_id": "unknown"}],
            [{"member_id": "unknown"}, {"member_id": "", "group_instance_id": "unknown"}],
            [],
        )
    ),
    Case("ConsumerGroupHeartbeat", beat(group_id=CLASSIC, member_epoch=4)),
    Case("ShareGroupHeartbeat", beat(group_id=CLASSIC, subscribed_topic_names=[TOPIC]), (1,)),
    Case("ConsumerGroupDescribe", {"group_ids": [CLASSIC]}),
    Case("ShareGroupDescribe", {"group_ids": [CLASSIC]}, (1,)),
)

REBALANCING: Final = (
    Case("JoinGroup", joins(), (3,), unread=True),
    Case("Heartbeat", of(), (4,), until={"error_code": 27}),
    Case("Heartbeat", of()),
    Case("Heartbeat", of(generation=1)),
    Case("SyncGroup", sync()),
    Case("OffsetCommit", commits(), ALL),
    Case("OffsetCommit", commits(1), ALL),
    Case("LeaveGroup", {"group_id": CLASSIC, "member_id": kept("member_id")}, (2,)),
    Case("Heartbeat", of()),
)

FENCED: Final = (
    Case("JoinGroup", joins(STATIC, group_instance_id="i"), (7,), keeps=MEMBER),
    Case("SyncGroup", sync(STATIC, group_instance_id="i"), (4,)),
    *(
        Case(api, body, STATIC_SINCE[api])
        for instance, member in (("i", "another"), ("unknown", None), ("i", None))
        for api, body in (
            ("Heartbeat", of(STATIC, member=member, group_instance_id=instance)),
            ("SyncGroup", of(STATIC, member=member, group_instance_id=instance)),
            ("OffsetCommit", commits(0, member, STATIC, group_instance_id=instance)),
        )
    ),
    Case("JoinGroup", joins(STATIC, group_instance_id="i", member_id="another"), STATIC_SINCE["JoinGroup"]),
    Case("JoinGroup", joins(STATIC, group_instance_id="i", member_id=kept("member_id")), (7,)),
    *(
        Case("LeaveGroup", leaves(STATIC, {"member_id": member, "group_instance_id": "i"}), (3, 4, 5))
        for member in ("another", "")
    ),
)

EPOCHS: Final = (
    Case("ConsumerGroupHeartbeat", beat(**FIRST), (1,), keeps=("member_epoch",)),
    *(
        Case("ConsumerGroupHeartbeat", beat(**changes), (1,))
        for changes in (
            {"member_id": "unknown", "member_epoch": 3},
            {"member_epoch": lambda side: side.kept["member_epoch"] + 1},
            {"member_epoch": 0},
            {"member_epoch": EPOCH, "subscribed_topic_regex": "("},
            {"member_epoch": EPOCH, "server_assignor": "unknown"},
            {"member_epoch": EPOCH, "topic_partitions": []},
            {"member_epoch": EPOCH, "topic_partitions": [{"topic_id": b"\7" * 16, "partitions": [0]}]},
            {"member_id": "s", "instance_id": "i", **FIRST},
            {"member_id": "other", "instance_id": "i", **FIRST},
            {"member_id": "other", "instance_id": "i", "member_epoch": 2},
            {"member_id": "s", "instance_id": "unknown", "member_epoch": -2},
            {"member_id": "s", "instance_id": "i", "member_epoch": -2},
            {"member_id": "unknown", "member_epoch": -1},
            {"member_id": "unknown", "member_epoch": -2},
            {"member_id": "a", "member_epoch": -2},
        )
    ),
    Case("OffsetDelete", delete(MODERN)),
    Case("ShareGroupHeartbeat", beat(subscribed_topic_names=[TOPIC]), (1,)),
    Case("OffsetCommit", commit(MODERN, (0, 1), generation_id_or_member_epoch=9, member_id="a"), (8, 9, 10)),
    Case("OffsetFetch", fetch(MODERN, 0, member_id="a", member_epoch=9), (9, 10)),
    Case("JoinGroup", joins(MODERN, protocols=OTHERS), (3,)),
    Case("JoinGroup", joins(MODERN, protocols=OTHERS), (9,)),
    Case("JoinGroup", joins(MODERN, protocol_type="connect"), (3, 9)),
    Case("Heartbeat", {"group_id": MODERN, "generation_id": 1, "member_id": "unknown"}),
    Case("SyncGroup", {"group_id": MODERN, "generation_id": 1, "member_id": "unknown"}),
    Case("LeaveGroup", leaves(MODERN, {"member_id": "unknown"}), (3, 4, 5)),
    Case("ConsumerGroupHeartbeat", beat(member_epoch=-1), (1,)),
    Case("ConsumerGroupHeartbeat", beat(member_id="s", instance_id="i", member_epoch=-1), (1,)),
)

CASES: Final = (
    Case("JoinGroup", joins(), (3,), keeps=MEMBER),
    Case("OffsetCommit", commits(), ALL),
    Case("Heartbeat", of()),
    Case("SyncGroup", sync(), (4,)),
    *STABLE,
    *REBALANCING,
    *FENCED,
    *EPOCHS,
)
