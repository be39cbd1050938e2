"""Structs as values."""

import pytest

from broker.protocol.messages.fetch import FetchRequest, LeaderIdAndEpoch
from broker.protocol.messages.produce import LeaderIdAndEpoch as ProduceLeader
from broker.protocol.schema import LIST, ZERO_UUID, Field, Message, Struct, field


def test_equal_when_of_one_class_and_equal_in_every_field():
    assert LeaderIdAndEpoch(1, 2) == LeaderIdAndEpoch(1, 2)
    assert LeaderIdAndEpoch(1, 2) != LeaderIdAndEpoch(1, 3)
    assert LeaderIdAndEpoch(1, 2) != ProduceLeader(1, 2)


def test_shows_every_field():
    assert repr(LeaderIdAndEpoch(1, 2)) == "LeaderIdAndEpoch(leader_id=1, leader_epoch=2)"


def test_defaults_are_those_of_kafka():
    request = FetchRequest()
    assert (request.max_bytes, request.isolation_level, request.session_epoch) == (0x7FFFFFFF, 0, -1)
    assert (request.cluster_id, request.replica_state, request.rack_id) == (None, None, "")


def test_a_field_without_a_default_has_that_of_its_type():
    assert Field("f", "int32", 0, 1).initial == 0
    assert Field("f", "int32", 0, 1, default=-1).initial == -1
    assert Field("f", "string", 0, 1).initial == ""
    assert Field("f", "string", 0, 1, nullable=0).initial is None
    assert Field("f", "uuid", 0, 1).initial == ZERO_UUID
    assert Field("f", "int32", 0, 1, array=True).initial is LIST
    assert Field("f", LeaderIdAndEpoch, 0, 1, tag=0).initial is None


def test_one_declaration_makes_a_slot_an_argument_and_an_entry_of_the_table():
    class Pair(Struct):
        left: int = field("int32", 0, 5)
        right: list[str] = field("string", 2, 5, array=True, nullable=3)

    left, right = Pair.FIELDS
    assert left == Field("left", "int32", 0, 5)
    assert right == Field("right", "string", 2, 5, array=True, nullable=3)
    assert Pair(1, right=["a"]) == Pair(left=1, right=["a"]) != Pair()
    with pytest.raises(AttributeError):
        Pair().middle = 1


def test_an_array_and_a_struct_that_cannot_be_null_are_made_for_each_message():
    class Outer(Struct):
        array: list[int] = field("int32", 0, 0, array=True)
        leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, 0, 0)

    one, other = Outer(), Outer(array=None, leader=None)
    assert one == other == Outer([], LeaderIdAndEpoch(-1, -1))
    assert one.array is not other.array and one.leader is not other.leader


def test_a_constructor_refuses_an_argument_without_a_field_on_its_first_and_on_later_calls():
    class Single(Struct):
        topic: str = field("string", 0, 0)

    for _ in range(2):
        with pytest.raises(
            TypeError, match=r"Single\.__init__\(\) got an unexpected keyword argument 'topik'"
        ):
            Single(topik="a")


def test_a_constructor_serves_its_class_alone():
    class Below(LeaderIdAndEpoch):
        def __init__(self) -> None:
            super().__init__(1)

    class Empty(Struct):
        pass

    assert [(each.leader_id, each.leader_epoch) for each in (Below(), Below())] == [(1, -1), (1, -1)]
    assert Struct() != Message() != Empty()

    class Later(Empty):
        left: int = field("int32", 0, 0)

    assert Later(1).left == 1
