"""Changes of large groups: nobody sees half of one, others are served in between, and none is lost."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from broker.common import slices as common_slices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, Steps, advance, run_through
from broker.config.sections.groups import ConsumerGroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group.consumer import migration
from broker.coordinator.group.expiry import CHANGING_MS, FAILED_TIMER_RETRY_MS
from broker.coordinator.group.groups import SMALL, TRIES
from broker.coordinator.group.messages import Effects, LeavingMember
from tests.coordinator.group.consumer.consumers import REBALANCE_MS, SESSION_MS, Consumers, topic_id
from tests.coordinator.group.consumer.test_migration import assignment, subscription
from tests.coordinator.group.conversation import Ask
from tests.coordinator.group.share.sharers import Sharers

MANY = 2_000
NAMES = tuple(f"topic-{number:04}" for number in range(MANY))


@pytest.fixture
def each_step_is_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(common_slices, "FIRST_STEPS", 0)


def crowded(**consumer: Any) -> Consumers:
    """One topic more than one member can have by names that are few. Each join is assigned at once, unless
    the test says otherwise.
    """
    consumer.setdefault("assignment_interval_ms", 0)
    talk = Consumers(max_group_bytes=2_097_152, consumer=ConsumerGroupConfig(**consumer))
    talk.set_topics(**dict.fromkeys(NAMES, 1), t=1)
    return talk


def shared(interval_ms: int) -> Sharers:
    talk = Sharers(max_group_bytes=1_000_000, share=ShareGroupConfig(assignment_interval_ms=interval_ms))
    talk.set_topics(**dict.fromkeys(NAMES, 1))
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
    assert all(count > 5 * MANY for count in counts)


def test_a_member_is_unknown_until_its_change_has_ended() -> None:
    talk = crowded()
    ask, steps = entering(talk, "a")
    for _ in range(20):
        next(steps)
    assert talk.coordinator.overview("g") is None
    reply = talk.end(ask, steps)
    assert (reply.error, reply.epoch, len(reply.assignment)) == (ErrorCode.NONE, 2, MANY)
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_change_begins_when_its_turn_has_come() -> None:
    """After the first slice, which ends before it: the requests that wait are served to their ends."""
    talk = crowded()
    _, steps = entering(talk, "a")
    changing = talk.coordinator.groups.changing
    assert advance(steps) is None
    assert not changing
    assert advance(steps) is None
    assert list(changing) == ["g"]


def test_others_are_answered_with_the_assignment_so_far() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    before = talk.snapshot()
    ask, steps = entering(talk, "b")
    for _ in range(30):
        next(steps)
    reply = talk.beat("a", 2)
    assert (reply.error, reply.epoch, reply.assignment) == (ErrorCode.NONE, 2, None)
    assert talk.snapshot() == before
    assert talk.end(ask, steps).epoch == 3
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
    assert talk.enter("b", NAMES).epoch == 3


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
    assert talk.end(*second).epoch == 3
    assert talk.end(*first).epoch == 4
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
    while frame is not None and "facts" not in frame.gi_frame.f_locals:
        frame = frame.gi_yieldfrom
    return frame is not None and bool(frame.gi_frame.f_locals["facts"] == talk.group().revision)


def test_the_timers_of_a_group_wait_for_its_change() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.wait(SESSION_MS - 1)
    ask, steps = entering(talk, "b")
    for _ in range(30):
        next(steps)
    talk.wait_in_one_go(1)
    assert set(talk.group().members) == {"a"}
    assert talk.end(ask, steps).epoch == 3
    talk.wait(CHANGING_MS - 1)
    assert set(talk.group().members) == {"a", "b"}
    talk.wait(1)
    assert set(talk.group().members) == {"b"}


def test_a_heartbeat_that_waits_for_its_turn_keeps_its_member() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.wait(SESSION_MS - 1)
    ask, steps = talk.begin("a", 2, topics=NAMES[1:])
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
        lambda talk: talk.begin("a", 2, topics=NAMES[:700]),
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
    talk = shared(0)
    talk.ready("a", "b", topics=NAMES)
    assert sum(map(len, talk.group().targets.values())) == MANY
    assert len(talk.group().states.initialized) == MANY
    assert talk.reborn().snapshot() == talk.snapshot()
    assert set(talk.group().states.initialized) == {topic_id(name) for name in NAMES}


PIECE_LINES = 5 * MANY
"""Lines of Python between two pauses, of all loops; the largest parts go through the topics of one member."""


def lines_of_longest_piece(steps: Steps[Effects]) -> tuple[int, int, Effects]:
    """Go on with a call to its end. Return the lines of its longest piece, the pauses and the effects."""
    longest = lines = pauses = 0

    def trace(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        while True:
            lines = 0
            try:
                next(steps)
            except StopIteration as end:
                return max(longest, lines), pauses, end.value
            longest, pauses = max(longest, lines), pauses + 1
    finally:
        sys.settrace(before)


def expiring(talk: Any) -> Steps[Effects]:
    """The calls by which the coordinator removes members whose time is up."""
    total = Effects()
    while (deadline := talk.coordinator.next_deadline()) is not None and deadline <= talk.now.ms:
        effects = talk.coordinator.expire(talk.now)
        total.replies.extend(effects.replies)
        total.records.extend(effects.records)
        yield
    return total


def classic_members(talk: Consumers, count: int, topics: tuple[str, ...]) -> list[str]:
    """Members of a stable classic group that subscribe to the topics and share their partitions."""
    protocols = (("range", subscription(topics=topics)),)
    joined = [talk.join_twice(protocols=protocols) for _ in range(count)]
    talk.wait(6_000)
    ids = [member_id for member_id, _ in joined]
    shares = {each: assignment({name: {0} for name in topics[at::count]}) for at, each in enumerate(ids)}
    for member_id in reversed(ids):
        talk.sync(member_id, 1, shares if member_id == ids[0] else None, protocol="range")
    assert talk.state() == "Stable"
    return ids


def upgraded(talk: Consumers, count: int, topics: tuple[str, ...] = NAMES) -> list[str]:
    """The classic members of a consumer group with one member of its own protocol, "a"."""
    ids = classic_members(talk, count, topics)
    assert talk.enter("a", topics[:1]).error is ErrorCode.NONE
    return ids


def leaving(talk: Any, *member_ids: str) -> tuple[Ask, Steps[Effects]]:
    ask = Ask()
    members = [LeavingMember(each) for each in member_ids]
    return ask, talk.coordinator.classic.leave("g", members, ask, talk.now)


MEMBERS = 24


def test_members_leave_a_large_consumer_group_in_pieces() -> None:
    talk = crowded()
    for member_id in "abc":
        talk.enter(member_id, NAMES)
    ask, steps = talk.begin("a", -1)
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.NONE
    assert lines < PIECE_LINES
    assert pauses >= 3
    assert set(talk.group().members) == {"b", "c"}
    assert talk.reborn().snapshot() == talk.snapshot()


def test_classic_members_leave_a_large_consumer_group_in_pieces() -> None:
    talk = crowded()
    ids = upgraded(talk, MEMBERS)
    ask, steps = leaving(talk, *ids[:16], "nobody", ids[0])
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert ask.reply.errors == (ErrorCode.NONE,) * 16 + (unknown, unknown)
    assert lines < PIECE_LINES
    assert pauses > 16
    assert set(talk.group().members) == {"a", *ids[16:]}
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_leave_that_is_dropped_has_changed_nothing() -> None:
    talk = crowded()
    ids = upgraded(talk, MEMBERS)
    before = talk.snapshot()
    _, steps = leaving(talk, *ids[:16])
    for _ in range(20):
        next(steps)
    steps.close()
    assert talk.snapshot() == before


@pytest.mark.usefixtures("each_step_is_a_slice")
@pytest.mark.parametrize("count", [1, 3])
def test_members_of_a_large_consumer_group_expire_in_pieces(count: int) -> None:
    talk = crowded()
    for member_id in "abcd":
        talk.enter(member_id, NAMES)
    talk.wait(SESSION_MS - 1)
    for member_id in "abcd"[count:]:
        talk.beat(member_id, talk.group().members[member_id].epoch)
    epoch = talk.group().epoch
    talk.elapsed += 1
    lines, pauses, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert lines < PIECE_LINES
    assert pauses > 2 * count
    assert set(talk.group().members) == set("abcd"[count:])
    assert talk.group().epoch == epoch + 1
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.usefixtures("each_step_is_a_slice")
def test_a_member_that_is_heard_from_while_its_group_changes_does_not_expire() -> None:
    talk = crowded()
    for member_id in "abc":
        talk.enter(member_id, NAMES)
    talk.wait(SESSION_MS - 1)
    talk.beat("c", talk.group().members["c"].epoch)
    talk.elapsed += 1
    pieces = expiring(talk)
    for _ in range(4):
        next(pieces)
    assert set(talk.group().members) == {"a", "b", "c"}
    assert talk.beat("b", talk.group().members["b"].epoch).error is ErrorCode.NONE
    run_through(pieces)
    assert set(talk.group().members) == {"b", "c"}
    talk.wait(SESSION_MS - 1)
    assert set(talk.group().members) == {"b"}
    talk.wait(1)
    assert not talk.group().members


def test_other_groups_expire_while_a_large_one_does() -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.enter("b", ("t",), group="small")
    talk.elapsed += SESSION_MS
    talk._take(talk.coordinator.expire(talk.now))
    assert set(talk.group().members) == {"a"}
    assert not talk.group("small").members
    talk.wait(0)
    assert not talk.group().members


def test_an_expiry_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = crowded()
    talk.enter("a", NAMES)
    talk.elapsed += SESSION_MS
    failures: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(migration, "remove_members", lambda *_: 1 // 0)
        while (deadline := talk.coordinator.next_deadline()) is not None and deadline <= talk.now.ms:
            talk.coordinator.expire(talk.now, lambda group_id, error: failures.append(f"{group_id} {error}"))
    assert len(failures) == 1
    assert failures[0].startswith("g ")
    talk.wait(FAILED_TIMER_RETRY_MS - 1)
    assert set(talk.group().members) == {"a"}
    talk.wait(1)
    assert not talk.group().members


@pytest.mark.usefixtures("each_step_is_a_slice")
def test_members_of_a_large_share_group_leave_and_expire_in_pieces() -> None:
    talk = shared(0)
    talk.ready("a", "b", "c", topics=NAMES)
    talk.beat("a", -1)
    talk.elapsed += SESSION_MS
    lines, pauses, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert lines < PIECE_LINES
    assert pauses > MANY // SLICE
    assert not talk.group().members
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_large_classic_group_becomes_a_consumer_group_in_pieces() -> None:
    talk = crowded()
    ids = classic_members(talk, MEMBERS, NAMES)
    ask, steps = entering(talk, "a", NAMES[:1])
    for _ in range(20):
        next(steps)
    assert talk.state() == "Stable"
    assert talk.heartbeat(ids[0], 1) is ErrorCode.NONE
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.NONE
    assert lines < PIECE_LINES
    assert pauses > MEMBERS * MANY
    assert set(talk.group().members) == {"a", *ids}
    assert talk.reborn().snapshot() == talk.snapshot()
    talk.wait(10_000)  # the session timeout of the classic members
    assert set(talk.group().members) == {"a"}


def test_a_classic_group_that_changes_meanwhile_is_converted_as_it_is_then() -> None:
    talk = crowded()
    ids = classic_members(talk, MEMBERS, NAMES)
    ask, steps = entering(talk, "a", NAMES[:1])
    for _ in range(30):
        next(steps)
    talk.leave(ids[0])
    parked = talk.join(ids[1], protocols=(("range", subscription(topics=NAMES)),))
    assert talk.end(ask, steps).error is ErrorCode.NONE
    assert parked.reply.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(talk.group().members) == {"a", *ids[1:]}
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_conversion_that_cannot_be_written_is_undone() -> None:
    talk = crowded()
    ids = classic_members(talk, MEMBERS, NAMES)
    before = talk.members()
    _, steps = entering(talk, "a", NAMES[:1])
    undone = failing(talk, run_through(steps))
    assert [reply.error for _, reply in undone.replies] == [ErrorCode.NOT_COORDINATOR]
    assert talk.state() == "Stable"
    assert talk.members() == before
    assert talk.heartbeat(ids[0], 1) is ErrorCode.NONE


@pytest.mark.usefixtures("each_step_is_a_slice")
@pytest.mark.parametrize("expires", [False, True])
def test_a_large_consumer_group_becomes_a_classic_group_in_pieces(expires: bool) -> None:
    talk = crowded(min_session_timeout_ms=5_000, session_timeout_ms=5_000)
    ids = upgraded(talk, MEMBERS)
    if expires:
        talk.elapsed += 5_000
        steps = expiring(talk)
    else:
        _, steps = talk.begin("a", -1)
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert lines < PIECE_LINES
    assert pauses > MEMBERS // 2
    assert talk.state() == "PreparingRebalance"
    assert set(talk.members()) == set(ids)
    generation = talk.coordinator.groups.by_id["g"].generation_id
    assert talk.heartbeat(ids[0], generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert talk.restarted(max_group_bytes=1_000_000).members().keys() == set(ids)


def test_a_consumer_of_many_topics_joins_a_group_of_offsets_in_pieces() -> None:
    talk = crowded()
    talk.commit()
    ask, steps = entering(talk, "a")
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.NONE
    assert lines < PIECE_LINES
    assert pauses > 5 * MANY
    assert talk.committed() == 42


@pytest.mark.parametrize(("ms", "waits"), [(0, True), (999, True), (1_000, False), (1_001, False)])
def test_members_that_join_within_the_interval_are_assigned_together(ms: int, waits: bool) -> None:
    talk = crowded(assignment_interval_ms=1_000)
    assert len(talk.enter("a", NAMES).assignment) == MANY
    talk.wait(ms)
    reply = talk.enter("b", NAMES)
    group = talk.group()
    if not waits:
        assert (reply.epoch, group.epoch, group.target_epoch) == (3, 3, 3)
        return
    assert (reply.error, reply.epoch, reply.assignment) == (ErrorCode.NONE, 2, {})
    assert talk.enter("c", NAMES).epoch == 2
    assert (group.epoch, group.target_epoch, group.state.value) == (4, 2, "Assigning")
    assert talk.beat("a", 2).epoch == 2
    assert talk.reborn().snapshot() == talk.snapshot()
    talk.wait(1_000 - ms)
    assert talk.beat("b", 2).epoch == 4
    assert group.target_epoch == 4
    assert sorted(map(len, group.targets.values())) == [MANY // 3, (MANY + 1) // 3, (MANY + 2) // 3]
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_member_that_subscribes_to_something_else_does_not_wait() -> None:
    talk = crowded(assignment_interval_ms=1_000)
    talk.enter("a", NAMES)
    reply = talk.beat("a", 2, topics=NAMES[1:])
    assert talk.group().target_epoch == 3
    assert len(reply.assignment) == MANY - 1


def test_a_classic_member_does_not_wait() -> None:
    talk = crowded(assignment_interval_ms=1_000)
    talk.enter("a", NAMES)
    _, ask = talk.join_twice(protocols=(("range", subscription(topics=NAMES)),))
    assert (ask.reply.error, ask.reply.generation_id) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize(("partitions", "waits"), [(SMALL // 2 - 3, False), (SMALL, True)])
def test_only_a_large_group_waits_for_the_interval(partitions: int, waits: bool) -> None:
    talk = Consumers()
    talk.set_topics(t=partitions)
    talk.enter("a")
    talk.enter("b")
    assert talk.group().target_epoch == (2 if waits else 3)


def test_a_failed_write_leaves_the_time_of_the_last_assignment() -> None:
    talk = crowded(assignment_interval_ms=1_000)
    talk.enter("a", NAMES)
    talk.wait(1_000)
    _, steps = entering(talk, "b")
    failing(talk, run_through(steps))
    assert talk.enter("b", NAMES).epoch == 3


@pytest.mark.parametrize(("ms", "waits"), [(0, True), (999, True), (1_000, False)])
def test_members_of_a_share_group_are_assigned_together(ms: int, waits: bool) -> None:
    talk = shared(1_000)
    talk.ready("a", topics=NAMES)
    talk.wait(1_000)
    talk.enter("b", NAMES)
    group = talk.group()
    assigned = group.target_epoch
    assert assigned == group.epoch
    talk.wait(ms)
    reply = talk.enter("c", NAMES)
    if not waits:
        assert (reply.epoch, group.target_epoch) == (assigned + 1, assigned + 1)
        return
    assert (reply.epoch, reply.assignment) == (assigned, {})
    talk.enter("d", NAMES)
    assert (group.epoch, group.target_epoch) == (assigned + 2, assigned)
    talk.wait(1_000 - ms)
    reply = talk.beat("d", assigned)
    assert reply.epoch == group.target_epoch == assigned + 2
    assert sum(map(len, group.targets.values())) == MANY
    assert talk.reborn().snapshot() == talk.snapshot()
