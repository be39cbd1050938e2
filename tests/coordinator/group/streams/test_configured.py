"""How many tasks and partitions a topology gets from the topics that exist, and why it may get none."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.streams import configured as configuration
from broker.coordinator.group.streams.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    configure,
    endpoint_partitions,
)
from broker.coordinator.group.streams.status import Status, StatusCode
from broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from tests.coordinator.group.streams.random_cases import existing


def configured(*subtopologies, **topics):
    """Configure with topics of so many partitions."""
    return run_through(configure(Topology(3, subtopologies), existing(topics), 7))


def refusal(*subtopologies, **topics):
    with pytest.raises(ApiError) as caught:
        configured(*subtopologies, **topics)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return caught.value.message


def reads(subtopology_id, *sources, changelogs=(), sinks=(), repartition=(), groups=()):
    """`repartition` are names, or infos."""
    return Subtopology(
        subtopology_id,
        sources,
        (),
        tuple(map(TopicInfo, changelogs)),
        sinks,
        tuple(each if isinstance(each, TopicInfo) else TopicInfo(each) for each in repartition),
        groups,
    )


def tasks(topology):
    return {each: found.number_of_tasks for each, found in topology.subtopologies.items()}


def created(topology):
    return {name: topic.partitions for name, topic in topology.internal_topics_to_create.items()}


def test_a_topology_of_sources_alone_is_ready():
    assert configured(reads("0", "a"), a=2) == ConfiguredTopology(
        3, 7, {"0": ConfiguredSubtopology(2, ("a",))}
    )
    assert configured(reads("0", "a"), a=2).is_ready
    assert configured() == ConfiguredTopology(3, 7, {})


def test_the_source_with_the_most_partitions_decides_the_tasks():
    found = configured(reads("0", "a", "b", "a", changelogs=["c"]), a=2, b=5, c=5)
    assert tasks(found) == {"0": 5}
    assert found.subtopologies["0"].source_topics == ("a", "b")
    assert found.subtopologies["0"].state_changelog_topics == {"c": TopicInfo("c", 5)}
    assert found.subtopologies["0"].is_stateful


def test_subtopologies_are_in_order():
    assert list(tasks(configured(*(reads(each, "a") for each in ("2", "10", "1")), a=1))) == ["1", "10", "2"]


@pytest.mark.parametrize(
    ("missing", "shown"),
    [
        ("a", "a"),
        ("cba", "a, b, c"),
        ("dcba", "a, b, c and 1 additional topics"),
        ("edcba", "a, b, c and 2 additional topics"),
    ],
)
def test_missing_sources_are_named(missing, shown):
    found = configured(reads("0", "there", *missing), there=1)
    assert found.error == Status(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {shown} are missing.")
    assert (found.subtopologies, found.internal_topics_to_create) == (None, {})
    assert not found.is_ready


def test_missing_internal_topics_are_to_be_created_as_stated():
    topic = TopicInfo("c", 0, 3, (("cleanup.policy", "compact"),))
    found = configured(Subtopology("0", ("a",), (), (topic,)), a=4)
    assert found.error == Status(StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c")
    assert found.internal_topics_to_create == {"c": TopicInfo("c", 4, 3, (("cleanup.policy", "compact"),))}
    assert tasks(found) == {"0": 4}
    assert not found.is_ready


def test_missing_internal_topics_are_named_in_the_order_of_javas_map():
    found = configured(reads("0", "a", changelogs=["x-4", "x-3", "x-1", "x-2"]), a=1)
    assert found.error.detail == "Internal topics are missing: x-2, x-1, x-4 and 1 additional topics"
    assert list(found.internal_topics_to_create) == ["x-2", "x-1", "x-4", "x-3"]


def test_only_what_is_missing_is_created():
    found = configured(reads("0", "a", changelogs=["c", "d"]), a=4, c=4)
    assert created(found) == {"d": 4}


def test_an_internal_topic_with_other_partitions_is_an_error():
    found = configured(reads("0", "a", changelogs=["c", "d"]), a=4, d=3)
    assert found.error == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic d has different number of partitions: expected 4, found 3",
    )
    assert found.subtopologies is None


# Repartition topics


def test_a_repartition_topic_has_the_partitions_of_its_writers_sources():
    found = configured(reads("0", "a", sinks=("r",)), reads("1", repartition=["r"], changelogs=["c"]), a=3)
    assert (tasks(found), created(found)) == ({"0": 3, "1": 3}, {"r": 3, "c": 3})


def test_a_stated_count_of_a_repartition_topic_remains():
    found = configured(reads("0", "a", sinks=("r",)), reads("1", repartition=[TopicInfo("r", 5)]), a=3)
    assert (tasks(found), created(found)) == ({"0": 3, "1": 5}, {"r": 5})


@pytest.mark.parametrize("ids", ["0123", "3210"], ids=["in order", "in reverse"])
def test_counts_are_passed_along_a_chain(ids):
    found = configured(
        reads(ids[0], "a", sinks=("r",)),
        reads(ids[1], repartition=["r"], sinks=("s",)),
        reads(ids[2], repartition=["s"], sinks=("t",)),
        reads(ids[3], repartition=["t"]),
        a=6,
    )
    assert (set(tasks(found).values()), created(found)) == ({6}, {"r": 6, "s": 6, "t": 6})


def test_a_writer_gives_what_it_knows_in_the_order_of_javas_map():
    # "1" is visited before "2": it does not know yet that s has 8 partitions, and gives t those of a.
    found = configured(
        reads("1", "a", repartition=["s"], sinks=("t",)),
        reads("2", "b", sinks=("s",)),
        reads("3", repartition=["t"]),
        a=2,
        b=8,
    )
    assert created(found) == {"s": 8, "t": 2}
    found = configured(
        reads("2", "a", repartition=["s"], sinks=("t",)),
        reads("1", "b", sinks=("s",)),
        reads("3", repartition=["t"]),
        a=2,
        b=8,
    )
    assert created(found) == {"s": 8, "t": 8}


def test_a_loop_with_a_source_is_resolved():
    found = configured(
        reads("0", "a", repartition=["s"], sinks=("r",)), reads("1", repartition=["r"], sinks=("s",)), a=2
    )
    assert created(found) == {"r": 2, "s": 2}


def test_a_loop_without_a_source_is_an_error():
    assert refusal(reads("0", repartition=["r"], sinks=("r",))) == (
        "Failed to compute number of partitions for all repartition topics. There may be loops in the "
        "topology that cannot be resolved."
    )


def test_a_repartition_topic_without_a_writer_is_an_error():
    assert refusal(reads("0", "a", repartition=["r"]), a=1) == (
        "Failed to compute number of partitions for all repartition topics, because a repartition source "
        "topic is never used as a sink topic."
    )


def test_a_subtopology_without_sources_is_an_error():
    assert refusal(reads("0", "a"), reads("1", changelogs=["c"]), a=1) == (
        "No source topics found for subtopology 1"
    )


# Copartition groups


def test_copartitioned_sources_must_have_the_same_partitions():
    group = (CopartitionGroup((0, 1)),)
    assert tasks(configured(reads("0", "b", "a", groups=group), a=2, b=2)) == {"0": 2}
    found = configured(reads("0", "b", "a", groups=group), a=2, b=3)
    assert found.error == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    )


def test_a_copartitioned_repartition_topic_gets_the_count_of_the_source():
    found = configured(
        reads("0", "a", sinks=("r",)),
        reads("1", "b", repartition=["r"], groups=(CopartitionGroup((0,), (), (0,)),)),
        a=2,
        b=5,
    )
    assert (tasks(found), created(found)) == ({"0": 2, "1": 5}, {"r": 5})


def test_a_stated_count_must_be_that_of_the_source():
    found = configured(
        reads("0", "a", sinks=("r",)),
        reads("1", "b", repartition=[TopicInfo("r", 4)], groups=(CopartitionGroup((0,), (), (0,)),)),
        a=2,
        b=5,
    )
    assert found.error == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [4] of repartition topic [r] doesn't match number of partitions [5] of the "
        "source topic.",
    )


def test_copartitioned_repartition_topics_get_the_highest_count():
    found = configured(
        reads("0", "a", sinks=("r",)),
        reads("1", "b", sinks=("s",)),
        reads("2", repartition=["r", "s"], groups=(CopartitionGroup((), (), (0, 1)),)),
        a=2,
        b=5,
    )
    assert created(found) == {"r": 5, "s": 5}


def test_copartitioned_repartition_topics_get_a_stated_count():
    found = configured(
        reads("0", "a", sinks=("r", "s")),
        reads("1", repartition=["r", TopicInfo("s", 3)], groups=(CopartitionGroup((), (), (0, 1)),)),
        a=7,
    )
    assert created(found) == {"r": 3, "s": 3}


def test_stated_counts_of_copartitioned_topics_must_be_the_same():
    topics = [TopicInfo("r", 2), TopicInfo("s", 3)]
    found = configured(
        reads("0", "a", sinks=("r", "s")),
        reads("1", repartition=topics, groups=(CopartitionGroup((), (), (0, 1)),)),
        a=7,
    )
    assert found.error == Status(
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{r=2, s=3}]",
    )


def test_an_empty_copartition_group_changes_nothing():
    assert configured(reads("0", "a", groups=(CopartitionGroup(),)), a=1).is_ready


# Partitions of an endpoint

READY = ConfiguredTopology(
    0,
    7,
    {
        "0": ConfiguredSubtopology(5, ("a", "b"), {"r": TopicInfo("r", 4)}),
        "1": ConfiguredSubtopology(2, ("c",)),
    },
)
TOPICS = existing({"a": 5, "b": 1, "r": 4, "c": 2})


def served(active, standby, topology=READY, topics=TOPICS):
    return tuple(run_through(endpoint_partitions(active, standby, topology, topics)))


def test_an_endpoint_serves_the_partitions_of_its_tasks_that_exist():
    assert served({"1": [1], "0": {4, 3, 0}}, {"0": {1}}) == (
        (("a", (0, 3, 4)), ("b", (0,)), ("r", (0, 3)), ("c", (1,))),
        (("a", (1,)), ("r", (1,))),
    )


def test_a_deleted_topic_or_subtopology_is_left_out():
    assert served({"0": [0], "gone": [0]}, {}, topics=existing({"b": 1})) == ((("b", (0,)),), ())
    assert served({"0": [0]}, {}, ConfiguredTopology(0, 7, None)) == ((), ())


@pytest.mark.parametrize(("most", "is_refused"), [(5, True), (6, False), (7, False)])
def test_a_topology_has_as_many_tasks(monkeypatch, most, is_refused):
    monkeypatch.setattr(configuration, "MOST_TASKS", most)
    some = reads("0", "a"), reads("1", "a")
    if is_refused:
        assert refusal(*some, a=3) == f"The topology has more than {most} tasks."
    else:
        assert tasks(configured(*some, a=3)) == {"0": 3, "1": 3}
