"""The sticky assignor of streams groups: each rule by hand, and how long its steps are.

`test_against_kafka` compares it with Kafka's own classes.
"""

import time

import pytest

from broker.common.slices import run_through
from broker.coordinator.group.streams.assignor import NOTHING, TaskMember, TaskSets, assign
from broker.coordinator.group.streams.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    configure,
)
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.topology import (
    Subtopology,
    TopicInfo,
    Topology,
    check,
    required_topics,
    size_of,
)
from broker.server.interpreter import bounded_collections
from tests.coordinator.group.streams.random_cases import existing
from tests.support.holds import GOAL_MS
from tests.support.machine_speed import slowness


def topology(stateful=0, error=None, **stateless):
    """A stateful subtopology "0" of so many tasks, and stateless ones by id ("s1" and so on)."""
    subtopologies = {"0": ConfiguredSubtopology(stateful, state_changelog_topics={"c": TopicInfo("c")})}
    subtopologies = subtopologies if stateful else {}
    subtopologies |= {each: ConfiguredSubtopology(count) for each, count in stateless.items()}
    return ConfiguredTopology(0, 0, subtopologies, error=error)


def member(process="p", active=(), standby=(), offsets=None, of="0", **others):
    """A member with tasks and reported offsets of subtopology `of`."""
    return TaskMember(
        "m",
        process_id=process,
        assigned=TaskSets(
            {of: frozenset(active)} if active else {}, {of: frozenset(standby)} if standby else {}
        ),
        task_offsets={of: offsets} if offsets else {},
        **others,
    )


def assigned(of, standbys=0, **members):
    found = run_through(assign(members, of, standbys))
    assert list(found) == list(members)
    assert not any(each.warmup for each in found.values())
    return found


def active(of, standbys=0, *, subtopology="0", **members):
    """The active tasks of one subtopology by member."""
    found = assigned(of, standbys, **members)
    return {each: sorted(sets.active.get(subtopology, ())) for each, sets in found.items()}


def standby(of, standbys=1, **members):
    found = assigned(of, standbys, **members)
    return {each: sorted(sets.standby.get("0", ())) for each, sets in found.items()}


def test_nothing_is_assigned_without_members_or_tasks():
    assert assigned(topology(stateful=3)) == {}
    assert assigned(topology(), a=member()) == {"a": NOTHING}


def test_nothing_is_assigned_while_the_topology_is_not_ready():
    missing = Status(StatusCode.MISSING_INTERNAL_TOPICS, "")
    assert assigned(topology(stateful=3, error=missing), a=member()) == {"a": NOTHING}
    assert assigned(ConfiguredTopology(0, 0, None, error=missing), a=member()) == {"a": NOTHING}


def test_one_member_has_all_tasks_and_no_standby():
    found = assigned(topology(stateful=2, s=1), standbys=1, a=member())
    assert found == {"a": TaskSets({"0": frozenset({0, 1}), "s": frozenset({0})})}


def test_new_tasks_are_dealt_out_in_order():
    assert active(topology(stateful=5), a=member("p"), b=member("q")) == {"a": [0, 2, 4], "b": [1, 3]}


def test_a_process_with_more_members_has_more_tasks():
    members = {"a": member("p"), "b": member("q"), "c": member("q")}
    assert active(topology(stateful=6), **members) == {"a": [0, 3], "b": [1, 4], "c": [2, 5]}


def test_a_member_keeps_its_tasks():
    members = {"a": member("p", active=[1, 3]), "b": member("q", active=[0, 2])}
    assert active(topology(stateful=4), **members) == {"a": [1, 3], "b": [0, 2]}


def test_a_member_keeps_its_tasks_up_to_its_share():
    members = {"a": member("p", active=range(4)), "b": member("q")}
    assert active(topology(stateful=4), **members) == {"a": [0, 1], "b": [2, 3]}
    assert active(topology(stateful=5), **members) == {"a": [0, 1, 2], "b": [3, 4]}


def test_the_share_shrinks_when_a_member_has_reached_it():
    members = {"a": member("p", active=[0, 1, 2]), "b": member("q", active=[3, 4]), "c": member("r")}
    # Five tasks for three are two each; when "a" and "b" have two, one is left for "c".
    assert active(topology(stateful=5), **members) == {"a": [0, 1], "b": [3, 4], "c": [2]}


def test_tasks_of_a_lost_member_go_to_the_others():
    members = {"a": member("p", active=[0, 1]), "b": member("q", active=[4])}
    assert active(topology(stateful=6), **members) == {"a": [0, 1, 3], "b": [2, 4, 5]}


def test_tasks_that_do_not_exist_are_ignored():
    members = {"a": member("p", active=[0, 2, 7], standby=[9], offsets={8: 1})}
    members["b"] = member("q", active=[0], of="gone", standby=[1], offsets={1: 1})
    assert active(topology(stateful=2), **members) == {"a": [0], "b": [1]}


def test_of_two_members_with_a_task_the_later_one_in_javas_map_keeps_it():
    assert active(topology(stateful=2), b=member("q", active=[0]), a=member("p", active=[0])) == {
        "b": [0],
        "a": [1],
    }


def test_a_task_goes_to_a_member_that_has_its_state():
    members = {"a": member("p"), "b": member("q", standby=[0])}
    assert active(topology(stateful=2), **members) == {"a": [1], "b": [0]}
    members = {"a": member("p"), "b": member("q", offsets={0: 1})}
    assert active(topology(stateful=2), **members) == {"a": [1], "b": [0]}


def test_a_standby_is_before_reported_offsets():
    members = {"a": member("p", offsets={0: 9}), "b": member("q", standby=[0])}
    assert active(topology(stateful=2), **members) == {"a": [1], "b": [0]}


@pytest.mark.parametrize(("of_a", "of_b", "owner"), [(5, 6, "b"), (6, 5, "a"), (5, 5, "a")])
def test_the_highest_offset_is_first(of_a, of_b, owner):
    members = {"a": member("p", offsets={0: of_a}), "b": member("q", offsets={0: of_b})}
    assert active(topology(stateful=2), **members)[owner] == [0]


@pytest.mark.parametrize(("of_a", "of_b", "owner"), [(5, 6, "b"), (6, 5, "a"), (None, 5, "b")])
def test_the_standby_with_the_highest_offset_is_first(of_a, of_b, owner):
    members = {
        "a": member("p", standby=[0], offsets=None if of_a is None else {0: of_a}),
        "b": member("q", standby=[0], offsets={0: of_b}),
    }
    assert active(topology(stateful=2), **members)[owner] == [0]


def test_of_members_with_the_state_one_with_less_load_is_first():
    members = {"a": member("p", active=[0], standby=[1]), "b": member("q", standby=[1])}
    assert active(topology(stateful=2), **members) == {"a": [0], "b": [1]}


# Standbys


def test_a_standby_is_in_another_process():
    members = {"a": member("p"), "b": member("p"), "c": member("q")}
    tasks = topology(stateful=3)
    assert active(tasks, 1, **members) == {"a": [0], "b": [2], "c": [1]}
    assert standby(tasks, **members) == {"a": [1], "b": [], "c": [0, 2]}


def test_only_tasks_with_state_have_standbys():
    found = assigned(topology(stateful=1, s=4), 1, a=member("p"), b=member("q"))
    assert [dict(each.standby) for each in found.values()] == [{}, {"0": frozenset({0})}]


@pytest.mark.parametrize(("wanted", "count"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_there_are_as_many_standbys_as_processes_allow(wanted, count):
    members = {"a": member("p"), "b": member("q"), "c": member("r")}
    found = standby(topology(stateful=1), wanted, **members)
    assert sum(map(len, found.values())) == count


def test_standbys_stay():
    members = {
        "a": member("p", active=[0], standby=[1]),
        "b": member("q", active=[1], standby=[2]),
        "c": member("r", active=[2], standby=[0]),
    }
    assert standby(topology(stateful=3), **members) == {"a": [1], "b": [2], "c": [0]}


def test_a_member_that_must_give_up_a_task_becomes_its_standby():
    members = {"a": member("p", active=[0, 1]), "b": member("q", standby=[1])}
    assert standby(topology(stateful=2), **members) == {"a": [1], "b": [0]}


def test_a_member_with_reported_offsets_becomes_the_standby():
    members = {
        "a": member("p", active=[0]),
        "b": member("q", active=[1]),
        "c": member("r", active=[2], offsets={1: 5}),
    }
    assert standby(topology(stateful=3), **members)["c"] == [1]


def test_standbys_go_to_the_process_with_the_least_load():
    members = {"a": member("p", active=[0]), "b": member("q", active=[1]), "c": member("r")}
    found = assigned(topology(stateful=2), 1, **members)
    assert {each: len(sets.standby.get("0", ())) for each, sets in found.items()} == {"a": 0, "b": 0, "c": 2}


def test_racks_tags_and_end_offsets_change_nothing():
    plain = {"a": member("p", active=[0, 1, 2]), "b": member("q", standby=[3])}
    tagged = {
        "a": member("p", active=[0, 1, 2], rack_id="r", client_tags={"zone": "1"}, instance_id="i"),
        "b": member("q", standby=[3], client_tags={"zone": "1"}, task_end_offsets={"0": {0: 9}}),
    }
    assert assigned(topology(stateful=5), 1, **plain) == assigned(topology(stateful=5), 1, **tagged)


# Steps


def longest_step_ms(steps):
    """Return the longest step and the sum of all in milliseconds of the thread, and the result."""
    longest_ms = sum_ms = 0.0
    while True:
        began = time.thread_time()
        try:
            next(steps)
        except StopIteration as end:
            return longest_ms, sum_ms, end.value
        finally:
            took_ms = (time.thread_time() - began) * 1e3
            longest_ms, sum_ms = max(longest_ms, took_ms), sum_ms + took_ms


def is_short(steps, limit_ms=GOAL_MS):
    with bounded_collections():
        longest_ms, _, result = longest_step_ms(steps)
    assert longest_ms < limit_ms or longest_ms < limit_ms * slowness()
    return result


TASKS = ConfiguredTopology(
    0,
    0,
    {
        str(each): ConfiguredSubtopology(1_000, state_changelog_topics={"c": TopicInfo("c")})
        for each in range(10)
    },
)


@pytest.mark.timed
@pytest.mark.parametrize("processes", [1, 100, 1_000])
def test_no_step_of_a_large_assignment_is_long(processes):
    members = {
        f"member-{at}": TaskMember(f"member-{at}", process_id=f"process-{at % processes}")
        for at in range(1_000)
    }
    found = is_short(assign(members, TASKS, 2))
    assert sum(len(each) for sets in found.values() for each in sets.active.values()) == 10_000
    left = {
        member_id: TaskMember(member_id, process_id=members[member_id].process_id, assigned=found[member_id])
        for member_id in list(members)[100:]
    }
    found = is_short(assign(left, TASKS, 2))
    assert sum(len(each) for sets in found.values() for each in sets.active.values()) == 10_000


@pytest.mark.timed
@pytest.mark.parametrize("shape", ["one subtopology", "a chain in reverse"])
def test_no_step_of_a_large_topology_is_long(shape):
    count = 10_000
    if shape == "one subtopology":
        names = [f"source-{at}" for at in range(count)]
        changelogs = tuple(TopicInfo(f"changelog-{at}") for at in range(count))
        stated = Topology(0, (Subtopology("0", tuple(names), (), changelogs),))
    else:
        names = ["source"]
        chain = [
            Subtopology(
                f"{count - at:05}",
                ("source",) if at == 0 else (),
                repartition_source_topics=(TopicInfo(f"r-{at}"),) if at else (),
                repartition_sink_topics=(f"r-{at + 1}",),
            )
            for at in range(count)
        ]
        stated = Topology(0, tuple(chain))
    topics = existing(dict.fromkeys(names, 3))
    is_short(check(stated))
    is_short(size_of(stated))
    assert len(is_short(required_topics(stated))) == (2 * count if len(names) > 1 else count)
    found = is_short(configure(stated, topics, 0))
    assert {each.number_of_tasks for each in found.subtopologies.values()} == {3}
    assert len(found.internal_topics_to_create) == (count if len(names) > 1 else count - 1)
