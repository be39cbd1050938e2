"""Streams groups (KIP-1071): the heartbeats of their members, their topologies, tasks and internal topics."""

from collections.abc import Callable
from typing import Any, Final

from tests.endtoend.answers.groups import BY_GROUP, commit, fetch, join
from tests.endtoend.answers.members import RANGE
from tests.endtoend.answers.topics import create
from tests.support.kafka_answers import Body, Case, Side, kept

LINES: Final = "streams-lines"
"""A topic with three partitions."""
WIDE: Final = "streams-wide"
"""A topic with four partitions."""
LATE: Final = "streams-late"
"""A topic that a case creates while a group waits for it."""

BAD: Final = "streams-bad"
NONE: Final = "streams-none"
ONE: Final = "streams-one"
TWO: Final = "streams-two"
STANDBYS: Final = "streams-standbys"
FIRST: Final = "streams-first"
STATIC: Final = "streams-static"
TRANSACTION: Final = "streams-transaction"
OLD: Final = "streams-old"
WAITING: Final = "streams-waiting"
COUNTING: Final = "streams-counting"
UNFIT: Final = "streams-unfit"
"""A group whose changelog has two partitions, and its repartition topic three."""
JOINED: Final = "streams-joined"
ENDPOINTS: Final = "streams-endpoints"
CONFIGURED: Final = "streams-configured"
DELAYED: Final = "streams-delayed"
TAGGED: Final = "streams-tagged"
PROGRESS: Final = "streams-progress"
SHUT: Final = "streams-shut"
CLASSIC: Final = "streams-classic"
CONSUMERS: Final = "streams-consumers"

UNREADABLE: Final = "Kafka fails with UNKNOWN_SERVER_ERROR on a topology that it cannot read"
FORGOTTEN: Final = "Kafka forgets what it computed beside the records when the first heartbeat made a group"

V0: Final = (0,)
V1: Final = (1,)
BOTH: Final = (0, 1)
NOTHING: Final[list[Any]] = []
GROUP: Final = 32
"""The type of a resource of configurations."""


def subtopology(name: str = "0", *sources: str, **more: Any) -> Body:
    return {"subtopology_id": name, "source_topics": list(sources), **more}


def internal(name: str, partitions: int = 0, **configs: str) -> Body:
    """An internal topic; 0 partitions stand for as many as its subtopology needs."""
    return {
        "name": name,
        "partitions": partitions,
        "replication_factor": 1,
        "topic_configs": [{"key": key.replace("_", "."), "value": each} for key, each in configs.items()],
    }


def topology(*subtopologies: Body, epoch: int = 0) -> Body:
    return {"epoch": epoch, "subtopologies": list(subtopologies)}


PASS: Final = topology(subtopology("0", LINES))
"""A topology without state: a task for each partition of the topic."""


def store(group: str, source: str = LINES, epoch: int = 0) -> Body:
    """A topology with one store."""
    log = internal(f"{group}-store-changelog", cleanup_policy="compact")
    return topology(subtopology("0", source, state_changelog_topics=[log]), epoch=epoch)


def count(group: str) -> Body:
    """A word count: a repartition topic between two subtopologies, of which the second has a store."""
    between = f"{group}-by-word-repartition"
    return topology(
        subtopology("0", LINES, repartition_sink_topics=[between]),
        subtopology(
            "1",
            repartition_source_topics=[internal(between, cleanup_policy="delete", retention_ms="-1")],
            state_changelog_topics=[internal(f"{group}-words-changelog", cleanup_policy="compact")],
        ),
    )


def both(*sources: str, repartitions: int | None = None) -> Body:
    """A topology whose source topics have to have equally many partitions."""
    group: dict[str, Any] = {"source_topics": list(range(len(sources)))}
    more: dict[str, Any] = {"copartition_groups": [group]}
    if repartitions is not None:
        more["repartition_source_topics"] = [internal(f"{JOINED}-x-repartition", repartitions)]
        group["repartition_source_topics"] = [0]
        sender = subtopology("0", LINES, repartition_sink_topics=[f"{JOINED}-x-repartition"])
        return topology(sender, subtopology("1", *sources, **more))
    return topology(subtopology("0", *sources, **more))


def joins(group: str, member: str = "a", of: Body = PASS, **changes: Any) -> Body:
    """The first heartbeat of a member, whose process has its name."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "topology": of,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process-{member}",
        "client_tags": [],
    } | changes


def tasks(*partitions: int, of: str = "0") -> list[Body]:
    return [{"subtopology_id": of, "partitions": list(partitions)}] if partitions else []


def epoch_of(group: str, member: str, plus: int = 0) -> Callable[[Side], int]:
    """The epoch of the member's last answer, changed by so much."""
    return lambda side: side.kept.get(f"{group} {member}", 1) + plus


def beats(group: str, member: str = "a", plus: int = 0, **changes: Any) -> Body:
    """A later heartbeat, without what has not changed, at the member's epoch or another."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch_of(group, member, plus),
    } | changes


def owns(group: str, member: str, *active: int, of: str = "0", **more: Any) -> Body:
    """A heartbeat that names the tasks that the member has."""
    named: dict[str, Any] = {"active_tasks": tasks(*active, of=of), "standby_tasks": [], "warmup_tasks": []}
    return beats(group, member, **named | more)


def leaves(group: str, member: str = "a", **more: Any) -> Body:
    return beats(group, member, member_epoch=-1, **more)


def offset(group: str, *offsets: tuple[int, int], of: str = "0", kind: str = "task_offsets") -> Body:
    rows = [{"subtopology_id": of, "partition": index, "offset": at} for index, at in offsets]
    return {kind: rows}


def describe(*groups: str, **more: Any) -> Body:
    return {"group_ids": list(groups), **more}


def described(*groups: str, differs: str = "") -> Case:
    return Case("StreamsGroupDescribe", describe(*groups), V1, differs)


def beat(body: Body, versions: tuple[int, ...] = V1, **more: Any) -> Case:
    """Keep the epoch that the answer gives to the member, unless it leaves."""
    names = {"member_epoch": f"{body['group_id']} {body['member_id']}"} if body["member_epoch"] != -1 else {}
    return Case("StreamsGroupHeartbeat", body, versions, names=names, **more)


def configure(group: str, **settings: str | None) -> Case:
    configs = [
        {"name": f"streams.{key.replace('_', '.')}", "config_operation": int(value is None), "value": value}
        for key, value in settings.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    return Case("IncrementalAlterConfigs", {"resources": [resource]}, V1)


def deleted(*groups: str) -> Case:
    return Case("DeleteGroups", {"groups_names": list(groups)}, (2,))


def made(topic: str, partitions: int) -> Case:
    """Create it with a version whose answer has no settings."""
    return Case("CreateTopics", create(topic, partitions), (4,))


def exists(*topics: str) -> Case:
    """Ask until the topics are there; how many partitions they have is compared."""
    body = {"topics": [{"name": each} for each in topics], "allow_auto_topic_creation": False}
    return Case("Metadata", body, (12,), until_same=True)


def configs_of(*topics: str) -> Case:
    keys = ["cleanup.policy", "retention.ms", "segment.bytes", "message.timestamp.type", "retention.bytes"]
    resources = [{"resource_type": 2, "resource_name": each, "configuration_keys": keys} for each in topics]
    return Case("DescribeConfigs", {"resources": resources}, (4,))


REFUSED: Final = (
    *(
        beat(joins(BAD, **changes), BOTH)
        for changes in (
            {"group_id": ""},
            {"member_id": ""},
            {"instance_id": ""},
            {"rack_id": ""},
            {"rebalance_timeout_ms": -1},
            {"topology": None},
            {"active_tasks": tasks(0)},
            {"standby_tasks": tasks(0)},
            {"warmup_tasks": tasks(0)},
            {"active_tasks": None},
            {"standby_tasks": None},
            {"warmup_tasks": None},
            {"member_epoch": 1},
            {"member_epoch": -1},
            {"member_epoch": -2},
            {"member_epoch": -3},
            {"member_epoch": -2, "instance_id": "i"},
            {"topology": topology(subtopology("0", LINES, source_topic_regex=["l.*"]))},
            {"topology": topology(subtopology("0", "__consumer_offsets"))},
            {"topology": topology(subtopology("0", "no name"))},
            {"topology": topology(subtopology("0", ""))},
            {"topology": topology(subtopology("0", LINES, repartition_sink_topics=["a b"]))},
            {"topology": topology(subtopology("0", LINES, state_changelog_topics=[internal("a b")]))},
            {"topology": topology(subtopology("0", LINES, state_changelog_topics=[internal("log", 3)]))},
            {
                "topology": topology(
                    subtopology("0", LINES, repartition_source_topics=[internal("__transaction_state")])
                )
            },
            {"active_tasks": tasks(0), "topology": None, "member_epoch": 0},
        )
    ),
    *(
        beat(beats(NONE, **changes), BOTH)
        for changes in (
            {},
            {"member_epoch": -1},
            {"member_epoch": -2, "instance_id": "i"},
            {"member_epoch": -2},
            {"active_tasks": []},
            {"active_tasks": [], "standby_tasks": []},
            {"member_epoch": -1, "shutdown_application": True},
        )
    ),
    Case("StreamsGroupDescribe", describe(NONE, "", BAD)),
    Case("StreamsGroupDescribe", describe()),
    Case("StreamsGroupDescribe", describe(NONE, include_authorized_operations=True)),
    Case("StreamsGroupDescribe", describe(NONE, include_topology_description=True), V1),
    Case("StreamsGroupTopologyDescriptionUpdate", {"group_id": NONE, "member_id": "a"}),
    Case("StreamsGroupTopologyDescriptionUpdate", {"group_id": "", "member_id": ""}),
    deleted(NONE),
)
"""Requests that a broker refuses, and those for groups that it does not have."""

EPOCHS: Final[tuple[tuple[str, Any], ...]] = (
    *(("a", epoch_of(ONE, "a", plus)) for plus in (0, -1, -2, 1)),
    *(("a", 0), ("a", -1), ("unknown", epoch_of(ONE, "a")), ("", epoch_of(ONE, "a"))),
)
"""Members and epochs, of which the first is the right one."""


def commits(member: str, epoch: Any, partition: int = 0) -> Body:
    return commit(ONE, (partition, 5), topic=LINES, member_id=member, generation_id_or_member_epoch=epoch)


LIFE: Final = (
    beat(joins(ONE)),
    beat(beats(ONE)),
    beat(beats(ONE), V0),
    described(ONE),
    Case("StreamsGroupDescribe", describe(ONE), V0),
    Case("StreamsGroupDescribe", describe(ONE, include_authorized_operations=True)),
    Case("StreamsGroupDescribe", describe(ONE, include_topology_description=True), V1),
    Case("ListGroups", {"types_filter": ["streams"]}, (5,)),
    Case("ListGroups", {"types_filter": ["Streams"], "states_filter": ["stable"]}, (5,)),
    Case("ListGroups", {"types_filter": ["streams"], "states_filter": ["NotReady"]}, (5,)),
    Case("DescribeGroups", {"groups": [ONE]}),
    Case("ConsumerGroupDescribe", {"group_ids": [ONE]}),
    Case("ShareGroupDescribe", {"group_ids": [ONE]}, V1),
    beat(owns(ONE, "a", 0, 1, 2)),
    beat(owns(ONE, "a", 0)),
    beat(owns(ONE, "a", 9)),
    beat(owns(ONE, "a", -1)),
    beat(owns(ONE, "a", 0, of="9")),
    beat(beats(ONE, "a", 9)),
    beat(beats(ONE, "unknown")),
    beat(beats(ONE, "unknown", member_epoch=-1)),
    beat(beats(ONE, "a", instance_id="i")),
    beat(beats(ONE, rack_id="r")),
    beat(beats(ONE)),
    beat(beats(ONE, "a", -1)),
    beat(beats(ONE, "a", -2)),
    beat(beats(ONE, rebalance_timeout_ms=1_000)),
    beat(beats(ONE, client_tags=[{"key": "zone", "value": "z"}])),
    beat(beats(ONE, process_id="other")),
    beat(beats(ONE)),
    described(ONE),
    beat(joins(ONE)),
    beat(joins(ONE), V0),
    beat(beats(ONE)),
    described(ONE),
    *(Case("OffsetCommit", commits(member, epoch), (9,)) for member, epoch in (*EPOCHS, ("", -1))),
    Case("OffsetCommit", commit(ONE, (0, 5), topic=LINES), range(2, 10)),
    Case("OffsetCommit", commits("a", epoch_of(ONE, "a")), (7, 8)),
    Case("OffsetCommit", commits("a", epoch_of(ONE, "a", 1)), (7, 8)),
    Case("OffsetCommit", commits("a", epoch_of(ONE, "a", -1)), (8,)),
    Case("OffsetCommit", commits("a", epoch_of(ONE, "a"), 9)),
    *(
        Case("OffsetFetch", fetch(ONE, member_id=member, member_epoch=epoch), BY_GROUP)
        for member, epoch in (*EPOCHS, (None, -1))
    ),
    Case("OffsetFetch", fetch(ONE), range(2, 10)),
    Case(
        "OffsetDelete",
        {"group_id": ONE, "topics": [{"name": LINES, "partitions": [{"partition_index": 0}]}]},
    ),
    deleted(ONE),
    *(
        Case(api, {"group_id": ONE, "generation_id": epoch_of(ONE, "a"), "member_id": "a"})
        for api in ("Heartbeat", "SyncGroup")
    ),
    Case("LeaveGroup", {"group_id": ONE, "member_id": "a", "members": [{"member_id": "a"}]}),
    Case("JoinGroup", join(group_id=ONE), (4, 9)),
    Case(
        "ConsumerGroupHeartbeat",
        {
            "group_id": ONE,
            "member_id": "c",
            "member_epoch": 0,
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": [LINES],
            "topic_partitions": [],
        },
        V1,
    ),
    Case(
        "ShareGroupHeartbeat",
        {"group_id": ONE, "member_id": "s", "member_epoch": 0, "subscribed_topic_names": [LINES]},
        V1,
    ),
    Case("StreamsGroupTopologyDescriptionUpdate", {"group_id": ONE, "member_id": "a"}),
    beat(leaves(ONE)),
    beat(leaves(ONE)),
    beat(beats(ONE)),
    described(ONE),
    Case("ListGroups", {"states_filter": ["empty"], "types_filter": ["streams"]}, (5,)),
    Case("OffsetFetch", fetch(ONE), BY_GROUP),
    Case("OffsetCommit", commit(ONE, (0, 7), topic=LINES), (9,)),
    Case(
        "OffsetDelete",
        {"group_id": ONE, "topics": [{"name": LINES, "partitions": [{"partition_index": 0}]}]},
    ),
    deleted(ONE),
    deleted(ONE),
    described(ONE),
    beat(beats(ONE)),
)
"""One member from its join to the deletion of its group."""

PRODUCER: Final = {"producer_id": kept("producer_id"), "producer_epoch": kept("producer_epoch")}


def in_transaction(member: str, epoch: Any, **more: Any) -> Case:
    body = {"transactional_id": TRANSACTION, "group_id": TRANSACTION, **PRODUCER, "generation_id": epoch}
    partitions = [{"partition_index": 0, "committed_offset": 8}]
    topics = [{"name": LINES, "partitions": partitions}]
    return Case("TxnOffsetCommit", body | {"member_id": member, "topics": topics} | more, (3, 4, 5))


IN_TRANSACTIONS: Final = (
    beat(joins(TRANSACTION)),
    Case(
        "InitProducerId",
        {"transactional_id": TRANSACTION, "transaction_timeout_ms": 60_000},
        (4,),
        keeps=("producer_id", "producer_epoch"),
    ),
    Case("AddOffsetsToTxn", {"transactional_id": TRANSACTION, **PRODUCER, "group_id": TRANSACTION}, (3,)),
    *(
        in_transaction(member, epoch)
        for member, epoch in (
            *(("a", epoch_of(TRANSACTION, "a", plus)) for plus in (0, -1, 1)),
            *(("unknown", epoch_of(TRANSACTION, "a")), ("", -1), ("a", -1)),
        )
    ),
    in_transaction("a", epoch_of(TRANSACTION, "a"), group_instance_id="i"),
    Case("OffsetFetch", fetch(TRANSACTION), BY_GROUP),
    Case("EndTxn", {"transactional_id": TRANSACTION, **PRODUCER, "committed": True}, (3,)),
    Case("OffsetFetch", fetch(TRANSACTION), BY_GROUP, until_same=True),
    beat(leaves(TRANSACTION)),
    deleted(TRANSACTION),
)
"""Offsets that a member commits in a transaction."""

MOVES: Final = (
    beat(joins(TWO)),
    beat(joins(TWO, "b")),
    beat(beats(TWO, "b")),
    described(TWO),
    beat(owns(TWO, "a", 0, 1, 2)),
    beat(beats(TWO, "b")),
    beat(owns(TWO, "a", 0, 1)),
    beat(owns(TWO, "a", 0, 1)),
    beat(beats(TWO, "b")),
    beat(beats(TWO, "a")),
    described(TWO),
    beat(joins(TWO, "c")),
    beat(beats(TWO, "a")),
    beat(owns(TWO, "a", 0)),
    beat(beats(TWO, "c")),
    beat(beats(TWO, "b")),
    described(TWO),
    Case("ListGroups", {"types_filter": ["streams"], "states_filter": ["Reconciling"]}, (5,)),
    beat(joins(TWO, "d")),
    beat(beats(TWO, "d")),
    described(TWO),
    beat(leaves(TWO, "a")),
    beat(beats(TWO, "b")),
    beat(beats(TWO, "b")),
    beat(beats(TWO, "c")),
    beat(beats(TWO, "d")),
    described(TWO),
    # A second thread of the process of "b".
    beat(joins(TWO, "e", process_id="process-b")),
    described(TWO),
    beat(leaves(TWO, "b")),
    beat(beats(TWO, "c")),
    beat(beats(TWO, "d")),
    beat(beats(TWO, "e")),
    described(TWO),
    *(beat(leaves(TWO, member)) for member in "cde"),
    described(TWO),
    # The group has its epoch and its topology still.
    beat(joins(TWO, "f")),
    described(TWO),
    beat(leaves(TWO, "f", shutdown_application=True)),
    deleted(TWO),
)
"""Tasks that go from member to member."""

WITH_STANDBYS: Final = (
    configure(STANDBYS, num_standby_replicas="1"),
    beat(joins(STANDBYS, "a", store(STANDBYS))),
    described(STANDBYS, differs=FORGOTTEN),
    beat(joins(STANDBYS, "b", store(STANDBYS))),
    beat(owns(STANDBYS, "a", 0, 1, 2)),
    beat(owns(STANDBYS, "a", 0, 1)),
    beat(beats(STANDBYS, "b")),
    beat(beats(STANDBYS, "a")),
    described(STANDBYS),
    # Of two threads of a process, only one has a task.
    beat(joins(STANDBYS, "c", store(STANDBYS), process_id="process-a")),
    beat(beats(STANDBYS, "a")),
    beat(beats(STANDBYS, "b")),
    beat(beats(STANDBYS, "c")),
    described(STANDBYS),
    configure(STANDBYS, num_standby_replicas="2"),
    beat(beats(STANDBYS, "b")),
    configure(STANDBYS, num_standby_replicas="3"),
    described(STANDBYS),
    beat(leaves(STANDBYS, "a")),
    beat(beats(STANDBYS, "b")),
    beat(beats(STANDBYS, "c")),
    described(STANDBYS),
    *(beat(leaves(STANDBYS, member)) for member in "bc"),
    deleted(STANDBYS),
)
"""Standby tasks, of which none is in the process of its active task."""

STATIC_MEMBERS: Final = (
    beat(joins(STATIC, instance_id="i")),
    beat(beats(STATIC, instance_id="i")),
    beat(joins(STATIC, "b", instance_id="i")),
    beat(beats(STATIC, "b", instance_id="i")),
    beat(beats(STATIC, "a", instance_id="other")),
    beat(beats(STATIC, "a", member_epoch=-2, instance_id="i")),
    described(STATIC),
    beat(beats(STATIC, "a", instance_id="i")),
    beat(joins(STATIC, "b", instance_id="i")),
    described(STATIC),
    beat(beats(STATIC, "a", instance_id="i")),
    beat(beats(STATIC, "b", instance_id="i")),
    beat(beats(STATIC, "b")),
    beat(beats(STATIC, "b", member_epoch=-2)),
    beat(beats(STATIC, "b", member_epoch=-2, instance_id="none")),
    beat(leaves(STATIC, "a", instance_id="i")),
    beat(leaves(STATIC, "b", instance_id="i")),
    described(STATIC),
    beat(joins(STATIC, "c", instance_id="i")),
    beat(leaves(STATIC, "c")),
    described(STATIC),
    deleted(STATIC),
)

TOPOLOGIES: Final = (
    beat(joins(OLD, "a", store(OLD, epoch=3))),
    beat(joins(OLD, "b", store(OLD, epoch=2))),
    beat(beats(OLD, "b")),
    beat(joins(OLD, "c", store(OLD, epoch=4))),
    beat(joins(OLD, "c", topology(subtopology("0", LINES), epoch=3))),
    beat(joins(OLD, "c", topology(subtopology("0", WIDE), epoch=2))),
    described(OLD),
    *(beat(leaves(OLD, member)) for member in "abc"),
    described(OLD),
    beat(joins(OLD, "a", store(OLD, epoch=4))),
    deleted(OLD),
    beat(joins(OLD, "a", store(OLD, epoch=4))),
    beat(leaves(OLD)),
    deleted(OLD),
    beat(joins(NONE, "a", topology())),
    described(NONE),
    beat(leaves(NONE)),
    deleted(NONE),
    beat(joins(NONE, "a", topology(subtopology("0")))),
    described(NONE),
    beat(leaves(NONE)),
    deleted(NONE),
    *(
        beat(joins(NONE, "a", of), differs=UNREADABLE)
        for of in (
            topology(subtopology("0", LINES), subtopology("0", LINES)),
            topology(subtopology("0", LINES, copartition_groups=[{"source_topics": [5]}])),
        )
    ),
    deleted(NONE),
)
"""Members whose topology is another than that of the group."""

REFUSED_LOG: Final = topology(
    subtopology("0", LINES, state_changelog_topics=[internal(f"{NONE}-log", no_such_key="1")])
)
NOT_MADE: Final = {
    "status_code": 3,
    "status_detail": f"Internal topics are missing: {NONE}-log; Creation failed: {NONE}-log "
    "(Unknown topic config name: no.such.key).",
}

MISSING: Final = (
    beat(joins(WAITING, "a", topology(subtopology("0", LINES, LATE)))),
    beat(beats(WAITING)),
    described(WAITING),
    Case("ListGroups", {"types_filter": ["streams"], "states_filter": ["not_ready", "NotReady"]}, (5,)),
    beat(owns(WAITING, "a", 9)),
    beat(joins(WAITING, "b", topology(subtopology("0", LINES, LATE)))),
    beat(beats(WAITING)),
    made(LATE, 4),
    beat(beats(WAITING), until={"status": []}),
    beat(beats(WAITING, "b")),
    described(WAITING),
    *(beat(leaves(WAITING, member)) for member in "ab"),
    deleted(WAITING),
    beat(joins(JOINED, "a", both(LINES, WIDE))),
    described(JOINED),
    beat(leaves(JOINED)),
    deleted(JOINED),
    beat(joins(JOINED, "a", both(LATE, WIDE))),
    described(JOINED),
    beat(leaves(JOINED)),
    deleted(JOINED),
    beat(joins(JOINED, "a", both(LINES, repartitions=5))),
    beat(leaves(JOINED)),
    deleted(JOINED),
    beat(joins(JOINED, "a", both(WIDE, repartitions=0))),
    beat(beats(JOINED, "a"), until={"status": []}),
    described(JOINED),
    exists(f"{JOINED}-x-repartition"),
    beat(leaves(JOINED)),
    deleted(JOINED),
    beat(joins(COUNTING, "a", count(COUNTING))),
    beat(beats(COUNTING, "a"), until={"status": []}),
    exists(f"{COUNTING}-by-word-repartition", f"{COUNTING}-words-changelog"),
    configs_of(f"{COUNTING}-by-word-repartition", f"{COUNTING}-words-changelog"),
    described(COUNTING),
    beat(joins(COUNTING, "b", count(COUNTING))),
    beat(beats(COUNTING, "a")),
    described(COUNTING),
    *(beat(leaves(COUNTING, member)) for member in "ab"),
    deleted(COUNTING),
    beat(joins(UNFIT, "a", count(UNFIT))),
    described(UNFIT),
    beat(leaves(UNFIT)),
    deleted(UNFIT),
    # Kafka looks for the controller's refusal right after it asked the controller to create the topic. If the
    # refusal is there by then, already the answer to the first heartbeat tells it.
    beat(joins(NONE, "a", REFUSED_LOG), until={"status": [NOT_MADE]}),
    beat(beats(NONE), until={"status": [NOT_MADE]}),
    beat(leaves(NONE)),
    deleted(NONE),
)
"""Topics that are missing, that do not fit, and that the broker creates."""

QUERIES: Final = (
    beat(joins(FIRST, user_endpoint={"host": "one", "port": 1}), differs=FORGOTTEN),
    beat(leaves(FIRST)),
    deleted(FIRST),
    # The group is there before a member has an endpoint.
    beat(joins(ENDPOINTS, "z")),
    beat(leaves(ENDPOINTS, "z")),
    beat(joins(ENDPOINTS, "a", user_endpoint={"host": "one", "port": 65_535})),
    beat(beats(ENDPOINTS)),
    beat(beats(ENDPOINTS, endpoint_information_epoch=1)),
    beat(beats(ENDPOINTS, endpoint_information_epoch=2)),
    beat(joins(ENDPOINTS, "b", user_endpoint={"host": "two", "port": 1})),
    beat(owns(ENDPOINTS, "a", 0, 1, endpoint_information_epoch=1)),
    beat(owns(ENDPOINTS, "a", 0, 1)),
    beat(beats(ENDPOINTS, "b")),
    beat(beats(ENDPOINTS, "a", user_endpoint={"host": "other", "port": 0})),
    described(ENDPOINTS),
    beat(joins(ENDPOINTS, "c")),
    beat(leaves(ENDPOINTS, "b")),
    beat(beats(ENDPOINTS, "a")),
    beat(beats(ENDPOINTS, "c")),
    *(beat(leaves(ENDPOINTS, member)) for member in "ac"),
    deleted(ENDPOINTS),
)
"""Endpoints of Interactive Queries."""

SETTINGS_OF_GROUPS: Final = (
    *("heartbeat.interval.ms", "session.timeout.ms", "num.standby.replicas", "num.warmup.replicas"),
    *("initial.rebalance.delay.ms", "assignment.interval.ms", "task.offset.interval.ms"),
    *("acceptable.recovery.lag", "assignor.offload.enable", "assignor.name", "rack.aware.assignment.tags"),
)

SETTINGS: Final = (
    *(
        configure(CONFIGURED, **{key: value})
        for key, value in (
            ("heartbeat_interval_ms", "6000"),
            ("heartbeat_interval_ms", "4999"),
            ("heartbeat_interval_ms", "15001"),
            ("session_timeout_ms", "50000"),
            ("session_timeout_ms", "44999"),
            ("session_timeout_ms", "60001"),
            ("num_standby_replicas", "-1"),
            ("num_standby_replicas", "2"),
            ("num_standby_replicas", "3"),
            ("num_warmup_replicas", "3"),
            ("num_warmup_replicas", "21"),
            ("initial_rebalance_delay_ms", "0"),
            ("initial_rebalance_delay_ms", "-1"),
            ("assignment_interval_ms", "15001"),
            ("assignment_interval_ms", "0"),
            ("task_offset_interval_ms", "15000"),
            ("task_offset_interval_ms", "14999"),
            ("acceptable_recovery_lag", "5"),
            ("acceptable_recovery_lag", "-1"),
            ("assignor_offload_enable", "true"),
            ("assignor_offload_enable", "no"),
            ("assignor_name", "sticky"),
            ("assignor_name", "none"),
            ("assignor_name", "highly_available"),
            ("rack_aware_assignment_tags", ""),
            ("no_such_key", "1"),
        )
    ),
    Case(
        "DescribeConfigs",
        {
            "resources": [
                {
                    "resource_type": GROUP,
                    "resource_name": CONFIGURED,
                    "configuration_keys": [f"streams.{key}" for key in SETTINGS_OF_GROUPS],
                }
            ]
        },
        (4,),
    ),
    beat(joins(CONFIGURED)),
    beat(joins(CONFIGURED), V0),
    described(CONFIGURED),
    beat(leaves(CONFIGURED)),
    deleted(CONFIGURED),
    configure(DELAYED, initial_rebalance_delay_ms="4000"),
    beat(joins(DELAYED)),
    beat(joins(DELAYED, "b")),
    described(DELAYED),
    Case("ListGroups", {"types_filter": ["streams"], "states_filter": ["Assigning"]}, (5,)),
    beat(beats(DELAYED, "a"), until={"status": []}),
    beat(beats(DELAYED, "b")),
    described(DELAYED),
    configure(DELAYED, assignment_interval_ms="15000"),
    beat(joins(DELAYED, "c")),
    beat(beats(DELAYED, "a")),
    described(DELAYED),
    *(beat(leaves(DELAYED, member)) for member in "abc"),
    deleted(DELAYED),
    configure(TAGGED, rack_aware_assignment_tags="zone,cluster", num_standby_replicas="1"),
    beat(joins(TAGGED, "a", store(TAGGED))),
    beat(joins(TAGGED, "a", store(TAGGED)), V0),
    *(
        beat(
            joins(
                TAGGED,
                member,
                store(TAGGED),
                client_tags=[{"key": "zone", "value": zone}, {"key": "cluster", "value": "k"}],
            )
        )
        for member, zone in (("b", "z"), ("c", "z"), ("d", "y"))
    ),
    described(TAGGED),
    *(beat(leaves(TAGGED, member)) for member in "abcd"),
    deleted(TAGGED),
)
"""The settings of groups."""

OFFSETS_OF_TASKS: Final = (
    configure(PROGRESS, acceptable_recovery_lag="100"),
    beat(joins(PROGRESS, "a", store(PROGRESS))),
    beat(
        owns(
            PROGRESS,
            "a",
            0,
            1,
            2,
            **offset(PROGRESS, (0, 1_000), (1, 1_000), (2, 1_000)),
            **offset(PROGRESS, (0, 1_000), (1, 1_000), (2, 1_000), kind="task_end_offsets"),
        )
    ),
    described(PROGRESS, differs=FORGOTTEN),
    beat(joins(PROGRESS, "b", store(PROGRESS))),
    described(PROGRESS),
    beat(owns(PROGRESS, "a", 0, 1, 2)),
    beat(beats(PROGRESS, "b")),
    described(PROGRESS),
    beat(
        beats(
            PROGRESS,
            "b",
            **offset(PROGRESS, (2, 899)),
            **offset(PROGRESS, (2, 1_000), kind="task_end_offsets"),
        )
    ),
    beat(beats(PROGRESS, "a")),
    beat(beats(PROGRESS, "b", **offset(PROGRESS, (2, 900)))),
    beat(beats(PROGRESS, "a")),
    described(PROGRESS),
    beat(owns(PROGRESS, "a", 0, 1)),
    beat(beats(PROGRESS, "a")),
    beat(beats(PROGRESS, "b")),
    beat(beats(PROGRESS, "b")),
    described(PROGRESS),
    beat(beats(PROGRESS, "b", **offset(PROGRESS, (7, 900), of="9"))),
    *(beat(leaves(PROGRESS, member)) for member in "ab"),
    deleted(PROGRESS),
)
"""Offsets of tasks, which Kafka 4.4 describes, and because of which it moves no task."""

SHUTDOWN: Final = (
    beat(joins(SHUT)),
    beat(joins(SHUT, "b")),
    beat(beats(SHUT, "a", shutdown_application=True)),
    beat(beats(SHUT, "b")),
    beat(joins(SHUT, "c")),
    *(beat(leaves(SHUT, member)) for member in "abc"),
    beat(joins(SHUT)),
    beat(leaves(SHUT, "a", shutdown_application=True)),
    beat(joins(SHUT)),
    beat(leaves(SHUT)),
    deleted(SHUT),
)

OTHER_PROTOCOLS: Final = (
    Case("OffsetCommit", commit(CLASSIC, (0, 5), topic=LINES), (8,)),
    beat(beats(CLASSIC)),
    described(CLASSIC),
    Case("JoinGroup", join(group_id=CLASSIC, protocols=[RANGE]), (3,), keeps=("member_id",)),
    beat(joins(CLASSIC)),
    Case("LeaveGroup", {"group_id": CLASSIC, "member_id": kept("member_id")}, (2,)),
    beat(joins(CLASSIC)),
    Case("OffsetFetch", fetch(CLASSIC), BY_GROUP),
    described(CLASSIC),
    beat(leaves(CLASSIC)),
    Case(
        "ConsumerGroupHeartbeat",
        {
            "group_id": CONSUMERS,
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": [LINES],
            "topic_partitions": [],
        },
        V1,
    ),
    beat(joins(CONSUMERS)),
    beat(beats(CONSUMERS)),
    described(CONSUMERS),
    Case("ConsumerGroupHeartbeat", {"group_id": CONSUMERS, "member_id": "m", "member_epoch": -1}, V1),
    beat(joins(CONSUMERS)),
    deleted(CONSUMERS, CLASSIC),
)
"""Groups of another protocol."""

STORES: Final = tuple(f"{each}-store-changelog" for each in (STANDBYS, OLD, TAGGED, PROGRESS))

CASES: Final = (
    *(made(name, count) for name, count in ((LINES, 3), (WIDE, 4), *((each, 3) for each in STORES))),
    made(f"{UNFIT}-words-changelog", 2),
    exists(LINES, WIDE, f"{UNFIT}-words-changelog", *STORES),
    *(REFUSED + LIFE + IN_TRANSACTIONS + MOVES + WITH_STANDBYS + STATIC_MEMBERS + TOPOLOGIES + MISSING),
    *(QUERIES + SETTINGS + OFFSETS_OF_TASKS + SHUTDOWN + OTHER_PROTOCOLS),
)
"""Requests whose answers are compared with Kafka's, in this order."""
