"""A task has one owner at any time, a process has it once, and copies change their role without a pause.

The cases of several roles are those of Kafka's CurrentAssignmentBuilder.
"""

import random

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.streams.assignor import NOTHING
from broker.coordinator.group.streams.member import MemberState, StreamsMember
from broker.coordinator.group.streams.owners import Role, TaskOwners
from broker.coordinator.group.streams.reconciliation import reconciled
from broker.coordinator.group.streams.tasks import NO_MEMBER_TASKS, MemberTasks
from tests.coordinator.group.streams.streamers import (
    REBALANCE_MS,
    SESSION_MS,
    Streamers,
    Thread,
    settle,
    tasks,
)

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS


def test_a_task_is_revoked_before_another_member_receives_it(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    a.act()
    joined = b.enter()
    # The group and the target are at epoch 3, and so is b, which has nothing to revoke and waits.
    assert (joined.epoch, joined.tasks) == (3, NOTHING)
    assert talk.group().members["b"].state is UNRELEASED
    assert talk.described().state == "Reconciling"
    # a keeps its epoch while it revokes.
    assert (a.beat().epoch, a.target) == (2, tasks({"0": {0, 1}}))
    assert talk.group().members["a"].state is UNREVOKED
    assert b.beat().tasks is None
    a.act()
    assert a.beat().epoch == 3
    assert b.beat().tasks == tasks({"0": {2, 3}})
    assert talk.described().state == "Stable"


def test_the_threads_of_one_process_share_its_tasks(talk):
    threads = [Thread(talk, each, "p") for each in "abc"]
    for each in threads:
        each.enter()
    settle(*threads)
    assert sorted(len(each.running.active["0"]) for each in threads) == [1, 1, 2]


def test_a_standby_is_in_another_process(talk):
    talk.group_configs["g"] = {"streams.num.standby.replicas": "1"}
    threads = [Thread(talk, each, each[0]) for each in ("p1", "p2", "q1")]
    for each in threads:
        each.enter()
    settle(*threads)
    for process in "pq":
        of_process = [each for each in threads if each.process == process]
        active = [index for each in of_process for index in each.running.active.get("0", ())]
        standby = [index for each in of_process for index in each.running.standby.get("0", ())]
        assert sorted(active + standby) == [0, 1, 2, 3]
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_standby_takes_over_the_tasks_of_a_process_that_is_gone(talk):
    talk.group_configs["g"] = {"streams.num.standby.replicas": "1"}
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter()
    b.enter()
    settle(a, b)
    talk.beat("a", -1)
    settle(b)
    assert b.running == tasks({"0": {0, 1, 2, 3}})


# One step


def member(
    state: MemberState = STABLE,
    epoch: int = 2,
    assigned: MemberTasks = NO_MEMBER_TASKS,
    revoking: MemberTasks = NO_MEMBER_TASKS,
) -> StreamsMember:
    return StreamsMember(
        "m",
        process_id="p",
        epoch=epoch,
        previous_epoch=epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )


def owners(**others: MemberTasks) -> TaskOwners:
    """The owners of tasks, by process."""
    found = TaskOwners()
    for process_id, some in others.items():
        run_through(found.add(process_id, some))
    return found


def step(one, target, held=None, owned=None, epoch=3):
    held = held or owners()
    for some in (one.assigned, one.revoking):
        run_through(held.add(one.process_id, some))
    return run_through(reconciled(one, epoch, target, held, owned))


def active(*indexes: int, epoch: int = 2) -> MemberTasks:
    return MemberTasks({"0": dict.fromkeys(indexes, epoch)})


def standby(*indexes: int) -> MemberTasks:
    return MemberTasks({}, {"0": frozenset(indexes)})


def warmup(*indexes: int) -> MemberTasks:
    return MemberTasks({}, {}, {"0": frozenset(indexes)})


def test_a_member_at_the_target_stays():
    one = member(epoch=3, assigned=active(0))
    assert step(one, tasks({"0": {1}})) is one


def test_tasks_that_a_member_keeps_keep_their_epochs():
    after = step(member(assigned=active(0)), tasks({"0": {0, 1}}))
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 3, 2)
    assert after.assigned == MemberTasks({"0": {0: 2, 1: 3}})


def test_a_member_revokes_first():
    after = step(member(assigned=active(0, 1)), tasks({"0": {1, 2}}))
    assert (after.state, after.epoch) == (UNREVOKED, 2)
    assert (after.assigned, after.revoking) == (active(1), active(0))
    # It goes on when it reports that it has given the tasks up.
    assert step(after, tasks({"0": {1, 2}})) is after
    assert step(after, tasks({"0": {1, 2}}), owned=tasks({"0": {0, 1}})) is after
    moved = step(after, tasks({"0": {1, 2}}), owned=tasks({"0": {1}}))
    assert (moved.state, moved.epoch, moved.assigned) == (STABLE, 3, MemberTasks({"0": {1: 2, 2: 3}}))


def test_a_member_that_has_given_a_task_up_already_need_not_be_asked():
    after = step(member(assigned=active(0, 1)), tasks({"0": {1}}), owned=tasks({"0": {1}}))
    assert (after.state, after.epoch, after.assigned) == (STABLE, 3, active(1))


def test_a_revocation_that_ends_in_a_later_target_goes_on_with_the_next_epoch():
    one = member(UNREVOKED, 2, active(1), active(0))
    after = step(one, tasks({"0": {2}}), owned=tasks({"0": {1}}), epoch=5)
    assert (after.state, after.epoch, after.revoking) == (UNREVOKED, 3, active(1))


@pytest.mark.parametrize("process", ["p", "q"])
def test_an_active_task_waits_until_no_member_has_it(process):
    after = step(member(), tasks({"0": {0, 1}}), owners(**{process: active(0)}))
    assert (after.state, after.epoch, after.assigned) == (UNRELEASED, 3, active(1, epoch=3))
    after = step(after, tasks({"0": {0, 1}}), owners())
    assert (after.state, after.assigned) == (STABLE, active(0, 1, epoch=3))


@pytest.mark.parametrize(
    ("held", "waits"),
    [
        (owners(q=active(0)), False),
        (owners(q=standby(0)), False),
        (owners(q=warmup(0)), False),
        (owners(p=active(0)), True),
        (owners(p=standby(0)), True),
        (owners(p=warmup(0)), True),
    ],
)
@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_a_copy_waits_until_no_member_of_its_process_has_the_task(held, waits, role):
    after = step(member(), tasks(**{role: {"0": {0}}}), held.copy())
    assert after.state is (UNRELEASED if waits else STABLE)
    assert getattr(after.assigned, role) == ({} if waits else {"0": frozenset({0})})


@pytest.mark.parametrize("held", [owners(p=standby(0)), owners(p=warmup(0))])
def test_an_active_task_waits_for_a_copy_in_another_member_of_its_process(held):
    assert step(member(), tasks({"0": {0}}), held.copy()).state is UNRELEASED
    assert step(member(), tasks({"0": {0}}), owners(q=standby(0))).state is STABLE


def test_an_active_task_becomes_a_standby_after_it_is_revoked():
    one = member(assigned=active(0))
    after = step(one, tasks({}, {"0": {0}}))
    assert (after.state, after.epoch) == (UNREVOKED, 2)
    assert (after.assigned, after.revoking) == (standby(0), active(0))
    after = step(after, tasks({}, {"0": {0}}), owned=NOTHING)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 3, standby(0))


@pytest.mark.parametrize(("was", "role"), [(standby(0), "warmup"), (warmup(0), "standby")])
def test_a_copy_changes_its_role_at_once(was, role):
    after = step(member(assigned=was), tasks(**{role: {"0": {0}}}))
    assert (after.state, after.epoch, after.revoking) == (STABLE, 3, MemberTasks())
    assert after.assigned == (warmup(0) if role == "warmup" else standby(0))


@pytest.mark.parametrize("was", [standby(0), warmup(0)])
def test_a_copy_becomes_active_without_being_revoked(was):
    after = step(member(assigned=was), tasks({"0": {0}}))
    assert (after.state, after.assigned) == (STABLE, active(0, epoch=3))
    # It stays what it is as long as another member has the task, or this one has others to revoke.
    after = step(member(assigned=was), tasks({"0": {0}}), owners(q=active(0)))
    assert (after.state, after.assigned, after.revoking) == (UNRELEASED, was, MemberTasks())
    both = MemberTasks({"0": {1: 2}}, was.standby, was.warmup)
    after = step(member(assigned=both), tasks({"0": {0}}))
    assert (after.state, after.assigned, after.revoking) == (UNREVOKED, was, active(1))


@pytest.mark.parametrize("owned", [None, tasks({"0": {0}}), tasks({}, {"0": {0}}), tasks({}, {}, {"0": {0}})])
def test_a_member_in_an_unknown_state_has_to_give_everything_up(owned):
    with pytest.raises(ApiError) as refused:
        step(member(MemberState.UNKNOWN), tasks({"0": {0}}), owned=owned)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = step(member(MemberState.UNKNOWN), tasks({"0": {0}}), owned=NOTHING)
    assert (after.state, after.epoch) == (STABLE, 3)


def test_owners_count_only_what_a_process_has():
    held = owners(p=active(0, 1), q=standby(0))
    run_through(held.remove("q", active(1)))
    run_through(held.remove("p", active(1)))
    assert held.active("0") == {0}
    assert held.of_process("p", Role.ACTIVE, "0") == {0}
    assert held.of_process("q", Role.STANDBY, "0") == {0}
    assert held == owners(p=active(0), q=standby(0))


# Time


def test_a_member_that_does_not_revoke_in_time_is_removed(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter(rebalance_timeout_ms=10_000)
    a.act()
    b.enter()
    a.beat()
    assert talk.group().members["a"].state is UNREVOKED
    talk.wait(9_999)
    a.beat()
    assert set(talk.group().members) == {"a", "b"}
    talk.wait(1)
    assert set(talk.group().members) == {"b"}
    assert a.beat().error is ErrorCode.UNKNOWN_MEMBER_ID
    settle(b)
    assert b.running == tasks({"0": {0, 1, 2, 3}})


def test_a_member_that_revokes_in_time_stays(talk):
    a, b = Thread(talk, "a"), Thread(talk, "b")
    a.enter(rebalance_timeout_ms=10_000)
    a.act()
    b.enter()
    a.beat()
    talk.wait(9_999)
    a.act()
    a.beat()
    talk.wait(10_000)
    a.beat()
    b.beat()
    talk.wait(REBALANCE_MS // 2)
    assert set(talk.group().members) == {"a", "b"}


def test_a_member_without_heartbeats_is_removed_after_its_session(talk):
    talk.enter("a")
    talk.wait(SESSION_MS - 1)
    talk.beat("a", 2)
    talk.wait(SESSION_MS - 1)
    assert set(talk.group().members) == {"a"}
    talk.wait(1)
    assert not talk.group().members
    assert talk.group().state.value == "Empty"
    assert talk.reborn().snapshot() == talk.snapshot()


def test_a_group_can_have_its_own_session(talk):
    talk.group_configs["g"] = {"streams.session.timeout.ms": "50000"}
    talk.enter("a")
    talk.wait(49_999)
    assert set(talk.group().members) == {"a"}
    talk.wait(1)
    assert not talk.group().members


@pytest.mark.parametrize("seed", range(25))
def test_no_task_ever_has_two_owners(seed):
    chance = random.Random(seed)
    talk = Streamers()
    talk.group_configs["g"] = {"streams.num.standby.replicas": str(chance.randrange(3))}
    threads: dict[str, Thread] = {}
    count = 4
    for _ in range(120):
        member_id = chance.choice("abcdef")
        known = threads.get(member_id)
        if known is None:
            threads[member_id] = Thread(talk, member_id, chance.choice("pqr"))
            threads[member_id].enter()
        elif chance.random() < 0.1:
            talk.beat(member_id, -1)
            del threads[member_id]
        else:
            if chance.random() < 0.7:
                known.act()
            assert known.beat().error is ErrorCode.NONE
        if chance.random() < 0.05:
            count += chance.randrange(3)
            talk.set_topics(**{"t": count, "app-counts-changelog": count})
        if "g" in talk.coordinator.groups.by_id:
            talk.snapshot()
            seen: set[tuple[str, int]] = set()
            for each in talk.group().members.values():
                for some in (each.assigned, each.revoking):
                    for subtopology_id, indexes in some.active.items():
                        for index in indexes:
                            assert (subtopology_id, index) not in seen
                            seen.add((subtopology_id, index))
    if threads:
        settle(*threads.values())
        assert talk.described().state in ("Stable", "NotReady")
        assert talk.reborn().snapshot() == talk.snapshot()
