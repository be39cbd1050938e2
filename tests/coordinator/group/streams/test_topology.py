"""What Kafka refuses of a stated topology, in its words, and what it would fail on later."""

import pytest
from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import SLICE, run_through
from broker.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
    check,
    is_same,
    required_topics,
    size_of,
)

LONGEST = "n" * 249


def topology(*subtopologies, epoch=0):
    return Topology(epoch, subtopologies)


def refusal(*subtopologies, epoch=0):
    with pytest.raises(ApiError) as caught:
        run_through(check(topology(*subtopologies, epoch=epoch)))
    return caught.value.code, caught.value.message


def invalid(message):
    return ErrorCode.STREAMS_INVALID_TOPOLOGY, message


FULL = Subtopology(
    "0",
    ("source",),
    (),
    (TopicInfo("changelog", 0, 3, (("retention.ms", "5"),)),),
    ("sink",),
    (TopicInfo("repartition", 4),),
    (CopartitionGroup((0,), (), (0,)),),
)


def test_a_topology_is_accepted():
    run_through(check(topology(FULL, Subtopology("1", ("source",)))))
    run_through(check(topology()))
    run_through(check(topology(Subtopology("0", (LONGEST,)))))


def test_kafkas_internal_topics_are_prohibited():
    assert refusal(
        Subtopology("0", ("__consumer_offsets", "source"), repartition_sink_topics=("__transaction_state",)),
        Subtopology("1", ("__consumer_offsets",), (), (TopicInfo("__share_group_state"),)),
    ) == invalid(
        "Use of Kafka internal topics __consumer_offsets,__transaction_state,__share_group_state in a Kafka "
        "Streams topology is prohibited."
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source_topics", ("",)),
        ("source_topics", ("a b",)),
        ("source_topics", (LONGEST + "n",)),
        ("repartition_sink_topics", ("..",)),
        ("repartition_source_topics", (TopicInfo("a#"),)),
        ("state_changelog_topics", (TopicInfo("ä"),)),
    ],
)
def test_names_must_be_names_of_topics(field, value):
    name = value[0] if isinstance(value[0], str) else value[0].name
    assert refusal(Subtopology("0", **{field: value})) == invalid(
        f"Topic names {name} are not valid topic names."
    )


def test_all_invalid_names_are_named_once():
    assert refusal(Subtopology("0", ("a b", "c d", "e")), Subtopology("1", ("a b",))) == invalid(
        "Topic names a b,c d are not valid topic names."
    )


def test_regular_expressions_are_not_supported():
    assert refusal(Subtopology("0", ("a",)), Subtopology("1", (), ("a.*",))) == (
        ErrorCode.INVALID_REQUEST,
        "Regular expressions for source topics are not supported yet.",
    )


@pytest.mark.parametrize("partitions", [-1, 1])
def test_the_partitions_of_a_changelog_are_not_stated(partitions):
    assert refusal(Subtopology("0", ("a",), (), (TopicInfo("c", 0), TopicInfo("d", partitions)))) == invalid(
        f"Changelog topic d must have an undefined partition count, but it is set to {partitions}."
    )


def test_an_epoch_is_not_negative():
    assert refusal(epoch=-1) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH,
        "Topology epoch must be non-negative.",
    )


@pytest.mark.parametrize(
    ("subtopologies", "message"),
    [
        ((FULL, FULL), "The topology has subtopology 0 twice."),
        (
            (Subtopology("0", repartition_source_topics=(TopicInfo("r"), TopicInfo("r", 2))),),
            "The repartition source topics of subtopology 0 have topic r twice.",
        ),
        (
            (Subtopology("0", state_changelog_topics=(TopicInfo("c"), TopicInfo("c"))),),
            "The state changelog topics of subtopology 0 have topic c twice.",
        ),
        (
            (Subtopology("0", repartition_source_topics=(TopicInfo("r", -1),)),),
            "The partition count of repartition source topic r is -1.",
        ),
        (
            (Subtopology("0", state_changelog_topics=(TopicInfo("c", configs=(("k", "1"), ("k", "2"))),)),),
            "The configs of state changelog topic c have key k twice.",
        ),
        (
            (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((0, 1)),)),),
            "A copartition group of subtopology 0 has index 1 of a list with 1 elements.",
        ),
        (
            (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((-1,)),)),),
            "A copartition group of subtopology 0 has index -1 of a list with 1 elements.",
        ),
        (
            (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((), (0,)),)),),
            "A copartition group of subtopology 0 has index 0 of a list with 0 elements.",
        ),
        (
            (Subtopology("0", ("a",), copartition_groups=(CopartitionGroup((), (), (0,)),)),),
            "A copartition group of subtopology 0 has index 0 of a list with 0 elements.",
        ),
    ],
)
def test_what_kafka_would_fail_on_is_refused(subtopologies, message):
    assert refusal(*subtopologies) == invalid(message)


def test_the_required_topics_are_those_that_are_read():
    assert run_through(required_topics(topology(FULL, Subtopology("1", ("more",))))) == {
        *("source", "repartition", "changelog", "more"),
    }


def test_a_size_counts_each_byte_and_each_element():
    def size(**fields):
        return run_through(size_of(topology(Subtopology("0", **fields)))) - run_through(
            size_of(topology(Subtopology("0")))
        )

    assert size(source_topics=("ä",)) == size(source_topics=("ab",)) == size(source_topics=("",)) + 2
    assert size(source_topics=("",) * 10) == 10 * size(source_topics=("",)) > 0
    assert size(source_topic_regex=("abc",)) == size(repartition_sink_topics=("abc",))
    assert size(copartition_groups=(CopartitionGroup((0,), (1,), (2,)),)) == 4 * 16
    assert size(state_changelog_topics=(TopicInfo("c", configs=(("k", "vv"),)),)) == 3 * 16 + 4


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (topology(FULL, Subtopology("1", ("t",))), True),
        (topology(Subtopology("1", ("t",)), FULL), True),
        (topology(FULL, Subtopology("1", ("t",)), epoch=1), False),
        (topology(FULL), False),
        (topology(FULL, Subtopology("2", ("t",))), False),
        (topology(FULL, FULL), False),
        (topology(FULL, Subtopology("1", ("u",))), False),
        (topology(FULL, Subtopology("1", ("t", "u"))), False),
        (topology(replace(FULL, state_changelog_topics=()), Subtopology("1", ("t",))), False),
        (
            topology(
                replace(
                    FULL, state_changelog_topics=(TopicInfo("changelog", 0, 3, (("retention.ms", "6"),)),)
                ),
                Subtopology("1", ("t",)),
            ),
            False,
        ),
        (
            topology(
                replace(FULL, repartition_source_topics=(TopicInfo("repartition", 5),)),
                Subtopology("1", ("t",)),
            ),
            False,
        ),
        (topology(replace(FULL, copartition_groups=()), Subtopology("1", ("t",))), False),
    ],
)
def test_topologies_are_compared_in_any_order(other, same):
    assert run_through(is_same(topology(FULL, Subtopology("1", ("t",))), other)) is same


def pauses(subtopology):
    return sum(1 for _ in is_same(topology(subtopology), topology(replace(subtopology))))


@pytest.mark.parametrize(("count", "pieces"), [(SLICE - 1, 1), (SLICE, 1), (SLICE + 1, 2)])
def test_topologies_are_compared_in_pieces(count, pieces):
    names = tuple(f"topic-{number}" for number in range(count))
    changelog = TopicInfo("changelog", configs=tuple((name, "value") for name in names))
    assert pauses(Subtopology("0", names)) == pauses(Subtopology("0")) + pieces
    assert pauses(Subtopology("0", (), (), (changelog,))) == pauses(Subtopology("0")) + pieces + 1
    many = topology(*(Subtopology(name) for name in names))
    assert sum(1 for _ in is_same(many, many)) == 3 * count
