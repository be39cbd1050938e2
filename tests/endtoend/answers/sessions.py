"""Sessions of Fetch and of share groups: unknown, out of order, closed, and of other topics."""

from typing import Any, Final

from tests.endtoend.answers.configs import GROUP, SET, incremental
from tests.endtoend.answers.records import OUT_OF_RANGE, batch, fetch, produce
from tests.endtoend.answers.topics import ABSENT, SHARED, TOPIC
from tests.support.kafka_answers import Body, Case, kept, topic_id

SESSIONS: Final = range(7, 19)
BY_NAME, BY_ID = 12, 18
KEPT: Final = ("session_id",)

V1: Final = (1,)
SHARING: Final = "share-sessions"
LIMITED: Final = "share-limits"
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAABQ"
OTHER: Final = "AAAAAAAAAAAAAAAAAAAABg"
ACCEPT, RELEASE, RENEW, UNKNOWN_TYPE = 1, 2, 4, 9
UNKNOWN_TOPIC: Final = "Kafka fails with UNKNOWN_SERVER_ERROR on a topic id that it does not know"
UNKNOWN_MODE: Final = "Kafka fails with UNKNOWN_SERVER_ERROR on a mode that it does not know"
DIVIDED: Final = "Kafka's ranges of records end where a limit has divided a batch"
NO_ID: Final = b"\7" * 16


def asks(epoch: int, *partitions: tuple[int, int], **more: Any) -> Body:
    """Fetch in the session that was kept."""
    return fetch(*partitions, session_id=kept("session_id"), session_epoch=epoch, **more)


def within(epoch: int, **more: Any) -> Body:
    return asks(epoch) | {"topics": []} | more


def forget(name: str, *indexes: int) -> Body:
    topic = {"topic": name, "topic_id": topic_id(name), "partitions": list(indexes)}
    return {"forgotten_topics_data": [topic]}


def opened(version: int) -> Case:
    return Case("Fetch", fetch((1, 0), session_epoch=0), (version,), keeps=KEPT)


FETCH: Final = (
    *(
        case
        for version in (7, BY_NAME, BY_ID)
        for case in (
            opened(version),
            *(Case("Fetch", within(epoch), (version,)) for epoch in (2, 1, 1, 5)),
            opened(version),
            Case("Fetch", asks(1, (0, 99_999), (9, 0)), (version,), differs=OUT_OF_RANGE),
            Case("Fetch", within(2) | forget(TOPIC, 0, 7), (version,)),
            Case("Fetch", asks(3, (0, 0), topic=ABSENT), (version,)),
            Case("Fetch", within(-1), (version,)),
            Case("Fetch", within(4), (version,)),
            Case("Fetch", within(-1), (version,)),
        )
    ),
    opened(BY_NAME),
    Case("Fetch", within(1), (BY_ID,)),
    opened(BY_ID),
    Case("Fetch", within(1), (BY_NAME,)),
    Case("Fetch", fetch((1, 0), session_id=0, session_epoch=5), SESSIONS),
    Case("Fetch", fetch((1, 0), session_epoch=-5), SESSIONS),
)


def share_heartbeat(member: str, epoch: int, **more: Any) -> Body:
    return {"group_id": SHARING, "member_id": member, "member_epoch": epoch} | more


def share(epoch: int, *partitions: Body, member: str = MEMBER, topic: Any = None, **more: Any) -> Body:
    rows = [{"topic_id": topic or topic_id(SHARED), "partitions": list(partitions)}] if partitions else []
    return {
        "group_id": SHARING,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "topics": rows,
    } | more


def acknowledges(epoch: int, *partitions: Body, **more: Any) -> Body:
    body = share(epoch, *partitions, **more)
    keys = ("group_id", "member_id", "share_session_epoch", "topics", "is_renew_ack")
    return {key: body[key] for key in keys if key in body}


def rows(index: int, *batches: tuple[int, int, list[int]]) -> Body:
    return {
        "partition_index": index,
        "acknowledgement_batches": [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in batches
        ],
    }


EARLIEST: Final = ("share.auto.offset.reset", SET, "earliest")
WAITS: Final = {"max_wait_ms": 10_000, "min_bytes": 1}

SHARE: Final = (
    Case(
        "IncrementalAlterConfigs", incremental(GROUP, SHARING, ("share.auto.offset.reset", SET, "earliest"))
    ),
    Case("Produce", produce(batch(3), SHARED), (9,)),
    Case("ShareGroupHeartbeat", share_heartbeat(MEMBER, 0, subscribed_topic_names=[SHARED]), V1),
    *(
        Case("ShareGroupHeartbeat", share_heartbeat(member, epoch), V1)
        for member, epoch in ((MEMBER, 7), (OTHER, 3), (OTHER, -1))
    ),
    *(Case("ShareFetch", share(epoch), V1) for epoch in (1, -1)),
    Case("ShareAcknowledge", acknowledges(1, rows(0, (0, 0, [ACCEPT]))), V1),
    Case("ShareAcknowledge", acknowledges(-1), V1),
    Case("ShareFetch", share(0, rows(0, (0, 0, [ACCEPT]))), V1),
    Case("ShareFetch", share(0, rows(0), rows(9), **WAITS), V1),
    *(Case("ShareFetch", share(epoch), V1) for epoch in (5, -2)),
    *(
        Case("ShareAcknowledge", acknowledges(epoch, rows(index, *batches)), V1)
        for epoch, index, batches in (
            (9, 0, [(0, 0, [ACCEPT])]),
            (1, 0, [(90, 91, [ACCEPT])]),
            (2, 0, [(1, 0, [ACCEPT])]),
            (3, 0, [(0, 1, [ACCEPT, ACCEPT, ACCEPT])]),
            (4, 0, [(0, 0, [UNKNOWN_TYPE])]),
            (5, 9, [(0, 0, [ACCEPT])]),
            (6, 0, [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])]),
            (7, 0, [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])]),
            (8, 0, [(0, 0, [ACCEPT])]),
            (9, 0, [(0, 0, [ACCEPT])]),
            (10, 0, [(1, 1, [RELEASE])]),
            (11, 0, [(1, 1, [ACCEPT])]),
            (12, 0, [(0, 2, [ACCEPT])]),
        )
    ),
    Case("ShareAcknowledge", acknowledges(1, rows(0, (2, 2, [ACCEPT])), member=OTHER), V1),
    Case("ShareFetch", share(13, rows(0), topic=NO_ID), V1, differs=UNKNOWN_TOPIC),
    Case("ShareAcknowledge", acknowledges(-1), V1),
    Case("ShareAcknowledge", acknowledges(-1), V1),
    Case("ShareGroupHeartbeat", share_heartbeat(MEMBER, -1), V1),
)

RENEWS: Final = {"is_renew_ack": True}
FETCHES_NOTHING: Final = {"max_bytes": 0, "max_records": 0}
V2: Final = (2,)


def renews(epoch: int, *partitions: Body, **more: Any) -> Body:
    return share(epoch, *partitions, **(RENEWS | FETCHES_NOTHING | more))


def second(api: str, body: Body, versions: tuple[int, ...] = V2, differs: str = "") -> Case:
    return Case(api, body | {"group_id": LIMITED}, versions, differs)


SECOND: Final = (
    Case("IncrementalAlterConfigs", incremental(GROUP, LIMITED, EARLIEST)),
    second("ShareGroupHeartbeat", share_heartbeat(MEMBER, 0, subscribed_topic_names=[SHARED]), V1),
    Case("Produce", produce(batch(5), SHARED), (9,)),
    *(second("ShareFetch", share(0, rows(0), share_acquire_mode=mode), V2, UNKNOWN_MODE) for mode in (2, -1)),
    second("ShareFetch", share(0, rows(0), share_acquire_mode=1, max_records=2, **WAITS)),
    *(
        second("ShareFetch", renews(1, rows(0, (0, 9, [RENEW])), **changes))
        for changes in ({"max_bytes": 1}, {"max_records": 1}, {"min_bytes": 1}, {"max_wait_ms": 1})
    ),
    second("ShareAcknowledge", acknowledges(1, rows(0, (90, 91, [RENEW])), **RENEWS)),
    second("ShareAcknowledge", acknowledges(2, rows(0, (0, 0, [RENEW])))),
    second("ShareAcknowledge", acknowledges(3, rows(0, (0, 0, [RENEW]))), V1),
    second("ShareAcknowledge", acknowledges(4, rows(0, (0, 0, [RENEW])), **RENEWS)),
    second("ShareAcknowledge", acknowledges(5, rows(0, (0, 0, [ACCEPT])), **RENEWS)),
    second("ShareFetch", renews(6, rows(0, (1, 1, [RENEW])))),
    second("ShareFetch", renews(7, rows(0, (1, 1, [UNKNOWN_TYPE])))),
    second("ShareFetch", share(8, rows(0, (1, 1, [RENEW]))), differs=DIVIDED),
    second("ShareAcknowledge", acknowledges(9, rows(0, (1, 1, [RELEASE])))),
    second("ShareFetch", share(10, rows(0), share_acquire_mode=1, max_records=1)),
    second("ShareAcknowledge", acknowledges(-1)),
    second("ShareFetch", share(0, rows(0), share_acquire_mode=1, max_records=3, **WAITS), differs=DIVIDED),
    second("ShareAcknowledge", acknowledges(1, rows(0, (2, 3, [ACCEPT])))),
    Case("DescribeShareGroupOffsets", {"groups": [{"group_id": LIMITED, "topics": None}]}, until_same=True),
    second("ShareAcknowledge", acknowledges(-1)),
    second("ShareGroupHeartbeat", share_heartbeat(MEMBER, -1), V1),
)

CASES: Final = (*FETCH, *SHARE, *SECOND)
