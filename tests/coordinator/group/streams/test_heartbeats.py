"""StreamsGroupHeartbeat: joining, topologies, statuses, fencing, leaving, and what is refused."""

import pytest
from msgspec.structs import replace

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.streams_groups import StreamsGroupConfig
from broker.coordinator.group.messages import Endpoint
from broker.coordinator.group.streams import heartbeat
from broker.coordinator.group.streams.assignor import NOTHING
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from tests.coordinator.group.streams.streamers import (
    COUNTS,
    DELAY_MS,
    SESSION_MS,
    Streamers,
    Thread,
    settle,
    tasks,
)

ALL = {"0": {0, 1, 2, 3}}
ERRORS = ErrorCode


def codes(reply):
    return [status.code for status in reply.statuses]


def test_the_first_member_runs_every_task(talk):
    reply = talk.enter("a")
    assert (reply.error, reply.member_id, reply.epoch) == (ErrorCode.NONE, "a", 2)
    assert (reply.interval_ms, reply.task_offset_interval_ms, reply.recovery_lag) == (5_000, 60_000, 10_000)
    assert reply.tasks == tasks(ALL)
    assert (reply.statuses, reply.creates) == ((), {})
    assert talk.described().state == "Stable"


def test_a_member_without_changes_is_not_told_its_tasks_again(talk):
    talk.enter("a")
    before = len(talk.records)
    reply = talk.beat("a", 2)
    assert (reply.epoch, reply.tasks, reply.statuses) == (2, None, ())
    assert len(talk.records) == before


def test_a_heartbeat_after_a_lost_response_is_accepted_with_the_epoch_before(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    a.act()
    b.enter()
    assert a.beat().epoch == 2  # it revokes
    a.act()
    assert talk.beat("a", 2, owned=a.running).epoch == 3
    # It has not learnt epoch 3: it states epoch 2 and no task that it does not have.
    assert talk.beat("a", 2, owned=a.running).epoch == 3
    for owned in (None, tasks(ALL), tasks({"1": {0}}), tasks({}, {"0": {0}})):
        reply = talk.beat("a", 2, owned=owned)
        assert reply.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert reply.message == (
        "The streams group member has a smaller member epoch (2) than the one known by the group coordinator "
        "(3). The member must abandon all its partitions and rejoin."
    )


@pytest.mark.parametrize(
    ("epoch", "error"), [(1, ERRORS.FENCED_MEMBER_EPOCH), (2, ERRORS.NONE), (3, ERRORS.FENCED_MEMBER_EPOCH)]
)
def test_a_member_states_its_epoch(talk, epoch, error):
    talk.enter("a")
    assert talk.beat("a", epoch).error is error


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "ActiveTasks must be empty when (re-)joining."),
        ({"owned": tasks({"0": {0}})}, "ActiveTasks must be empty when (re-)joining."),
        ({"owned": tasks({}, {"0": {0}})}, "StandbyTasks must be empty when (re-)joining."),
        ({"owned": tasks({}, {}, {"0": {0}})}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
    ],
)
def test_an_invalid_join_is_refused(talk, fields, message):
    member_id = fields.pop("member_id", "a")
    reply = talk.enter(member_id, "p", **fields)
    assert (reply.error, reply.message) == (ErrorCode.INVALID_REQUEST, message)
    assert not talk.coordinator.groups.by_id


@pytest.mark.parametrize(
    ("epoch", "fields", "message"),
    [
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (2, {"topology": COUNTS}, "Topology can only be provided when (re-)joining."),
        (2, {"owned": tasks({"9": {0}})}, "Subtopology 9 does not exist in the topology."),
        (
            2,
            {"owned": tasks({}, {"0": {3, 4}})},
            "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        ),
        (
            2,
            {"owned": tasks({}, {}, {"0": {-1}})},
            "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 4",
        ),
    ],
)
def test_an_invalid_heartbeat_is_refused(talk, epoch, fields, message):
    talk.enter("a")
    before = talk.snapshot()
    reply = talk.beat("a", epoch, **fields)
    assert (reply.error, reply.message) == (ErrorCode.INVALID_REQUEST, message)
    assert talk.snapshot() == before
    assert talk.last.records == []


@pytest.mark.parametrize(
    ("epoch", "message"), [(1, "Streams group g not found."), (-1, "Group g not found.")]
)
def test_a_missing_group_is_an_error(talk, epoch, message):
    reply = talk.beat("a", epoch)
    assert (reply.error, reply.message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


@pytest.mark.parametrize("epoch", [1, -1])
def test_a_missing_member_is_an_error(talk, epoch):
    talk.enter("a")
    reply = talk.beat("b", epoch)
    assert (reply.error, reply.message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member b is not a member of group g.",
    )


# The size of a group


def test_a_full_group_refuses_a_new_member():
    talk = Streamers(streams=StreamsGroupConfig(max_size=2, initial_delay_ms=0, assignment_interval_ms=0))
    talk.enter("a")
    assert talk.enter("b", instance_id="i").error is ErrorCode.NONE
    reply = talk.enter("c")
    assert (reply.error, reply.message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 2 members.",
    )
    assert talk.enter("a").error is ErrorCode.NONE
    talk.beat("b", -2, instance_id="i")
    assert talk.enter("d", instance_id="i").error is ErrorCode.NONE
    talk.beat("a", -1)
    assert talk.enter("c").error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("more", "error"), [(-1, ERRORS.NONE), (0, ERRORS.NONE), (1, ERRORS.GROUP_MAX_SIZE_REACHED)]
)
def test_the_bytes_of_a_group_are_limited(more, error):
    talk = Streamers(max_group_bytes=100)
    talk.enter("a", "p")
    left = 100 - talk.group().size - len("b") - len("client") - len("/10.0.0.1")
    assert talk.enter("b", "p" * (left + more)).error is error


# Topologies


def test_a_second_topology_is_refused(talk):
    talk.enter("a")
    other = replace(COUNTS, subtopologies=(replace(COUNTS.subtopologies[0], source_topics=("u",)),))
    for topology in (other, replace(COUNTS, epoch=1)):
        reply = talk.enter("b", topology=topology)
        assert (reply.error, reply.message) == (
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet.",
        )
    assert set(talk.group().members) == {"a"}


def test_the_order_of_the_subtopologies_does_not_matter(talk):
    both = (Subtopology("0", ("t",)), Subtopology("1", ("t",)))
    talk.enter("a", topology=Topology(0, both))
    assert talk.enter("b", topology=Topology(0, both[::-1])).error is ErrorCode.NONE


def test_a_member_with_an_earlier_topology_is_told_so(talk):
    talk.enter("a", topology=replace(COUNTS, epoch=3))
    stale = Topology(2, (Subtopology("x", ("u",)),))
    expected = Status(
        StatusCode.STALE_TOPOLOGY, "The member's topology epoch 2 is behind the group's topology epoch 3."
    )
    assert talk.enter("b", topology=stale).statuses == (expected,)
    assert talk.beat("b", talk.group().members["b"].epoch).statuses == (expected,)
    assert talk.described().topology.epoch == 3


def test_missing_source_topics_leave_the_group_without_tasks(talk):
    talk.set_topics()
    reply = talk.enter("a")
    assert reply.statuses == (Status(StatusCode.MISSING_SOURCE_TOPICS, "Source topics t are missing."),)
    assert (reply.epoch, reply.tasks, reply.creates) == (2, NOTHING, {})
    assert talk.described().state == "NotReady"
    assert talk.described().configured is None
    # Tasks are not checked as long as there are none.
    assert talk.beat("a", 2, owned=tasks({"9": {9}})).error is ErrorCode.NONE


def test_missing_internal_topics_are_to_be_created(talk):
    talk.set_topics(t=3)
    reply = talk.enter("a")
    assert codes(reply) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert reply.creates == {"app-counts-changelog": TopicInfo("app-counts-changelog", 3)}
    assert talk.described().state == "NotReady"
    before = len(talk.records)
    assert talk.beat("a", 2).creates == reply.creates
    assert len(talk.records) == before
    talk.set_topics(**{"t": 3, "app-counts-changelog": 3})
    reply = talk.beat("a", 2)
    assert (reply.epoch, reply.tasks, reply.creates) == (3, tasks({"0": {0, 1, 2}}), {})
    assert talk.described().state == "Stable"
    assert talk.group().validated_epoch == 0


def test_wrong_internal_topics_leave_the_group_without_tasks(talk):
    talk.set_topics(**{"t": 4, "app-counts-changelog": 3})
    reply = talk.enter("a")
    assert codes(reply) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]
    assert talk.described().state == "NotReady"


def test_a_topic_that_grows_begins_an_epoch(talk):
    talk.enter("a")
    talk.set_topics(**{"t": 5, "app-counts-changelog": 5})
    reply = talk.beat("a", 2, owned=tasks(ALL))
    assert (reply.epoch, reply.tasks) == (3, tasks({"0": {0, 1, 2, 3, 4}}))


def test_a_topic_that_is_deleted_takes_the_tasks(talk):
    a = Thread(talk, "a")
    a.enter()
    a.act()
    talk.set_topics(other=1)
    assert codes(a.beat()) == [StatusCode.MISSING_SOURCE_TOPICS]
    settle(a)
    assert a.running == NOTHING
    assert talk.described().state == "NotReady"


def test_topics_of_others_change_nothing(talk):
    talk.enter("a")
    before = talk.snapshot()
    talk.set_topics(**{"t": 4, "app-counts-changelog": 4, "other": 1})
    talk.beat("a", 2)
    assert talk.snapshot() == before
    assert talk.last.records == []
    assert talk.group().known_topics is talk.topics.by_name


# What members state


@pytest.mark.parametrize(
    ("fields", "bumps"),
    [
        ({"rack_id": "r"}, True),
        ({"process_id": "q"}, True),
        ({"client_tags": {"zone": "z"}}, True),
        ({"endpoint": Endpoint("h", 1)}, True),
        ({"rebalance_timeout_ms": 1}, True),
        ({"client_id": "other"}, True),
        ({"process_id": "process-a", "client_tags": {}}, False),
    ],
)
def test_a_member_that_states_something_else_begins_an_epoch(talk, fields, bumps):
    talk.enter("a")
    talk.beat("a", 2, owned=tasks(ALL), **fields)
    assert talk.group().epoch == (3 if bumps else 2)
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.parametrize(
    ("fields", "bumps"),
    [
        ({"rack_id": "r"}, True),
        ({"process_id": "q"}, True),
        ({"client_tags": {"z": "1"}}, True),
        ({"client_id": "o"}, False),
        ({"rebalance_timeout_ms": 1}, False),
    ],
)
def test_a_static_member_begins_an_epoch_only_with_what_the_assignment_depends_on(talk, fields, bumps):
    talk.enter("a", instance_id="i")
    epoch = talk.group().epoch
    talk.beat("a", epoch, instance_id="i", owned=tasks(ALL), **fields)
    assert talk.group().epoch == epoch + bumps
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_setting_that_the_assignment_depends_on_begins_an_epoch(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    talk.group_configs["g"] = {"streams.num.standby.replicas": "1"}
    settle(a, b)
    assert a.running == tasks({"0": {0, 1}}, {"0": {2, 3}})
    assert b.running == tasks({"0": {2, 3}}, {"0": {0, 1}})
    assert talk.group().configs == (("num.standby.replicas", "1"),)
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.parametrize(
    ("tags", "knows", "missing"),
    [
        ({}, True, "zone, rack"),
        ({"zone": "1"}, True, "rack"),
        ({"zone": "1", "rack": "2"}, True, None),
        ({}, False, None),
    ],
)
def test_missing_client_tags_are_told(talk, tags, knows, missing):
    talk.group_configs["g"] = {"streams.rack.aware.assignment.tags": "zone,rack"}
    reply = talk.enter("a", client_tags=tags, knows_missing_tags=knows)
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{missing}]. Configure them via "
        "'client.tag.<tagKey>' in your Streams config."
    )
    expected = Status(StatusCode.MISSING_CLIENT_TAGS, detail)
    assert reply.statuses == ((expected,) if missing else ())


def test_restored_offsets_are_kept_of_tasks_that_exist(talk):
    talk.enter("a", task_offsets={"0": {0: 5, 3: 6, 4: 7, -1: 8}, "9": {0: 1}})
    assert talk.group().offsets_of("a").offsets == {"0": {0: 5, 3: 6}}
    talk.beat("a", 2, task_end_offsets={"0": {0: 9}})
    assert talk.described().offsets["a"] == ({"0": {0: 5, 3: 6}}, {"0": {0: 9}})
    talk.beat("a", -1)
    assert talk.described().offsets == {}


def test_a_member_with_the_state_of_a_task_receives_it(talk):
    talk.enter("a", task_offsets={"0": {3: 100, 2: 100}})
    b = Thread(talk, "b", task_offsets={"0": {0: 100, 1: 100}})
    b.enter()
    a = Thread(talk, "a")
    a.enter()
    a.act()
    settle(a, b)
    assert b.running.active == {"0": frozenset({2, 3})}  # sticky: a keeps the first of what it runs


# Endpoints


def test_members_learn_where_the_tasks_are(talk):
    a = Thread(talk, "a", endpoint=Endpoint("a", 1))
    reply = a.enter()
    assert reply.endpoint_epoch == 1
    assert reply.endpoints == [(Endpoint("a", 1), ((("t", (0, 1, 2, 3)),), ()))]
    a.act()
    assert talk.beat("a", 2, endpoint_epoch=1).endpoints is None
    b = Thread(talk, "b", endpoint=Endpoint("b", 2))
    b.enter()
    settle(a, b)
    epoch = talk.group().endpoint_epoch
    reply = talk.beat("b", b.epoch, endpoint_epoch=epoch - 1)
    assert reply.endpoint_epoch == epoch
    assert reply.endpoints == [
        (Endpoint("a", 1), ((("t", (0, 1)),), ())),
        (Endpoint("b", 2), ((("t", (2, 3)),), ())),
    ]


def test_members_without_endpoints_learn_nothing_new(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    assert talk.group().endpoint_epoch == 0
    assert talk.beat("a", a.epoch, endpoint_epoch=-1).endpoints == []


# Shutdown


def test_a_member_shuts_the_application_down(talk):
    talk.enter("a")
    talk.enter("b")
    reply = talk.beat("a", 2, shuts_down=True)
    expected = Status(
        StatusCode.SHUTDOWN_APPLICATION,
        "Streams group member a encountered a fatal error and requested a shutdown for the entire "
        "application.",
    )
    assert expected in reply.statuses
    assert expected in talk.beat("b", talk.group().members["b"].epoch, shuts_down=True).statuses
    talk.beat("a", -1)
    assert expected in talk.beat("b", talk.group().members["b"].epoch).statuses
    talk.beat("b", -1)
    assert talk.enter("c").statuses == ()


def test_a_member_that_leaves_shuts_the_application_down(talk):
    talk.enter("a")
    talk.enter("b")
    talk.beat("a", -1, shuts_down=True)
    assert codes(talk.beat("b", talk.group().members["b"].epoch)) == [StatusCode.SHUTDOWN_APPLICATION]


# Leaving, and static members


def test_the_tasks_of_a_member_that_leaves_go_to_others(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    reply = talk.beat("a", -1)
    assert (reply.error, reply.member_id, reply.epoch, reply.statuses) == (ErrorCode.NONE, "a", -1, ())
    settle(b)
    assert b.running == tasks(ALL)


def test_the_last_member_leaves_an_empty_group(talk):
    talk.enter("a")
    talk.beat("a", -1)
    group = talk.group()
    assert (group.state.value, group.epoch, group.target_epoch, group.assigned_wall_ms) == ("Empty", 3, 3, 0)
    assert talk.reborn().snapshot() == talk.snapshot()
    assert talk.enter("b").epoch == 4


@pytest.mark.parametrize("expires", [True, False])
def test_an_empty_group_keeps_only_what_cannot_be_made_again(talk, expires):
    talk.enter("a", endpoint=Endpoint("a", 1), endpoint_epoch=-1)
    before = talk.described()
    if expires:
        talk.wait(SESSION_MS)
    else:
        talk.beat("a", -1)
    group = talk.group()
    assert (group.configured, group.known_topics, group.endpoints) == (None, None, {})
    after = talk.described()
    assert (after.state, after.topology, after.status) == ("Empty", COUNTS, None)
    assert after.configured.subtopologies == before.configured.subtopologies
    assert group.configured is None
    facts = group.metadata_hash, group.validated_epoch
    assert talk.enter("b").epoch == 4
    assert (group.metadata_hash, group.validated_epoch) == facts
    assert group.configured.subtopologies == before.configured.subtopologies


def test_an_empty_group_is_described_with_the_topics_that_there_are(talk):
    talk.enter("a")
    talk.beat("a", -1)
    talk.set_topics(t=4)
    described = talk.described()
    assert (described.configured, described.status.code) == (None, StatusCode.MISSING_INTERNAL_TOPICS)
    talk.set_topics(t=5, **{"app-counts-changelog": 5})
    assert talk.described().configured.subtopologies["0"].number_of_tasks == 5


def test_a_static_member_comes_back_to_its_tasks(talk):
    a, b = Thread(talk, "a", instance_id="i"), Thread(talk, "b")
    a.enter()
    b.enter()
    for each in (a, b):
        each.fields = {}
    for _ in range(4):
        a.act()
        a._learn(talk.beat("a", a.epoch, owned=a.running, instance_id="i"))
        b.act()
        b.beat()
    held, epoch = a.running, talk.group().epoch
    reply = talk.beat("a", -2, instance_id="i")
    assert (reply.error, reply.member_id, reply.epoch) == (ErrorCode.NONE, "a", -2)
    assert talk.group().epoch == epoch
    assert talk.described().state == "Reconciling"
    reply = talk.enter("c", "process-a", instance_id="i")
    assert (reply.error, reply.tasks) == (ErrorCode.NONE, held)
    assert talk.group().epoch == epoch
    assert set(talk.group().members) == {"b", "c"}
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_static_member_that_does_not_come_back_is_removed(talk):
    talk.enter("a", instance_id="i")
    talk.beat("a", -2, instance_id="i")
    talk.wait(SESSION_MS - 1)
    assert set(talk.group().members) == {"a"}
    talk.wait(1)
    assert not talk.group().members
    assert not talk.group().static_ids


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance", "error", "message"),
    [
        (
            "b",
            0,
            "i",
            ERRORS.UNRELEASED_INSTANCE_ID,
            "Static member b with instance id i cannot join the group because the instance id is owned by a "
            "member.",
        ),
        (
            "b",
            2,
            "i",
            ERRORS.FENCED_INSTANCE_ID,
            "Static member b with instance id i was fenced by member a.",
        ),
        (
            "b",
            -1,
            "i",
            ERRORS.FENCED_INSTANCE_ID,
            "Static member b with instance id i was fenced by member a.",
        ),
        ("a", 2, "j", ERRORS.UNKNOWN_MEMBER_ID, "Instance id j is unknown."),
        ("a", -2, "j", ERRORS.UNKNOWN_MEMBER_ID, "Instance id j is unknown."),
    ],
)
def test_static_members_are_fenced(talk, member_id, epoch, instance, error, message):
    talk.enter("a", instance_id="i")
    before = talk.snapshot()
    send = talk.beat if epoch else lambda member_id, _epoch, **fields: talk.enter(member_id, **fields)
    reply = send(member_id, epoch, instance_id=instance)
    assert (reply.error, reply.message) == (error, message)
    assert talk.snapshot() == before


# Delays


def test_the_first_assignment_waits_for_more_members():
    talk = Streamers(streams=StreamsGroupConfig())
    reply = talk.enter("a")
    delayed = Status(
        StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay."
    )
    assert (reply.epoch, reply.tasks, reply.statuses) == (1, NOTHING, (delayed,))
    talk.wait(DELAY_MS - 1)
    assert talk.enter("b").statuses == (delayed,)
    assert talk.described().state == "Assigning"
    assert talk.group().targets == {}
    talk.wait(1)
    assert {each: len(target.active["0"]) for each, target in talk.group().targets.items()} == {
        "a": 2,
        "b": 2,
    }
    assert talk.reborn().snapshot() == talk.snapshot()
    assert talk.beat("a", 1).epoch == 3
    assert talk.beat("b", 1).epoch == 3
    assert talk.described().state == "Stable"


@pytest.mark.parametrize(("delay_ms", "epoch"), [(0, 2), (1, 1)])
def test_a_group_can_have_its_own_delay(delay_ms, epoch):
    talk = Streamers(streams=StreamsGroupConfig(assignment_interval_ms=0))
    talk.group_configs["g"] = {"streams.initial.rebalance.delay.ms": str(delay_ms)}
    assert talk.enter("a").epoch == epoch


def test_a_group_that_is_empty_again_waits_again():
    talk = Streamers(streams=StreamsGroupConfig())
    talk.enter("a")
    talk.wait(DELAY_MS)
    talk.beat("a", -1)
    assert codes(talk.enter("b")) == [StatusCode.ASSIGNMENT_DELAYED]


def test_a_group_whose_members_leave_meanwhile_is_not_assigned():
    talk = Streamers(streams=StreamsGroupConfig())
    talk.enter("a")
    talk.beat("a", -1)
    before = len(talk.records)
    talk.wait(DELAY_MS)
    assert len(talk.records) == before
    assert not talk.group().is_delayed


def test_a_restart_ends_the_delay():
    talk = Streamers(streams=StreamsGroupConfig())
    talk.enter("a")
    assert talk.reborn().beat("a", 1).epoch == 2


def test_a_failed_write_of_the_delayed_assignment_is_tried_again():
    talk = Streamers(streams=StreamsGroupConfig())
    talk.enter("a")
    before = talk.snapshot()
    talk.wait(DELAY_MS)
    talk.fail(talk.last)
    assert talk.snapshot() == before
    talk.wait(DELAY_MS)
    assert talk.group().target_epoch == 2


@pytest.mark.parametrize(("ms", "waits"), [(0, True), (999, True), (1_000, False), (1_001, False)])
def test_two_assignments_have_an_interval(ms, waits):
    talk = Streamers(streams=StreamsGroupConfig(initial_delay_ms=0))
    talk.enter("a")
    talk.wait(ms)
    reply = talk.enter("b")
    delayed = Status(
        StatusCode.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval."
    )
    assert reply.statuses == ((delayed,) if waits else ())
    assert reply.epoch == (2 if waits else 3)
    talk.wait(1_000 - ms if waits else 0)
    assert talk.beat("b", reply.epoch).epoch == 3


@pytest.mark.parametrize("fails", [True, False])
def test_topics_that_grew_are_assigned_after_a_heartbeat_that_was_refused_or_not_written(talk, fails):
    a = Thread(talk, "a")
    a.enter()
    settle(a)
    talk.set_topics(**{"t": 8, "app-counts-changelog": 8})
    if fails:
        _, steps = talk.begin("a", a.epoch, owned=a.running)
        talk.coordinator.roll_back(run_through(steps), ErrorCode.KAFKA_STORAGE_ERROR, talk.now)
    else:
        assert talk.beat("a", a.epoch, owned=tasks({"0": {99}})).error
    settle(a)
    assert a.running.active == {"0": frozenset(range(8))}


@pytest.mark.parametrize(("more", "is_kept"), [(-1, True), (0, True), (1, False)])
def test_a_group_keeps_as_many_offsets(talk, monkeypatch, more, is_kept):
    """Of its two members each may state half of them."""
    monkeypatch.setattr(heartbeat, "MOST_OFFSETS", 4 - more)
    talk.enter("a")
    talk.enter("b")
    talk.beat("b", 3, task_offsets={"0": {0: 1, 3: 2}})
    assert talk.group().offsets_of("b").offsets == ({"0": {0: 1, 3: 2}} if is_kept else {})
