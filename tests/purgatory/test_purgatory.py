"""Watching, completing, expiring and cancelling: each operation settles once, and the gauges are exact.
(Kafka: DelayedOperationTest)
"""

import random
from collections import Counter

import pytest

from broker.purgatory.purgatory import DelayedOperation, OperationState, Purgatory

NOW = 1_700_000_000_000


class Promise(DelayedOperation):
    """An operation that is ready when the test says so."""

    __slots__ = ("attempts", "ready")

    def __init__(self, timeout_ms: int = 100_000) -> None:
        super().__init__(timeout_ms)
        self.ready = False
        self.attempts = 0

    def is_ready(self) -> bool:
        self.attempts += 1
        return self.ready


class Gathering(DelayedOperation):
    """An operation that waits for several results until the timeout, like Kafka's DelayedFuturePurgatory."""

    __slots__ = ("answers", "wanted")

    def __init__(self, wanted: int, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.wanted = wanted
        self.answers: list[int] = []

    def is_ready(self) -> bool:
        return len(self.answers) == self.wanted


@pytest.fixture
def purgatory() -> Purgatory[Promise]:
    return Purgatory("Fetch")


def test_a_ready_operation_completes_at_once_and_is_not_watched(purgatory):
    promise = Promise()
    promise.ready = True
    assert purgatory.try_complete_else_watch(promise, ["key"], NOW)
    assert promise.outcome is OperationState.COMPLETED
    assert (purgatory.watched, purgatory.delayed, purgatory.next_deadline()) == (0, 0, None)


def test_checking_a_key_completes_once_what_has_become_ready():
    purgatory: Purgatory[Promise] = Purgatory("Fetch")
    assert purgatory.check_and_complete("test1") == []
    first, second = Promise(), Promise()
    assert not purgatory.try_complete_else_watch(first, ["test1"], NOW)
    assert purgatory.check_and_complete("test1") == []
    assert not purgatory.try_complete_else_watch(second, ["test2"], NOW)
    assert purgatory.check_and_complete("test2") == []
    first.ready = True
    assert purgatory.check_and_complete("test1") == [first]
    assert purgatory.check_and_complete("test1") == []
    second.ready = True
    assert purgatory.check_and_complete("test2") == [second]
    assert purgatory.check_and_complete("test2") == []


@pytest.mark.parametrize(("later", "expired"), [(19, False), (20, True), (21, True)])
def test_an_operation_expires_exactly_at_its_time_out(purgatory, later, expired):
    short, long = Promise(timeout_ms=20), Promise(timeout_ms=200_000)
    assert not purgatory.try_complete_else_watch(short, ["test1"], NOW)
    assert not purgatory.try_complete_else_watch(long, ["test2"], NOW)
    assert purgatory.expire(NOW + later) == ([short] if expired else [])
    assert short.settled is expired and not long.settled
    assert short.outcome is (OperationState.EXPIRED if expired else OperationState.WAITING)


def test_operations_expire_by_time_whatever_the_order_in_which_they_came(purgatory):
    late, early = Promise(timeout_ms=30), Promise(timeout_ms=10)
    purgatory.try_complete_else_watch(late, ["key"], NOW)
    purgatory.try_complete_else_watch(early, ["key"], NOW)
    assert purgatory.expire(NOW + 30) == [early, late]


def test_a_time_out_of_zero_expires_at_the_next_look(purgatory):
    promise = Promise(timeout_ms=0)
    assert not purgatory.try_complete_else_watch(promise, ["key"], NOW)
    assert purgatory.next_deadline() == NOW
    assert purgatory.expire(NOW) == [promise]


def test_completed_operations_leave_the_timer_at_once_and_the_lists_when_checked(purgatory):
    first, second, third = Promise(), Promise(), Promise()
    purgatory.try_complete_else_watch(first, ["test1"], NOW)
    purgatory.try_complete_else_watch(second, ["test1", "test2"], NOW)
    purgatory.try_complete_else_watch(third, ["test1", "test2", "test3"], NOW)
    assert (purgatory.delayed, purgatory.watched) == (3, 6)
    second.ready = True
    assert second.try_complete() and purgatory.delayed == 2
    third.ready = True
    assert third.try_complete() and purgatory.delayed == 1
    purgatory.check_and_complete("test1")
    assert purgatory.watched == 4
    purgatory.check_and_complete("test2")
    assert purgatory.watched == 2
    purgatory.check_and_complete("test3")
    assert purgatory.watched == 1


def test_an_operation_whose_client_has_gone_is_neither_completed_nor_expired(purgatory):
    promise = Promise(timeout_ms=10)
    purgatory.try_complete_else_watch(promise, ["key"], NOW)
    assert purgatory.cancel(promise)
    assert not purgatory.cancel(promise)
    promise.ready = True
    assert purgatory.check_and_complete("key") == []
    assert purgatory.expire(NOW + 10) == []
    assert (purgatory.delayed, purgatory.watched) == (0, 0)


def test_several_answers_are_gathered_until_the_last_or_the_time_out():
    purgatory: Purgatory[Gathering] = Purgatory("Future")
    at_once = Gathering(wanted=2, timeout_ms=2_000)
    at_once.answers += [10, 11]
    assert purgatory.try_complete_else_watch(at_once, ["op"], NOW) and sum(at_once.answers) == 21

    one_by_one = Gathering(wanted=2, timeout_ms=2_000)
    assert not purgatory.try_complete_else_watch(one_by_one, ["op"], NOW)
    one_by_one.answers.append(20)
    assert purgatory.check_and_complete("op") == []
    one_by_one.answers.append(21)
    assert purgatory.check_and_complete("op") == [one_by_one] and sum(one_by_one.answers) == 41

    one_missing = Gathering(wanted=2, timeout_ms=2_000)
    one_missing.answers.append(40)
    assert not purgatory.try_complete_else_watch(one_missing, ["op"], NOW)
    assert purgatory.expire(NOW + 1_999) == []
    assert purgatory.expire(NOW + 2_000) == [one_missing] and sum(one_missing.answers) == 40


def test_every_operation_ends_exactly_once_however_the_attempts_interleave():
    # A hundred operations, with twenty attempts each from every side.
    chance = random.Random(74)
    purgatory: Purgatory[Promise] = Purgatory("Produce", purge_interval=10)
    promises = [Promise(timeout_ms=chance.randrange(1, 200)) for _ in range(100)]
    ended: Counter[Promise] = Counter()
    for promise in promises:
        keys = chance.sample(range(20), k=3)
        if purgatory.try_complete_else_watch(promise, keys, NOW):
            ended[promise] += 1
    attempts = promises * 20
    chance.shuffle(attempts)
    for at, promise in enumerate(attempts):
        promise.ready = promise.ready or chance.random() < 0.1
        match chance.randrange(4):
            case 0:
                ended.update([promise] if promise.try_complete() else [])
            case 1:
                ended.update([promise] if purgatory.cancel(promise) else [])
            case 2:
                ended.update(purgatory.expire(NOW + at // 10))
            case _:
                ended.update(purgatory.check_and_complete(chance.randrange(20)))
    ended.update(purgatory.expire(NOW + 1_000))
    assert ended == Counter(promises)
    assert purgatory.delayed == 0


@pytest.mark.parametrize(("settled", "left"), [(9, 9), (10, 10), (11, 0)])
def test_the_lists_are_purged_when_more_than_the_interval_have_settled(settled, left):
    purgatory: Purgatory[Promise] = Purgatory("Fetch", purge_interval=10)
    for _ in range(settled):
        promise = Promise()
        purgatory.try_complete_else_watch(promise, ["quiet"], NOW)
        purgatory.cancel(promise)
    purgatory.expire(NOW)
    assert purgatory.watched == left


def test_a_purge_keeps_what_still_waits(purgatory):
    purgatory.purge_interval = 1
    waiting = Promise()
    purgatory.try_complete_else_watch(waiting, ["quiet"], NOW)
    for _ in range(5):
        promise = Promise()
        purgatory.try_complete_else_watch(promise, ["quiet"], NOW)
        purgatory.cancel(promise)
    purgatory.expire(NOW)
    waiting.ready = True
    assert purgatory.check_and_complete("quiet") == [waiting]


def test_an_interval_of_zero_keeps_nothing_that_has_settled():
    # Kafka's RemoteFetch, whose operations hold large buffers.
    purgatory: Purgatory[Promise] = Purgatory("RemoteFetch", purge_interval=0)
    settled, other = Promise(), Promise()
    purgatory.try_complete_else_watch(settled, ["a", "b"], NOW)
    purgatory.cancel(settled)
    assert purgatory.watched == 2
    purgatory.try_complete_else_watch(other, ["a"], NOW)
    assert purgatory.watched == 1


class Counted(Promise):
    """Counts look-ups in a table."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Counted.looks += 1
        return id(self)


def looks_per_operation(pending: int) -> float:
    """Count the look-ups of one arrival, one cancellation and their purges while others wait."""
    purgatory: Purgatory[Counted] = Purgatory("Fetch", purge_interval=100)
    for number in range(pending):
        purgatory.try_complete_else_watch(Counted(60_000 + number % 40_000), [number, "all"], NOW)
    Counted.looks = 0
    for number in range(2_000):
        counted = Counted(60_000 + number)
        purgatory.try_complete_else_watch(counted, [-number, "many"], NOW)
        purgatory.cancel(counted)
    assert purgatory.delayed == pending and purgatory.watched < 2 * pending + 500
    return Counted.looks / 2_000


def test_the_cost_of_an_operation_does_not_depend_on_how_many_wait():
    assert looks_per_operation(10_000) == looks_per_operation(10) < 20


def test_watching_one_key_twice_counts_once(purgatory):
    purgatory.try_complete_else_watch(Promise(), ["key", "key"], NOW)
    assert purgatory.watched == 1


def test_a_settled_operation_is_not_asked_again(purgatory):
    promise = Promise()
    purgatory.try_complete_else_watch(promise, ["a", "b"], NOW)
    promise.ready = True
    purgatory.check_and_complete("a")
    before = promise.attempts
    purgatory.check_and_complete("b")
    assert promise.attempts == before


class Any(DelayedOperation):
    """Shown every key; ready for the key that it waits for."""

    __slots__ = ("seen", "unwatch", "wanted")

    def __init__(self, wanted: str) -> None:
        super().__init__(1_000)
        self.wanted = wanted
        self.seen: list[object] = []

    def is_ready(self) -> bool:
        return self.wanted in self.seen

    def try_complete(self, key: object = None) -> bool:
        self.seen.append(key)
        return super().try_complete(key)

    def settle(self, outcome: OperationState) -> bool:
        settled = super().settle(outcome)
        if settled:
            self.unwatch(self)
        return settled


def watching_any(purgatory: Purgatory[DelayedOperation], wanted: str) -> Any:
    operation = Any(wanted)
    operation.unwatch = purgatory.watch_any(operation)
    assert not purgatory.try_complete_else_wait(operation, NOW)
    return operation


def test_an_operation_that_watches_any_key_is_shown_each_and_is_listed_once():
    purgatory = Purgatory("Fetch")
    operation = watching_any(purgatory, "b")
    assert (purgatory.watched, purgatory.delayed) == (1, 1)
    assert purgatory.check_and_complete("a") == []
    assert purgatory.check_and_complete("b") == [operation]
    assert operation.seen == [None, "a", "b"] and operation.outcome is OperationState.COMPLETED
    assert (purgatory.watched, purgatory.delayed, len(purgatory.any_watchers)) == (0, 0, 0)


def test_one_that_watches_any_key_is_unlisted_when_it_expires_or_is_cancelled():
    purgatory = Purgatory("Fetch")
    first, second = watching_any(purgatory, "b"), watching_any(purgatory, "b")
    assert purgatory.cancel(first) and purgatory.watched == 1
    assert purgatory.expire(NOW + 999) == []
    assert purgatory.expire(NOW + 1_000) == [second]
    assert (purgatory.watched, purgatory.delayed) == (0, 0)


@pytest.mark.parametrize(("limit", "completed"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_the_limit_counts_those_that_watch_the_key_and_those_that_watch_any(limit, completed):
    purgatory = Purgatory("Fetch")
    promise = Promise()
    purgatory.try_complete_else_watch(promise, ["b"], NOW)
    promise.ready = True
    for _ in range(2):
        watching_any(purgatory, "b")
    assert len(purgatory.check_and_complete("b", limit)) == completed
    assert purgatory.watched == 3 - completed
