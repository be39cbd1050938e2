"""Topics that a group's members subscribe to: read only when offsets are deleted or expire, in pieces."""

import pytest

from broker.common.errors import BrokerBug, ErrorCode
from broker.common.slices import SLICE, run_through
from broker.coordinator.group.group import ClassicGroup
from broker.coordinator.group.messages import OffsetToCommit
from broker.coordinator.group.offsets import SubscribedTopics, subscribed_topics, topics_of
from tests.coordinator.group.conversation import Ask, Conversation, subscription

MANY = 1_024


def pauses_of(steps) -> tuple[int, SubscribedTopics]:
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return pauses, end.value
        pauses += 1


def group_of(*subscriptions: bytes) -> ClassicGroup:
    group = ClassicGroup("g")
    group.subscriptions = subscriptions
    return group


@pytest.mark.parametrize("topics", [(), ("t",), ("t", "ünï", "t")])
def test_topics_are_read_from_a_subscription(topics):
    assert tuple(topics_of(subscription(*topics))) == topics


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00\x01",
        bytes.fromhex("0001 7fffffff"),
        bytes.fromhex("0001 ffffffff"),
        bytes.fromhex("0001 00000001 0005 74"),
        bytes.fromhex("0001 00000001 ffff"),
        bytes.fromhex("0001 00000001 0001 ff"),
        bytes.fromhex("0001 00000002 0001 74 00"),
    ],
)
def test_other_metadata_is_no_subscription(metadata):
    with pytest.raises(ValueError, match=r"topic|ends|decode"):
        list(topics_of(metadata))
    subscribed = run_through(subscribed_topics(group_of(subscription("t"), metadata), {"t"}))
    assert not subscribed.is_known and "anything" in subscribed


def test_only_the_wanted_topics_are_kept():
    subscribed = run_through(
        subscribed_topics(group_of(subscription("a", "b"), subscription("c")), {"a", "c"})
    )
    assert subscribed.is_known
    assert [topic in subscribed for topic in "abcd"] == [True, False, True, False]


@pytest.mark.parametrize("members", [1, 2, MANY])
def test_members_without_topics_are_read_one_at_a_time_too(members):
    group = group_of(*[subscription()] * (members - 1), subscription("t"))
    assert pauses_of(subscribed_topics(group, {"t"}))[0] == members + 1


@pytest.mark.parametrize("topics", [3, MANY, 10_000])
def test_the_topics_of_one_member_are_read_one_at_a_time(topics):
    group = group_of(subscription(*map(str, range(topics))))
    made, subscribed = pauses_of(subscribed_topics(group, {"0", str(topics - 1)}))
    assert made == topics + 1, "and the member"
    assert "0" in subscribed and str(topics - 1) in subscribed and "1" not in subscribed


def test_a_generation_begins_without_reading_topics(talk, monkeypatch):
    monkeypatch.setattr("broker.coordinator.group.offsets.topics_of", None)
    first, second = talk.stable(2)
    talk.commit(first, 1)
    talk.leave(second)
    assert talk.join(first).reply.generation_id == 2


def test_members_that_rejoin_consume_what_the_last_generation_did(talk):
    first, second = talk.stable(2)
    talk.commit(first, 1)
    talk.join(first, protocols=(("range", subscription("u")),))
    assert talk.state() == "PreparingRebalance"
    assert talk.delete_offsets(("t", 0), ("u", 0)).errors == (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    )
    talk.join(second, protocols=(("range", subscription("u")),))
    assert talk.delete_offsets(("t", 0), ("u", 0)).errors == (
        ErrorCode.NONE,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    )


def many_topics() -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*map(str, range(MANY)))),)


def next_generation(talk: Conversation, member_id: str) -> None:
    joined = talk.join(member_id, protocols=many_topics())
    assert talk.sync(member_id, joined.reply.generation_id, {}).reply.error is ErrorCode.NONE


def test_topics_are_read_again_after_a_generation_has_begun(talk):
    (leader,) = talk.stable(1, protocols=many_topics())
    steps = talk.coordinator.offsets.subscribed_topics("g", {"0", "t"})
    next(steps)
    next_generation(talk, leader)
    pauses, subscribed = pauses_of(steps)
    assert pauses == 2 * (MANY + 1) - 1 and subscribed.is_known
    assert "0" in subscribed and "t" not in subscribed


def test_a_group_that_begins_generations_all_the_time_consumes_everything(talk):
    (leader,) = talk.stable(1, protocols=many_topics())
    steps = talk.coordinator.offsets.subscribed_topics("g", {"t"})
    next(steps)
    next_generation(talk, leader)
    for _ in range(MANY + 1):  # to the first topic of the second reading
        next(steps)
    next_generation(talk, leader)
    pauses, subscribed = pauses_of(steps)
    assert pauses == MANY and not subscribed.is_known
    ask = Ask()
    effects = talk.coordinator.offsets.delete("g", [("t", 0)], subscribed, ask, talk.now)
    ((_, reply),) = effects.replies
    assert reply.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,)


def test_known_topics_are_read_again_only_for_another_generation(talk):
    (leader,) = talk.stable(1, protocols=many_topics())
    known = run_through(talk.coordinator.offsets.subscribed_topics("g", {"t"}))
    assert pauses_of(talk.coordinator.offsets.subscribed_topics("g", {"t"}, known)) == (0, known)
    next_generation(talk, leader)
    pauses, again = pauses_of(talk.coordinator.offsets.subscribed_topics("g", {"t"}, known))
    assert pauses == MANY + 1 and again is not known
    with pytest.raises(BrokerBug, match="earlier generation"):
        talk.coordinator.offsets.delete("g", [("t", 0)], known, Ask(), talk.now)


def test_a_missing_group_consumes_nothing_that_is_known(talk):
    assert not run_through(talk.coordinator.offsets.subscribed_topics("none", {"t"})).is_known


@pytest.fixture
def quick() -> Conversation:
    """Retention of a minute, checked every second."""
    return Conversation(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)


def test_topics_are_read_for_expiry_in_pieces_and_only_after_the_retention(quick, monkeypatch):
    session = {"session": 1_000_000, "rebalance": 1_000_000}
    (leader,) = quick.stable(1, protocols=many_topics(), **session)
    quick.commit(leader, 1, OffsetToCommit("0", 0, 1), OffsetToCommit("old", 0, 2))
    begun = quick.elapsed
    with monkeypatch.context() as patched:
        patched.setattr("broker.coordinator.group.offsets.topics_of", None)
        quick.wait(59_000)
    quick.elapsed = begun + 60_999
    pieces = 0
    while quick.committed("old") is not None:
        assert quick.committed("old") == 2
        quick.wait_in_one_go(0)
        pieces += 1
    assert 1 < pieces <= MANY // SLICE + 2
    assert quick.committed("0") == 1


def test_a_generation_that_begins_while_topics_are_read_for_expiry_loses_nothing(quick):
    session = {"session": 1_000_000, "rebalance": 1_000_000}
    (leader,) = quick.stable(1, protocols=many_topics(), **session)
    quick.commit(leader, 1, OffsetToCommit("old", 0, 2))
    quick.elapsed += 61_000
    quick.wait_in_one_go(0)
    assert quick.committed("old") == 2
    next_generation(quick, leader)
    assert quick.state() == "Stable"
    quick.wait_in_one_go(0)
    assert quick.committed("old") == 2
    quick.wait(2_000)
    assert quick.committed("old") is None
