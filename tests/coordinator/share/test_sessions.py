"""Share sessions: their epochs, their connection, and the limits of their number and of their partitions."""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.sessions import MAX_OF_A_SESSION, MAX_PARTITIONS, MemberKey, ShareSessions
from broker.coordinator.share.states import SharePartitionKey

MEMBER = MemberKey("readers", "a")


def keys(count: int, start: int = 0) -> list[SharePartitionKey]:
    return [SharePartitionKey("readers", bytes(16), index) for index in range(start, start + count)]


def refusal(call: object, *arguments: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_epochs_follow_each_other_and_wrap_to_one() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, "c", keys(1))
    assert sessions.resume(MEMBER, 1) is session and session.epoch == 2
    assert refusal(sessions.resume, MEMBER, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert refusal(sessions.resume, MemberKey("readers", "b"), 2) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session.epoch = 2**31 - 1
    assert sessions.resume(MEMBER, 2**31 - 1) is session and session.epoch == 1


def test_another_partition_is_first_at_each_epoch() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, "c", keys(3))
    orders = [[each.partition for each in session.rotated(epoch)] for epoch in range(5)]
    assert orders == [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2], [2, 0, 1]]
    assert ShareSessions(1).open(MEMBER, "c", []).rotated(0) == []


def test_partitions_are_added_and_forgotten() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(MEMBER, "c", keys(2))
    sessions.update(session, keys(2, 1), keys(1))
    assert [each.partition for each in session.partitions] == [1, 2]


def test_a_closed_connection_closes_its_sessions() -> None:
    sessions = ShareSessions(10)
    for number, connection in enumerate("ccd"):
        sessions.open(MemberKey("readers", str(number)), connection, keys(1))
    assert [each.key.member_id for each in sessions.disconnected("c")] == ["0", "1"]
    assert sessions.disconnected("c") == [] and len(sessions) == 1
    assert sessions.close(MemberKey("readers", "2")) is not None
    assert sessions.disconnected("d") == []


def test_a_member_that_opens_a_session_again_keeps_one() -> None:
    sessions = ShareSessions(1)
    sessions.open(MEMBER, "c", keys(1))
    again = sessions.open(MEMBER, "d", keys(2))
    assert len(sessions) == 1 and sessions.disconnected("c") == []
    assert sessions.disconnected("d") == [again]


@pytest.mark.parametrize(("count", "fits"), [(-1, True), (0, True), (1, False)])
def test_the_partitions_of_a_session(count: int, fits: bool) -> None:
    wanted = keys(MAX_OF_A_SESSION + count)
    sessions = ShareSessions(10)
    if fits:
        assert len(sessions.open(MEMBER, "c", wanted).partitions) == len(wanted)
    else:
        assert refusal(sessions.open, MEMBER, "c", wanted) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    session = sessions.open(MEMBER, "c", keys(1))
    if fits:
        sessions.update(session, wanted, [])
    else:
        assert refusal(sessions.update, session, wanted, []) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert len(sessions) == 0
    sessions.open(MEMBER, "c", keys(MAX_OF_A_SESSION))


@pytest.mark.parametrize(("count", "fits"), [(-1, True), (0, True), (1, False)])
def test_the_partitions_of_all_sessions(count: int, fits: bool) -> None:
    sessions = ShareSessions(1_000)
    left = MAX_PARTITIONS - 10
    for number in range(left // MAX_OF_A_SESSION):
        sessions.open(MemberKey("readers", str(number)), "c", keys(MAX_OF_A_SESSION))
    sessions.open(MemberKey("readers", "rest"), "c", keys(left % MAX_OF_A_SESSION))
    if fits:
        sessions.open(MEMBER, "c", keys(10 + count))
    else:
        assert refusal(sessions.open, MEMBER, "c", keys(10 + count)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = sessions.open(MEMBER, "c", keys(1))
        assert refusal(sessions.update, session, keys(11), []) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert len(sessions.disconnected("c")) == left // MAX_OF_A_SESSION + 1 + fits
