"""StreamsGroupHeartbeat, StreamsGroupDescribe and StreamsGroupTopologyDescriptionUpdate, and the internal
topics that the broker creates.
"""

from collections.abc import AsyncIterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from broker.api import a88_streams_group_heartbeat
from broker.api.a88_streams_group_heartbeat import SHOWN_ERRORS
from broker.api.requests.context import RequestContext
from broker.api.requests.services import GroupServices
from broker.api.requests.streams_topics import CREATED_AT_ONCE, MOST_ERRORS, MOST_PENDING, StreamsTopics
from broker.api.security.client_security import EVERY_OPERATION
from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.controller.commands import BROKER_ITSELF, Charge, free
from broker.coordinator.group.streams import topology as topologies
from broker.coordinator.group.streams.status import StatusCode
from broker.coordinator.group.streams.topology import TopicInfo as InternalTopic
from broker.coordinator.group.streams.topology import size_of
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import AclCreation, CreateAclsRequest
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.list_groups import ListGroupsRequest
from broker.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from broker.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from broker.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)
from broker.quotas.entity import Entity
from broker.security.acl.acl import ResourceType
from tests.api.group import GROUP, find_coordinator
from tests.api.harness import Connection, Harness

GROUP_KIND, TOPIC_KIND, CLUSTER_KIND = 3, 2, 4
READ, CREATE, DESCRIBE = 3, 5, 8
AT_ONCE = "group.streams.initial.rebalance.delay.ms=0", "group.streams.assignment.interval.ms=0"
CHANGELOG, REPARTITION = "app-counts-changelog", "app-counts-repartition"


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path, *AT_ONCE)
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]))
    await find_coordinator(harness)
    yield harness
    harness.close()


def topology(**changes: Any) -> Topology:
    """One that counts what is in `orders`, by another key."""
    fields = {
        "state_changelog_topics": [TopicInfo(CHANGELOG, 0, 0, [KeyValue("cleanup.policy", "compact")])],
        "repartition_source_topics": [TopicInfo(REPARTITION)],
    }
    counting = Subtopology("1", **(fields | changes))
    return Topology(0, [Subtopology("0", ["orders"], repartition_sink_topics=[REPARTITION]), counting])


def heartbeat(member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(GROUP, member_id, epoch, **fields)


def joining(member_id: str = "m", **fields: Any) -> StreamsGroupHeartbeatRequest:
    stated = {
        "rebalance_timeout_ms": 60_000,
        "topology": topology(),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": f"process-{member_id}",
        "client_tags": [],
    }
    return heartbeat(member_id, 0, **(stated | fields))


async def ready(harness: Harness) -> StreamsGroupHeartbeatResponse:
    """Let the member "m" run all tasks."""
    await harness.ask(joining())
    await harness.streams_topics.create_pending()
    reply = await harness.ask(heartbeat("m", 2))
    assert isinstance(reply, StreamsGroupHeartbeatResponse)
    return reply


async def describe(harness: Harness, group: str = GROUP, **more: Any) -> DescribedGroup:
    (found,) = (await harness.ask(StreamsGroupDescribeRequest([group]), **more)).groups
    assert isinstance(found, DescribedGroup)
    return found


def statuses(reply: StreamsGroupHeartbeatResponse) -> list[tuple[int, str]]:
    return [(status.status_code, status.status_detail) for status in reply.status or ()]


async def test_a_member_joins_and_runs_tasks_when_its_topics_exist(harness):
    reply = await harness.ask(joining())
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (0, "m", 2)
    assert (reply.heartbeat_interval_ms, reply.task_offset_interval_ms) == (5_000, 60_000)
    assert reply.acceptable_recovery_lag == 10_000
    assert (reply.active_tasks, reply.standby_tasks, reply.warmup_tasks) == ([], [], [])
    assert not reply.topology_description_required
    assert statuses(reply) == [
        (
            StatusCode.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {REPARTITION}, {CHANGELOG}",
        )
    ]
    await harness.streams_topics.create_pending()
    topics = harness.control.image.topics
    assert {name: topics[name].partitions for name in (CHANGELOG, REPARTITION)} == {
        CHANGELOG: 2,
        REPARTITION: 2,
    }
    assert topics[CHANGELOG].configs["cleanup.policy"] == "compact"
    reply = await harness.ask(heartbeat("m", 2))
    assert (reply.member_epoch, statuses(reply)) == (3, [])
    assert reply.active_tasks == [TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]
    again = await harness.ask(heartbeat("m", 3))
    assert (again.active_tasks, again.standby_tasks, again.warmup_tasks) == (None, None, None)


async def test_version_0_has_no_recovery_lag_and_no_missing_tags(harness):
    reply = await harness.ask(joining(), 0)
    assert (reply.acceptable_recovery_lag_legacy, reply.member_epoch) == (0, 2)


async def test_members_learn_the_endpoints(harness):
    await harness.ask(joining(user_endpoint=Endpoint("here", 65_000), endpoint_information_epoch=-1))
    await harness.streams_topics.create_pending()
    reply = await harness.ask(heartbeat("m", 2, endpoint_information_epoch=1))
    assert reply.endpoint_information_epoch == 2
    (found,) = reply.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("here", 65_000)
    assert [(each.topic, each.partitions) for each in found.active_partitions] == [
        ("orders", [0, 1]),
        (REPARTITION, [0, 1]),
    ]
    assert found.standby_partitions == []


async def test_a_group_is_described(harness):
    before = joining(
        client_tags=[KeyValue("zone", "a")],
        rack_id="r",
        user_endpoint=Endpoint("here", 1),
        endpoint_information_epoch=-1,
    )
    await harness.ask(before)
    described = await describe(harness)
    assert (described.error_code, described.group_state) == (0, "NotReady")
    assert described.topology is not None and described.topology.subtopologies is not None
    assert described.topology.subtopologies[1].state_changelog_topics[0].partitions == 0
    await harness.streams_topics.create_pending()
    await harness.ask(heartbeat("m", 2, task_offsets=[TaskOffset("1", 0, 7)], task_end_offsets=[]))
    described = await describe(harness)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 3, 3)
    assert (described.assignor_name, described.topology_description_status) == ("sticky", 0)
    assert described.topology is not None and described.topology.subtopologies is not None
    first, second = described.topology.subtopologies
    assert (first.subtopology_id, first.source_topics, first.repartition_sink_topics) == (
        "0",
        ["orders"],
        [REPARTITION],
    )
    assert [(each.name, each.partitions) for each in second.state_changelog_topics] == [(CHANGELOG, 2)]
    (member,) = described.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == (
        "m",
        3,
        "test",
        "/127.0.0.1",
    )
    assert (member.process_id, member.rack_id, member.topology_epoch) == ("process-m", "r", 0)
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "a")]
    assert [(each.subtopology_id, each.partition, each.offset) for each in member.task_offsets] == [
        ("1", 0, 7)
    ]
    assert [(each.subtopology_id, each.partitions) for each in member.assignment.active_tasks] == [
        ("0", [0, 1]),
        ("1", [0, 1]),
    ]
    assert [each.partitions for each in member.target_assignment.active_tasks] == [[0, 1], [0, 1]]
    assert (await describe(harness, version=0)).assignor_name is None


async def test_a_description_is_never_stored(harness):
    await ready(harness)
    request = StreamsGroupDescribeRequest([GROUP], include_topology_description=True)
    (described,) = (await harness.ask(request)).groups
    assert (described.topology_description_status, described.topology_description) == (1, None)
    update = StreamsGroupTopologyDescriptionUpdateRequest(GROUP, "m", 0, TopologyDescription())
    assert await harness.ask(update) == StreamsGroupTopologyDescriptionUpdateResponse(
        0,
        ErrorCode.UNSUPPORTED_VERSION,
        "The broker has no streams group topology description plugin configured.",
    )


async def test_groups_that_cannot_be_described_have_errors(harness):
    await harness.ask(joining())
    wanted = [GROUP, "missing", "", GROUP]
    groups = (await harness.ask(StreamsGroupDescribeRequest(wanted, True))).groups
    assert [(each.group_id, each.error_code) for each in groups] == [
        (GROUP, 0),
        ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_GROUP_ID),
        (GROUP, ErrorCode.INVALID_REQUEST),
    ]
    assert groups[0].authorized_operations == EVERY_OPERATION[ResourceType.GROUP]


async def test_a_streams_group_is_listed(harness):
    await harness.ask(joining())
    (listed,) = (await harness.ask(ListGroupsRequest(types_filter=["streams"]))).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "streams",
        "NotReady",
        "streams",
    )


async def test_the_feature_is_told(harness):
    reply = await harness.ask(ApiVersionsRequest("kio", "1"))
    supported = {each.name: (each.min_version, each.max_version) for each in reply.supported_features}
    finalized = {each.name: each.max_version_level for each in reply.finalized_features}
    assert (supported["streams.version"], finalized["streams.version"]) == ((0, 1), 1)


TAGS = [KeyValue(str(number), "") for number in range(101)]
INVALID, PROHIBITED = ErrorCode.INVALID_REQUEST, ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"member_id": "n" * 8_001}, INVALID, "A name has more than 8000 characters."),
        ({"process_id": "n" * 8_001}, INVALID, "A name has more than 8000 characters."),
        ({"user_endpoint": Endpoint("n" * 8_001, 1)}, INVALID, "A name has more than 8000 characters."),
        ({"client_tags": [KeyValue("k", "n" * 8_001)]}, INVALID, "A name has more than 8000 characters."),
        ({"client_tags": [KeyValue("k", "1")] * 2}, INVALID, "ClientTags has a key more than once."),
        ({"client_tags": TAGS}, INVALID, "ClientTags has more than 100 tags."),
        ({"standby_tasks": None}, INVALID, "If one task-type is non-null, all must be non-null."),
        (
            {"task_offsets": [TaskOffset("0", 1, 2), TaskOffset("0", 1, 3)]},
            INVALID,
            "Task offsets contain a duplicate entry for subtopology 0 and partition 1.",
        ),
        (
            {"topology": Topology(0, [Subtopology("0", [], ["o.*"])])},
            INVALID,
            "Regular expressions for source topics are not supported yet.",
        ),
        (
            {"topology": Topology(0, [Subtopology("0", ["__consumer_offsets"])])},
            PROHIBITED,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited.",
        ),
        (
            {"topology": Topology(0, [Subtopology("0", ["a b"])])},
            PROHIBITED,
            "Topic names a b are not valid topic names.",
        ),
        (
            {"topology": topology(state_changelog_topics=[TopicInfo(CHANGELOG, 3)])},
            PROHIBITED,
            f"Changelog topic {CHANGELOG} must have an undefined partition count, but it is set to 3.",
        ),
        (
            {"topology": topology(copartition_groups=[CopartitionGroup([], [], [1])])},
            PROHIBITED,
            "A copartition group of subtopology 1 has index 1 of a list with 1 elements.",
        ),
    ],
)  # fmt: skip
async def test_a_bad_request_is_refused(harness, fields, error, message):
    member_id = fields.get("member_id", "m")
    reply = await harness.ask(joining(**({"member_id": member_id} | fields)))
    assert (reply.error_code, reply.error_message) == (error, message)
    assert (await describe(harness)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_topology_has_a_size(tmp_path):
    harness = Harness(tmp_path, "group.max.bytes=2000")
    await find_coordinator(harness)
    names = [f"orders-{number:04}" for number in range(100)]
    reply = await harness.ask(joining(topology=Topology(0, [Subtopology("0", names)])))
    assert (reply.error_code, reply.error_message) == (PROHIBITED, "The topology has more than 2000 bytes.")
    reply = await harness.ask(joining(topology=Topology(0, [Subtopology("0", names[:50])])))
    assert reply.error_code == 0
    harness.close()


async def test_a_long_group_id_is_refused(harness):
    reply = await harness.ask(StreamsGroupHeartbeatRequest("g" * 8_001, "m", 0))
    assert reply.error_code == ErrorCode.INVALID_GROUP_ID


async def test_errors_of_the_coordinator_are_told(harness):
    reply = await harness.ask(heartbeat("m", 1))
    assert (reply.error_code, reply.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Streams group {GROUP} not found.",
    )


async def test_a_member_leaves(harness):
    await ready(harness)
    reply = await harness.ask(heartbeat("m", -1))
    assert (reply.error_code, reply.member_id, reply.member_epoch, reply.status) == (0, "m", -1, [])
    assert (await describe(harness)).group_state == "Empty"


# Internal topics


def internal_topics(harness: Harness) -> StreamsTopics:
    def fail(error: Exception) -> None:
        raise error

    return StreamsTopics(harness.control, harness.clock, fail)


def ask_for(
    topics: StreamsTopics, partitions: Mapping[str, int], *, replicas: int = 0, charge: Charge = free
) -> None:
    """Let topics be created with these numbers of partitions; errors last a millisecond."""
    wanted = {name: InternalTopic(name, count, replicas) for name, count in partitions.items()}
    run_through(topics.create(wanted, BROKER_ITSELF, charge, 1))


def count_created(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of topics of each change of the metadata."""
    seen: list[int] = []
    apply = harness.control.apply

    async def counted(command: Any, actor: Any) -> Any:
        seen.append(len(command.topics))
        return await apply(command, actor)

    monkeypatch.setattr(harness.control, "apply", counted)
    return seen


async def test_why_a_topic_cannot_be_created_is_told_until_it_is_tried_again(harness):
    stated = joining(topology=topology(state_changelog_topics=[TopicInfo(CHANGELOG, 0, 3)]))
    await harness.ask(stated)
    await harness.streams_topics.create_pending()
    assert REPARTITION in harness.control.image.topics
    reply = await harness.ask(heartbeat("m", 2))
    ((code, detail),) = statuses(reply)
    assert code == StatusCode.MISSING_INTERNAL_TOPICS
    assert detail.startswith(
        f"Internal topics are missing: {CHANGELOG}; Creation failed: {CHANGELOG} (Unable to replicate the "
        "partition 3 time(s)"
    )
    assert detail.endswith(").")
    harness.clock.advance(9_999)
    assert "Creation failed" in statuses(await harness.ask(heartbeat("m", 3)))[0][1]
    harness.clock.advance(1)
    assert "Creation failed" not in statuses(await harness.ask(heartbeat("m", 3)))[0][1]
    await harness.streams_topics.create_pending()
    assert "Creation failed" in statuses(await harness.ask(heartbeat("m", 3)))[0][1]


async def test_many_topics_are_created_a_few_at_a_time(harness, monkeypatch):
    topics = internal_topics(harness)
    woken = []
    topics.on_pending = lambda: woken.append(True)
    names = [f"t-{number}" for number in range(CREATED_AT_ONCE + 1)]
    ask_for(topics, dict.fromkeys(names, 1))
    seen = count_created(harness, monkeypatch)
    await topics.create_pending()
    assert woken == [True]
    assert harness.control.image.topics.keys() > set(names)
    assert seen == [CREATED_AT_ONCE, 1]


async def test_the_errors_that_are_kept_are_limited(harness):
    topics = internal_topics(harness)
    names = [f"t-{number}" for number in range(MOST_ERRORS + 1)]
    ask_for(topics, dict.fromkeys(names, 1), replicas=3)
    await topics.create_pending()
    assert run_through(topics.errors(names)).keys() == set(names[1:])
    harness.clock.advance(1)
    assert run_through(topics.errors(names)) == {}


async def test_a_hundred_topics_of_500_partitions_are_created(harness, monkeypatch):
    topics = internal_topics(harness)
    wanted = dict.fromkeys((f"t-{number}" for number in range(100)), 500)
    ask_for(topics, wanted)
    seen = count_created(harness, monkeypatch)
    await topics.create_pending()
    assert seen == [20] * 5
    assert run_through(topics.errors(wanted)) == {}
    created = harness.control.image.topics
    assert {name: created[name].partitions for name in wanted} == wanted


@pytest.mark.parametrize(
    ("partitions", "batches", "failed"),
    [
        ((500, 9_499), [2], set()),
        ((500, 9_500), [2], set()),
        ((500, 9_501), [1, 1], set()),
        ((10_001, 1), [1, 1], {"t-0"}),
    ],
)
async def test_topics_created_at_once_have_no_more_partitions_than_a_request_may_create(
    harness, monkeypatch, partitions, batches, failed
):
    topics = internal_topics(harness)
    wanted = {f"t-{number}": count for number, count in enumerate(partitions)}
    ask_for(topics, wanted)
    seen = count_created(harness, monkeypatch)
    await topics.create_pending()
    assert seen == batches
    errors = run_through(topics.errors(wanted))
    assert errors == dict.fromkeys(failed, "Excessively large number of partitions per request.")
    assert wanted.keys() - harness.control.image.topics.keys() == failed


async def test_each_client_is_charged_for_the_topics_that_it_asked_for(harness, monkeypatch):
    topics = internal_topics(harness)
    first: list[int] = []
    second: list[int] = []
    ask_for(topics, {"a": 1, "b": 2}, charge=first.append)
    ask_for(topics, {"b": 2, "c": 3}, charge=second.append)
    ask_for(topics, {"d": 4}, charge=first.append)
    seen = count_created(harness, monkeypatch)
    await topics.create_pending()
    assert seen == [2, 1, 1]
    assert (first, second) == ([1, 2, 4], [3])


@pytest.mark.parametrize(
    ("partitions", "is_refused", "owed_ms"), [(19, False, 9_000), (20, False, 10_000), (21, True, 500)]
)
async def test_internal_topics_count_toward_the_mutation_quota(tmp_path, partitions, is_refused, owed_ms):
    """A rate of 2 over ten windows accumulates 20: the second topic is refused while the bucket is below
    zero.
    """
    harness = Harness(tmp_path, *AT_ONCE, "controller.quota.window.num=10")
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", partitions, 1)]))
    await find_coordinator(harness)
    harness.quotas.apply(Entity(client_id="app"), "controller_mutation_rate", 2)

    async def ask(message: Any) -> Any:
        return await harness.ask(message, client_id="app")

    async def throttle_ms() -> int:
        reply = await ask(CreateTopicsRequest([CreatableTopic("more", 1, 1)]))
        return int(reply.throttle_time_ms)

    await ask(joining())
    await harness.streams_topics.create_pending()
    topics = harness.control.image.topics
    assert (REPARTITION in topics, CHANGELOG in topics) == (True, not is_refused)
    assert await throttle_ms() == owed_ms
    reply = await ask(heartbeat("m", 2))
    if not is_refused:
        assert (reply.member_epoch, statuses(reply)) == (3, [])
        harness.close()
        return
    why = (
        f"Internal topics are missing: {CHANGELOG}; Creation failed: {CHANGELOG} (The throttling quota has "
        "been exceeded.)."
    )
    assert statuses(reply) == [(StatusCode.MISSING_INTERNAL_TOPICS, why)]
    harness.clock.advance(9_999)
    await ask(heartbeat("m", 3))
    await harness.streams_topics.create_pending()
    assert CHANGELOG not in harness.control.image.topics
    harness.clock.advance(1)
    await ask(heartbeat("m", 3))
    await harness.streams_topics.create_pending()
    assert harness.control.image.topics[CHANGELOG].partitions == partitions
    assert await throttle_ms() == 1_000  # 10 s later: 19 of 20 tokens, less 21
    assert statuses(await ask(heartbeat("m", 3))) == []
    harness.close()


async def test_an_unexpected_exception_is_reported_and_other_topics_are_created(harness, monkeypatch):
    failures: list[Exception] = []
    topics = StreamsTopics(harness.control, harness.clock, failures.append)
    names = [f"t-{number}" for number in range(CREATED_AT_ONCE + 1)]
    ask_for(topics, dict.fromkeys(names, 1))
    error = RuntimeError("unexpected")
    apply = harness.control.apply

    async def fail_once(command: Any, actor: Any) -> Any:
        if not failures:
            raise error
        return await apply(command, actor)

    monkeypatch.setattr(harness.control, "apply", fail_once)
    await topics.create_pending()
    assert failures == [error]
    assert run_through(topics.errors(names)) == dict.fromkeys(names[:-1], "UNKNOWN_SERVER_ERROR")
    assert names[-1] in harness.control.image.topics
    harness.clock.advance(1)
    ask_for(topics, dict.fromkeys(names, 1))
    await topics.create_pending()
    assert harness.control.image.topics.keys() > set(names)


async def test_asking_for_topics_can_pause_after_each_and_keeps_those_if_closed(harness):
    topics = internal_topics(harness)
    woken = []
    topics.on_pending = lambda: woken.append(True)
    wanted = {name: InternalTopic(name, 1) for name in ("a", "b", "c")}
    steps = topics.create(wanted, BROKER_ITSELF, free, 1)
    next(steps)
    next(steps)
    assert not woken
    steps.close()
    assert woken == [True]
    await topics.create_pending()
    assert {name for name in wanted if name in harness.control.image.topics} == {"a", "b"}
    assert len(list(topics.errors(wanted))) == len(wanted)


@pytest.mark.parametrize("count", [MOST_PENDING - 1, MOST_PENDING, MOST_PENDING + 1])
async def test_the_topics_that_are_to_be_created_are_limited(harness, monkeypatch, count):
    topics = internal_topics(harness)
    ask_for(topics, {f"t-{number}": 1 for number in range(count)})
    seen: list[int] = []

    async def none_created(command: Any, actor: Any) -> Any:
        seen.append(len(command.topics))
        return []

    monkeypatch.setattr(harness.control, "apply", none_created)
    await topics.create_pending()
    assert sum(seen) == min(count, MOST_PENDING)


# Authorization


async def test_a_client_needs_the_group_and_the_topics(tmp_path):
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    harness = Harness(tmp_path, *AT_ONCE, f"authorizer.class.name={authorizer}", "super.users=User:root")
    root, client = Connection(), Connection()
    root.principal, client.principal = "root", "app"

    async def allow(kind: int, name: str, operation: int) -> None:
        creation = AclCreation(kind, name, 3, "User:app", "*", operation, 3)
        reply = await harness.ask(CreateAclsRequest([creation]), connection=root)
        assert [each.error_code for each in reply.results] == [0]

    async def ask(message: Any) -> Any:
        return await harness.ask(message, connection=client)

    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]), connection=root)
    await harness.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), connection=root)
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    update = StreamsGroupTopologyDescriptionUpdateRequest(GROUP, "m", 0, TopologyDescription())
    assert (await ask(joining())).error_code == refused
    assert (await ask(update)).error_code == refused
    assert (await describe(harness, connection=client)).error_code == refused
    await allow(GROUP_KIND, GROUP, READ)
    await allow(TOPIC_KIND, "orders", DESCRIBE)
    await allow(TOPIC_KIND, CHANGELOG, DESCRIBE)
    assert (await ask(joining())).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await allow(TOPIC_KIND, REPARTITION, DESCRIBE)
    reply = await ask(joining())
    assert statuses(reply) == [
        (
            StatusCode.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {REPARTITION}, {CHANGELOG}; Unauthorized to CREATE on topics "
            f"{REPARTITION}, {CHANGELOG}.",
        )
    ]
    await allow(TOPIC_KIND, CHANGELOG, CREATE)
    reply = await ask(heartbeat("m", 2))
    assert statuses(reply)[0][1].endswith(f"; Unauthorized to CREATE on topics {REPARTITION}.")
    await harness.streams_topics.create_pending()
    assert CHANGELOG not in harness.control.image.topics
    await allow(TOPIC_KIND, REPARTITION, CREATE)
    await ask(heartbeat("m", 2))
    await harness.streams_topics.create_pending()
    reply = await ask(heartbeat("m", 2))
    assert (reply.error_code, reply.member_epoch, statuses(reply)) == (0, 3, [])
    assert (await describe(harness, connection=client)).group_state == "Stable"
    harness.close()


def changelogs(count: int) -> list[TopicInfo]:
    return [TopicInfo(f"app-{number}-changelog") for number in range(count)]


@pytest.mark.parametrize(
    ("count", "more"),
    [(2, ""), (SHOWN_ERRORS, ""), (SHOWN_ERRORS + 1, " and 1 more"), (500, " and 497 more")],
)
async def test_a_status_names_a_few_of_the_topics_that_a_client_may_not_create(tmp_path, count, more):
    harness = Harness(tmp_path, *AT_ONCE, "wire.role=viewer", "super.users=User:root")
    root, client = Connection(), Connection()
    root.principal, client.principal = "root", "app"
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 2, 1)]), connection=root)
    await harness.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), connection=root)
    source = Subtopology("0", ["orders"], state_changelog_topics=changelogs(count))
    reply = await harness.ask(joining(topology=Topology(0, [source])), connection=client)
    ((_, detail),) = statuses(reply)
    missing, denied = detail.split("; ")
    names = missing.removeprefix("Internal topics are missing: ").partition(" and ")[0]
    assert denied == f"Unauthorized to CREATE on topics {names}{more}."
    harness.close()


@pytest.mark.parametrize("role", ["viewer", "admin"])
async def test_topics_that_a_client_may_not_create_are_looked_up_one_by_one(tmp_path, role):
    harness = Harness(tmp_path, f"wire.role={role}")
    context = RequestContext()
    context.api_key, context.connection = ApiKey.STREAMS_GROUP_HEARTBEAT, Connection()
    names = [f"__weir_{number}" for number in range(500)]
    steps = a88_streams_group_heartbeat._denied(names, context, harness.services[GroupServices])
    assert sum(1 for _ in steps) == len(names)
    harness.close()


async def test_a_heartbeat_does_not_pause_between_its_records_and_their_commit(harness):
    """In between, others of the group would be handled, and a client that goes away would leave them."""
    message = joining(topology=topology(state_changelog_topics=changelogs(40)))
    context = RequestContext()
    context.api_key, context.api_version = ApiKey.STREAMS_GROUP_HEARTBEAT, 1
    context.connection, context.client_id, context.correlation_id = Connection(), "streams", 7
    context.exempt, context.size = False, 1_000
    context.now_ms, context.wall_ms = harness.now
    steps = a88_streams_group_heartbeat.handle(message, context, harness.services[GroupServices])
    staged = harness.groups.write
    written: list[object] = []

    def write(*arguments: Any) -> Any:
        written.append(arguments)
        return staged(*arguments)

    harness.groups.write = write
    pauses = sum(1 for _ in takewhile(lambda _: not written, steps))
    assert len(written) == 1 and pauses > 40
    assert next(steps, "the end") == "the end"


@pytest.mark.parametrize(("names", "is_whole"), [(1, True), (300, False)])
async def test_a_refusal_that_names_topics_is_cut_to_what_java_reads(harness, names, is_whole):
    bad = [f"{'x' * 240}!{each}" for each in range(names)]
    reply = await harness.ask(joining(topology=Topology(0, [Subtopology("0", bad)])))
    assert reply.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert len(reply.error_message.encode()) <= 32_767
    assert reply.error_message.endswith("are not valid topic names." if is_whole else "...")


@pytest.mark.parametrize(("more", "is_whole"), [(-1, True), (0, True), (1, False)])
def test_a_text_is_cut_to_the_bytes_that_java_reads(more, is_whole):
    text = "é" * 16_383 + "x" * (1 + more)
    cut = a88_streams_group_heartbeat._cut(text)
    assert (cut == text) is is_whole
    assert len(cut.encode()) <= 32_767 and cut.endswith("..." if not is_whole else text[-1])


@pytest.mark.parametrize(("more", "error"), [(-1, ErrorCode.STREAMS_INVALID_TOPOLOGY), (0, 0), (1, 0)])
async def test_a_topology_fits_into_a_record(harness, monkeypatch, more, error):
    reads = Topology(0, [Subtopology("0", ["orders"])])
    size = run_through(size_of(topologies.Topology(0, (topologies.Subtopology("0", ("orders",)),))))
    monkeypatch.setattr(a88_streams_group_heartbeat, "MOST_TOPOLOGY_BYTES", size + more)
    assert (await harness.ask(joining(topology=reads))).error_code == error
