"""Changes of large groups: nobody sees half of one, others are served in between, and none is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.config.sections.consumer_groups import ConsumerGroupConfig
from broker.errors import ErrorCode
from broker.groups.coordinator import CHANGING_MS
from broker.groups.isolation import SMALL, TRIES
from broker.groups.messages import Effects
from broker.steps import PIECE, Steps
from tests.groups.consumer.consumers import REBALANCE_MS, SESSION_MS, Consumers, topic_id
from tests.groups.conversation import Ask
from tests.groups.share.sharers import Sharers

MANY = 2_000
NAMES = tuple(f"topic-{number:04}" for number in range(MANY))


def crowded(**consumer: Any) -> Consumers:
    """One topic more than one member can have by names that are few."""
    talk = Consumers(max_group_bytes=1_000_000, consumer=ConsumerGroupConfig(**consumer))
    talk.set_topics(**dict.fromkeys(NAMES, 1), t=1)
    return talk


def entering(talk: Consumers, member_id: str, topics: tuple[str, ...] = NAMES) -> tuple[Ask, Steps[Effects]]:
    return talk.begin(member_id, 0, topics=topics, rebalance_timeout_ms=REBALANCE_MS, owned={})


def pauses(steps: Steps[Effects]) -> int:
    return sum(1 for _ in steps)


@pytest.mark.parametrize(("partitions", "waits"), [(SMALL - 2, False), (SMALL - 1, False), (SMALL, True)])
def test_a_change_pauses_if_topics_and_partitions_are_more_than_a_piece(partitions: int, waits: bool) -> None:
    talk = Consumers()
    talk.set_topics(t=partitions)
    assert (pauses(entering(talk, "a", ("t",))[1]) > 0) is waits


def test_no_piece_of_an_assignment_has_more_than_a_few_hundred_topics() -> None:
    talk = crowded()
    counts = []
    for member_id in "abc":
        _, steps = entering(talk, member_id, NAMES[: MANY - ord(member_id)])
        counts.append(pauses(steps))
    # Each topic is in more than five loops: names, records, hash, assignment and target of each member.
    assert all(count > 5 * MANY // PIECE for count in counts)


def test_a_member_is_unknown_until_its_change_has_ended() -> None:
    talk = crowded()
    ask, steps = entering(talk, "a")
    for _ in range(20):
        next(steps)
    assert talk.coordinator.overview("g") is None
    reply = talk.end(ask, steps)
    assert (reply.error, reply.epoch, len(reply.assignment)) == (ErrorCode.NONE, 1, MANY)
    assert talk.reborn().snapshot() == talk.snapshot()


def test_others_are_answered_with_the_assignment_so_far() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    before = talk.snapshot()
    ask, steps = entering(talk, "b")
    for _ in range(30):
        next(steps)
    reply = talk.beat("a", 1)
    assert (reply.error, reply.epoch, reply.assignment) == (ErrorCode.NONE, 1, None)
    assert talk.snapshot() == before
    assert talk.end(ask, steps).epoch == 2
    assert sum(map(len, talk.group().targets.values())) == MANY


def test_a_change_that_is_dropped_has_changed_nothing() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    before = talk.snapshot()
    deadline = talk.coordinator.next_deadline()
    _, steps = entering(talk, "b")
    for _ in range(30):
        next(steps)
    steps.close()
    assert talk.snapshot() == before
    assert talk.coordinator.next_deadline() == deadline
    assert not talk.group().timers.keys() - {"a"}
    assert talk.enter("b", NAMES).epoch == 2


def test_a_refused_change_has_changed_nothing() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    before = talk.snapshot()
    reply = talk.beat("a", 7, topics=NAMES)
    assert reply.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert talk.snapshot() == before
    assert talk.last.records == []


def test_a_change_begins_anew_if_the_group_has_changed_meanwhile() -> None:
    talk = crowded()
    for member_id in "ab":
        talk.enter(member_id, NAMES)
    ask, steps = entering(talk, "c")
    for _ in range(40):
        next(steps)
    talk.beat("b", -1)
    assert talk.end(ask, steps).error is ErrorCode.NONE
    assert set(talk.group().members) == set(talk.group().targets) == {"a", "c"}
    assert sorted(len(target) for target in talk.group().targets.values()) == [MANY // 2, MANY // 2]
    assert talk.reborn().snapshot() == talk.snapshot()


def test_of_two_changes_of_one_group_the_later_one_has_both() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    first, second = entering(talk, "b"), entering(talk, "c")
    for _ in range(30):
        next(first[1])
        next(second[1])
    assert talk.end(*second).epoch == 2
    assert talk.end(*first).epoch == 3
    assert set(talk.group().members) == {"a", "b", "c"}
    assert sum(map(len, talk.group().targets.values())) == MANY


@pytest.mark.parametrize(
    ("changes", "error"),
    [(TRIES - 1, ErrorCode.NONE), (TRIES, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_a_group_that_changes_all_the_time_refuses(changes: int, error: ErrorCode) -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    ask, steps = entering(talk, "b")
    seen = talk.group().revision
    made = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            talk._take(end.value)
            break
        if made < changes and next_try(talk, steps):
            talk.group().revision += 1
            made += 1
    assert ask.reply.error is error
    assert talk.group().revision == seen + changes + (error is ErrorCode.NONE)
    assert ("b" in talk.group().members) is (error is ErrorCode.NONE)


def next_try(talk: Consumers, steps: Any) -> bool:
    """Whether a change has read the group's present revision."""
    frame = steps.gi_yieldfrom
    while frame is not None and "revision" not in frame.gi_frame.f_locals:
        frame = frame.gi_yieldfrom
    return frame is not None and bool(frame.gi_frame.f_locals["revision"] == talk.group().revision)


def test_the_timers_of_a_group_wait_for_its_change() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.wait(SESSION_MS - 1)
    ask, steps = entering(talk, "b")
    for _ in range(30):
        next(steps)
    talk.wait_in_one_go(1)
    assert set(talk.group().members) == {"a"}
    assert talk.end(ask, steps).epoch == 2
    talk.wait(CHANGING_MS - 1)
    assert set(talk.group().members) == {"a", "b"}
    talk.wait(1)
    assert set(talk.group().members) == {"b"}


def test_a_heartbeat_that_waits_for_its_turn_keeps_its_member() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.wait(SESSION_MS - 1)
    ask, steps = talk.begin("a", 1, topics=NAMES[1:])
    next(steps)
    talk.wait(SESSION_MS - 1)
    assert set(talk.group().members) == {"a"}
    assert talk.end(ask, steps).error is ErrorCode.NONE


def failing(talk: Consumers, effects: Effects) -> Effects:
    return talk.coordinator.roll_back(effects, ErrorCode.KAFKA_STORAGE_ERROR, talk.now)


@pytest.mark.parametrize(
    "change",
    [
        lambda talk: talk.begin("b", 0, topics=NAMES, rebalance_timeout_ms=1, owned={}),
        lambda talk: talk.begin("a", 1, topics=NAMES[:700]),
        lambda talk: talk.begin("a", -1),
    ],
)
def test_a_change_that_cannot_be_written_is_undone(
    change: Callable[[Consumers], tuple[Ask, Steps[Effects]]],
) -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    before = talk.snapshot()
    _, steps = change(talk)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            undone = failing(talk, end.value)
            break
    assert [reply.error for _, reply in undone.replies] == [ErrorCode.NOT_COORDINATOR]
    assert talk.snapshot() == before
    talk.wait(SESSION_MS)
    assert not talk.group().members


def test_a_large_share_group_is_changed_in_the_same_way() -> None:
    talk = Sharers(max_group_bytes=1_000_000)
    talk.set_topics(**dict.fromkeys(NAMES, 1))
    talk.ready("a", "b", topics=NAMES)
    assert sum(map(len, talk.group().targets.values())) == MANY
    assert len(talk.group().states.initialized) == MANY
    assert talk.reborn().snapshot() == talk.snapshot()
    assert set(talk.group().states.initialized) == {topic_id(name) for name in NAMES}
