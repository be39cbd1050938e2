"""The console's rows of streams groups, from a real coordinator."""

from types import SimpleNamespace
from typing import Any

from broker.common.slices import run_through
from broker.config.sections.streams_groups import StreamsGroupConfig
from broker.controller.rows.streams_groups import InternalTopicRow, MemberTaskRow, StatusRow
from broker.controller.rows.topics import MemberRow
from broker.coordinator.group.streams.coordinator import DescribedStreamsGroup
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from broker.views.streams_groups import streams_group, streams_members
from tests.coordinator.group.streams.streamers import COUNTS, Streamers, Thread, settle, tasks

NO_TOPICS: Any = SimpleNamespace(by_name={})
FOUR: Any = SimpleNamespace(by_name={"t": SimpleNamespace(count=4)})


def with_standbys() -> Streamers:
    return Streamers(
        streams=StreamsGroupConfig(initial_delay_ms=0, assignment_interval_ms=0, num_standby_replicas=1)
    )


def members(described: DescribedStreamsGroup, partitions: Any = NO_TOPICS) -> dict[str, MemberRow]:
    return {each.member_id: each for each in run_through(streams_members(described, partitions))}


def roles(row: MemberRow) -> list[tuple[int, str | None, str | None]]:
    assert row.streams is not None
    return [(each.partition, each.role, each.target) for each in row.streams.tasks]


def test_a_member_has_its_tasks_with_their_copies() -> None:
    talk = with_standbys()
    threads = [Thread(talk, "a"), Thread(talk, "b")]
    for each in threads:
        each.enter()
    settle(*threads)
    found = members(talk.described(), FOUR)
    for row in found.values():
        assert sorted(role for _, role, _ in roles(row) if role) == ["active"] * 2 + ["standby"] * 2
        assert all(role == target for _, role, target in roles(row))
        active = tuple(("t", index) for index, role, _ in roles(row) if role == "active")
        assert row.assigned == active
    assert {index for index, role, _ in roles(found["a"]) if role == "standby"} == {
        index for index, role, _ in roles(found["b"]) if role == "active"
    }


def test_a_task_that_a_member_gives_up_has_its_old_role_and_one_that_it_waits_for_has_none() -> None:
    talk = Streamers()
    first, second = Thread(talk, "a"), Thread(talk, "b")
    first.enter()
    settle(first)
    second.enter()
    first.beat()
    found = members(talk.described())
    assert [each[1:] for each in roles(found["a"])].count(("active", None)) == 2
    assert [each[1:] for each in roles(found["b"])] == [(None, "active")] * 2


def test_an_active_task_that_becomes_a_copy_is_one_task() -> None:
    talk = with_standbys()
    first, second = Thread(talk, "a"), Thread(talk, "b")
    first.enter()
    settle(first)
    second.enter()
    first.beat()
    turned = [each for each in roles(members(talk.described())["a"]) if each[1] != each[2]]
    assert [each[1:] for each in turned] == [("active", "standby")] * 2


def test_reported_offsets_are_those_of_the_task() -> None:
    talk = Streamers()
    joined = talk.enter("a")
    offsets = {"task_offsets": {"0": {1: 5}}, "task_end_offsets": {"0": {1: 9, 2: 7}}}
    talk.beat("a", joined.epoch, owned=tasks(), **offsets)
    row = members(talk.described())["a"].streams
    assert row is not None
    assert row.tasks[1:3] == (
        MemberTaskRow("0", 1, "active", "active", 5, 9),
        MemberTaskRow("0", 2, "active", "active", None, 7),
    )


def test_numbers_of_subtopologies_are_in_order() -> None:
    talk = Streamers()
    names = [str(number) for number in (10, 2, 0)]
    talk.set_topics(**{f"t{name}": 1 for name in names})
    topology = Topology(0, tuple(Subtopology(name, (f"t{name}",)) for name in names))
    talk.enter("a", topology=topology)
    row = run_through(streams_group(talk.described()))
    assert row.topology is not None
    assert [each.subtopology_id for each in row.topology.subtopologies] == ["0", "2", "10"]
    assert [each.tasks for each in row.topology.subtopologies] == [1, 1, 1]


def test_the_counts_of_a_topology_that_does_not_suit_its_topics_are_those_that_it_states() -> None:
    talk = Streamers()
    talk.set_topics()
    states = Subtopology("0", ("t",), repartition_source_topics=(TopicInfo("r", 3), TopicInfo("s")))
    talk.enter("a", topology=Topology(0, (states,)))
    row = run_through(streams_group(talk.described()))
    assert row.topology is not None
    (found,) = row.topology.subtopologies
    assert found.tasks is None
    assert found.repartition_source_topics == (InternalTopicRow("r", 3), InternalTopicRow("s", None))
    assert row.status == StatusRow("MISSING_SOURCE_TOPICS", "Source topics t are missing.")


def test_a_missing_internal_topic_is_a_status_until_it_exists() -> None:
    talk = Streamers()
    talk.set_topics(t=4)
    talk.enter("a", topology=COUNTS)
    row = run_through(streams_group(talk.described()))
    assert row.status is not None and row.status.code == "MISSING_INTERNAL_TOPICS"
    talk.set_topics(**{"t": 4, "app-counts-changelog": 4})
    talk.beat("a", 2, owned=tasks())
    assert run_through(streams_group(talk.described())).status is None


def test_a_group_that_no_member_has_described_has_no_topology() -> None:
    talk = Streamers()
    talk.enter("a")
    talk.group().set_topology(None)
    row = run_through(streams_group(talk.described()))
    assert row.topology is None and row.status is None
    assert members(talk.described())["a"].assigned == ()


def test_many_tasks_are_told_in_pieces() -> None:
    talk = Streamers()
    talk.set_topics(t=2_048)
    talk.enter("a", topology=Topology(0, (Subtopology("0", ("t",)),)))
    assert sum(1 for _ in streams_members(talk.described(), NO_TOPICS)) >= 3 * 2_048


def test_many_subtopologies_are_told_in_pieces() -> None:
    talk = Streamers()
    count = 2_048
    talk.set_topics(**{f"t{number}": 1 for number in range(count)})
    topology = Topology(0, tuple(Subtopology(str(number), (f"t{number}",)) for number in range(count)))
    assert not talk.enter("a", topology=topology).error
    assert sum(1 for _ in streams_group(talk.described())) >= 3 * count
