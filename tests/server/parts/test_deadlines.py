"""Each reaper of a running broker fires on the millisecond of a deadline, whether a request, another task or
its own turn adds it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.clock import BASE_MS
from broker.coordinator.group.share.group import ShareGroup
from broker.coordinator.group.share.state_partitions import NamedPartitions, StatePartitions
from broker.coordinator.group.timers import GroupTimer, TimerKind
from broker.coordinator.share.share_partition import Lock
from broker.coordinator.share.states import SharePartitionKey
from broker.coordinator.transaction.coordinator import RETRY_MS
from broker.coordinator.transaction.state import Transaction, TransactionData, TransactionState
from broker.network.reaper import Reaper
from broker.network.throttling import BROKER_QUOTA, REAPERS, THROTTLE_COMPLIANCE
from broker.purgatory.purgatory import DelayedOperation, Purgatory
from broker.quotas.kinds import QuotaKind
from broker.quotas.throttled import ThrottledChannels
from broker.server.broker import BrokerServer
from tests.quotas.scene import Connection
from tests.quotas.test_throttled import throttle
from tests.support.punctual import reapers_of
from tests.support.running import running_broker

Add = Callable[[int], None]
"""Adds a deadline after this number of milliseconds."""

RETENTION_CHECK_MS: Final = BASE_MS + 600_000

KEY: Final = SharePartitionKey("group", b"t" * 16, 0)


class Never(DelayedOperation):
    def is_ready(self) -> bool:
        return False


def _to_purgatory(server: BrokerServer, purgatory: Any) -> Add:
    expire = purgatory.expire

    def expire_without_response(now_ms: int, limit: int | None = None) -> list[DelayedOperation]:
        expire(now_ms, limit)
        return []

    purgatory.expire = expire_without_response
    return lambda ms: purgatory.try_complete_else_watch(Never(ms), ("key",), server.clock.ms()) and None


def _to_groups(server: BrokerServer) -> Add:
    timers = server.delayed.groups.groups.coordinator.groups.timers
    return lambda ms: timers.set(GroupTimer(TimerKind.SESSION, "missing"), server.clock.ms() + ms)


def _to_locks(server: BrokerServer) -> Add:
    def add(ms: int) -> None:
        lock = Lock(KEY, "member", server.clock.ms() + ms)
        lock.runs = 1
        server.delayed.share.share.hold(lock)

    return add


def _to_throttled(server: BrokerServer, throttled: ThrottledChannels, kind: QuotaKind) -> Add:
    pop_expired: Any = throttled.pop_expired

    def free_without_connection(now_ms: int) -> None:
        while pop_expired(now_ms) is not None:
            pass

    setattr(throttled, "pop_expired", free_without_connection)  # noqa: B010 - mypy
    connections = (Connection(str(number)) for number in range(9))
    return lambda ms: throttled.add(next(connections), "token", throttle(ms, kind), server.clock.ms())


def _to_compliance(server: BrokerServer) -> Add:
    compliance = server.quotas.throttle_compliance
    pop_due: Any = compliance.pop_due

    def check_without_connection(now_ms: int) -> None:
        while pop_due(now_ms) is not None:
            pass

    setattr(compliance, "pop_due", check_without_connection)  # noqa: B010 - mypy
    connections = iter([Connection(str(number)) for number in range(9)])

    def add(ms: int) -> None:
        compliance.throttled(next(connections), 2 * ms, server.clock.ms(), waiting=0)

    return add


def _adding(server: BrokerServer) -> Iterator[tuple[str, str, Add]]:
    """Yield kinds of deadlines: a name, the reaper, and what adds one."""
    purgatories: Mapping[str, Purgatory[Any]] = {
        "ExpirationReaper-1-Fetch": server.fetches,
        "ExpirationReaper-1-ShareFetch": server.fetches.share,
        "ExpirationReaper-1-Produce": server.produces,
        "retry-storm-reaper": server.retry_storm.delayed,
        "group-coordinator-timer": server.delayed.linger.responses,
    }
    for name, purgatory in purgatories.items():
        yield purgatory.name, name, _to_purgatory(server, purgatory)
    yield "group", "group-coordinator-timer", _to_groups(server)
    yield "lock", "share-lock-timer", _to_locks(server)
    for kind, manager in server.quotas.managers.items():
        yield f"throttle {kind.name}", REAPERS[kind], _to_throttled(server, manager.throttled, kind)
    broker_wide = server.quotas.broker.throttled
    yield "throttle of all", BROKER_QUOTA, _to_throttled(server, broker_wide, QuotaKind.BROKER_PRODUCE)
    yield "compliance", THROTTLE_COMPLIANCE, _to_compliance(server)


KINDS: Final = (
    *("Fetch", "ShareFetch", "Produce", "RetryStorm", "GroupAppend", "group", "lock", "throttle of all"),
    *(f"throttle {kind.name}" for kind in REAPERS),
    "compliance",
)


def _reaper(server: BrokerServer, name: str) -> Reaper:
    (found,) = (each for each in reapers_of(server) if each.name == name)
    return found


def _record(server: BrokerServer, name: str, fire: Callable[[int], None] | None = None) -> list[int]:
    """Return the times at which a reaper fires from now on, in milliseconds; it calls `fire`, if given."""
    reaper, began, fired = _reaper(server, name), server.clock.ms(), list[int]()
    before = reaper._fire

    def record(now_ms: int) -> None:
        fired.append(now_ms - began)
        (before if fire is None else fire)(now_ms)

    reaper._fire = record
    return fired


async def _jump(clock: MockClock, ms: int) -> None:
    # The tenth of a microsecond is more than what the sum of many floats can lack.
    clock.jump(ms / 1_000 + 1e-7)
    await wait_all_tasks_blocked()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_deadline_fires_on_its_millisecond_whoever_adds_it(
    tmp_path: Path, mock_clock: MockClock, kind: str
) -> None:
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        name, add = {each: (name, add) for each, name, add in _adding(broker.server)}[kind]
        fired = _record(broker.server, name)
        reaper = _reaper(broker.server, name)
        record, began = reaper._fire, broker.server.clock.ms()

        def then_add(now_ms: int) -> None:
            record(now_ms)
            if now_ms - began == 100:
                add(30)

        reaper._fire = then_add
        add(240)
        await wait_all_tasks_blocked()

        async def change() -> None:
            await trio.sleep(0.010)
            add(90)
            add(150)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await wait_all_tasks_blocked()
            await _jump(mock_clock, 10)
        for step in (89, 1, 29, 1, 29, 1, 79, 1):
            await _jump(mock_clock, step)
        # A timing wheel may also fire earlier, to move what is not due yet.
        assert {100, 130, 160, 240} <= set(fired)
        # What remains is the retention of offsets.
        assert (reaper._next_deadline() or RETENTION_CHECK_MS) >= RETENTION_CHECK_MS


@pytest.mark.parametrize("kind", KINDS)
async def test_no_deadline_of_a_produce_is_asked_for(
    tmp_path: Path, mock_clock: MockClock, kind: str
) -> None:
    """A deadline that is added, and the delivery of a response, ask no reaper for all of its deadlines."""
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        name, add = {each: (name, add) for each, name, add in _adding(broker.server)}[kind]
        asked: list[str] = []
        for each in reapers_of(broker.server):
            each._next_deadline = partial(asked.append, each.name)  # type: ignore[assignment]
        add(240)
        broker.server.deliver()
        add(90)
        assert asked == []
        _reaper(broker.server, name)._next_deadline = lambda: None


async def test_states_of_a_share_group_are_begun_at_once(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        groups = broker.server.delayed.groups.groups.coordinator.groups
        fired = _record(
            broker.server, "share-group-states-timer", lambda _now_ms: groups.pending_states.clear()
        )
        group = groups.by_id["share"] = ShareGroup("share")
        groups.note_states("share")
        await wait_all_tasks_blocked()
        assert fired == []
        group.states = StatePartitions(initializing={b"t" * 16: NamedPartitions("t", frozenset({0}))})
        groups.note_states("share")
        await wait_all_tasks_blocked()
        assert fired == [0]
        del groups.by_id["share"]


async def test_records_of_members_that_left_are_released_at_once(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        fired = _record(broker.server, "share-lock-timer")
        broker.server.delayed.share.share.release_soon("member", ())
        await wait_all_tasks_blocked()
        assert fired == []
        broker.server.delayed.share.share.release_soon("member", (KEY,))
        await wait_all_tasks_blocked()
        assert fired == [0]


async def test_states_are_pruned_after_the_interval(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        fired = _record(broker.server, "share-state-timer")
        persister = broker.server.delayed.share.persister
        interval_ms = persister._config.prune_interval_ms
        persister._prune_later()
        await _jump(mock_clock, 10)
        persister._prune_later()
        await _jump(mock_clock, interval_ms - 11)
        assert fired == []
        await _jump(mock_clock, 1)
        assert fired == [interval_ms]


async def test_transactions_are_checked_from_the_first_one_on_and_ended_at_once(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        await wait_all_tasks_blocked()
        service, clock = broker.server.delayed.transactions, broker.server.clock
        coordinator = service.coordinator
        coordinator.loaded(clock.ms())
        interval_ms = coordinator._timeouts.due_ms - clock.ms()
        fired = _record(broker.server, "transaction-timer", lambda now_ms: coordinator._ready.clear())
        coordinator.initialize("t", 1_000, None, lambda: 7, clock.wall_ms())
        await _jump(mock_clock, 10)
        decided = TransactionData(1, 0, 50, TransactionState.PREPARE_COMMIT, started_ms=0, updated_ms=0)
        coordinator._complete(Transaction("t", decided), clock.ms())
        await wait_all_tasks_blocked()
        assert fired == [10]
        await _jump(mock_clock, interval_ms - 11)
        assert fired == [10]
        service.pause(clock.ms())
        coordinator._complete(Transaction("t", decided), clock.ms())
        await wait_all_tasks_blocked()
        coordinator._timeouts.begin(clock.ms())
        await _jump(mock_clock, RETRY_MS - 1)
        # The check of before the pause was due meanwhile: the reaper had planned it.
        assert fired == [10, interval_ms - 1 + RETRY_MS - 1]
        coordinator._transactions.clear()
