"""Structs as values."""

from broker.protocol.messages.fetch import FetchRequest, LeaderIdAndEpoch
from broker.protocol.messages.produce import LeaderIdAndEpoch as ProduceLeader
from broker.protocol.schema import LIST, ZERO_UUID, Field


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
