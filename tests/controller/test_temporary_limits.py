"""Temporary limits lie over permanent ones, begin and end by the wall clock, and write nothing then."""

from pathlib import Path

import pytest
import trio
import trio.testing

from broker.common.errors import ErrorCode
from broker.common.temporary_limits import TemporaryLimit, from_times, read_time
from broker.config.load import load
from broker.controller.commands import (
    AlterClientQuotas,
    QuotaAlteration,
    QuotaOp,
    QuotaOutcome,
    TemporaryOp,
    Undo,
)
from broker.controller.control import Control
from broker.metadata.changes import AuditFilter, AuditRow, Delta, QuotaChange
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.server.parts.temporary_limits import INTERVAL_S, switch_temporary_limits
from tests.controller.world import StoreCommitter, actor
from tests.support.clock import ManualClock

ORDERS = (("user", "orders"),)
OTHER = (("user", "other"),)
RATE = "producer_byte_rate"
NOON = read_time("2026-12-01T12:00:00Z")
HOUR = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall_ms=NOON)


async def alter(
    control: Control,
    permanent: dict[str, float | None] | None = None,
    temporary: dict[str, TemporaryLimit | None] | None = None,
    *,
    shadow: bool | None = None,
    version: int | None = None,
) -> QuotaOutcome:
    ops = tuple(QuotaOp(key, value) for key, value in (permanent or {}).items())
    times = tuple(TemporaryOp(key, limit) for key, limit in (temporary or {}).items())
    entry = QuotaAlteration(ORDERS, ops, version, shadow, times)
    (outcome,) = await control.apply(AlterClientQuotas((entry,)), actor())
    return outcome


def in_force(control: Control) -> dict[str, float]:
    entry = control.image.quotas.get(ORDERS)
    return {} if entry is None else {key: limit.value for key, limit in entry.limits.items()}


def permanent(control: Control) -> dict[str, float]:
    entry = control.image.quotas.get(ORDERS)
    return {} if entry is None else {key: limit.value for key, limit in entry.permanent.items()}


def published(control: Control) -> list[tuple[QuotaChange, ...]]:
    """Return the list to which each later change of limits is added."""
    found: list[tuple[QuotaChange, ...]] = []

    def note(_old: Image, new: Image, delta: Delta) -> None:
        assert new is control.image
        found.append(delta.quotas)

    control.subscribe(note)
    return found


async def at(control: Control, clock: ManualClock, wall_ms: int) -> dict[str, float]:
    clock.advance(wall_ms - clock.wall_ms())
    await control.switch_limits()
    return in_force(control)


async def test_the_old_value_returns_by_itself_and_once(
    control: Control, committer: StoreCommitter, clock: ManualClock
) -> None:
    await alter(control, {RATE: 10.0})
    assert (await alter(control, temporary={RATE: TemporaryLimit(50.0, NOON + 5, NOON + HOUR)})).ok
    changes, commits = published(control), committer.commits
    assert await at(control, clock, NOON + 4) == {RATE: 10.0}
    assert await at(control, clock, NOON + 5) == {RATE: 50.0}
    assert await at(control, clock, NOON + 6) == {RATE: 50.0}
    assert permanent(control) == {RATE: 10.0}
    assert await at(control, clock, NOON + HOUR - 1) == {RATE: 50.0}
    assert await at(control, clock, NOON + HOUR) == {RATE: 10.0}
    assert await at(control, clock, NOON + HOUR + 1) == {RATE: 10.0}
    assert await at(control, clock, NOON + 30 * HOUR) == {RATE: 10.0}
    assert changes == [(QuotaChange(ORDERS, RATE, 50.0),), (QuotaChange(ORDERS, RATE, 10.0),)]
    assert committer.commits == commits
    assert not control.image.quotas[ORDERS].temporary


async def test_a_limit_that_begins_at_once_is_in_force_when_the_change_is_answered(control: Control) -> None:
    await alter(control, {RATE: 10.0})
    changes = published(control)
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    assert in_force(control) == {RATE: 50.0}
    assert control.next_switch_ms == NOON + HOUR
    await alter(control, temporary={RATE: None})
    assert in_force(control) == {RATE: 10.0}
    assert control.next_switch_ms is None
    assert not control.has_temporary_limits
    assert changes == [(QuotaChange(ORDERS, RATE, 50.0),), (QuotaChange(ORDERS, RATE, 10.0),)]


async def test_a_change_of_the_permanent_limit_keeps_the_temporary_one(
    control: Control, clock: ManualClock
) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    changes = published(control)
    await alter(control, {RATE: 20.0, "consumer_byte_rate": 7.0})
    assert in_force(control) == {RATE: 50.0, "consumer_byte_rate": 7.0}
    assert permanent(control) == {RATE: 20.0, "consumer_byte_rate": 7.0}
    await alter(control, {RATE: None})
    assert in_force(control) == {RATE: 50.0, "consumer_byte_rate": 7.0}
    assert await at(control, clock, NOON + HOUR) == {"consumer_byte_rate": 7.0}
    assert changes == [
        (QuotaChange(ORDERS, "consumer_byte_rate", 7.0),),
        (),
        (QuotaChange(ORDERS, RATE, None),),
    ]


async def test_an_entity_without_a_permanent_limit_is_gone_afterwards(
    control: Control, clock: ManualClock
) -> None:
    assert (await alter(control, temporary={RATE: TemporaryLimit(50.0, NOON + 5, NOON + HOUR)})).ok
    assert in_force(control) == {}
    assert list(control.image.quotas[ORDERS].temporary) == [RATE]
    assert await at(control, clock, NOON + 5) == {RATE: 50.0}
    assert permanent(control) == {}
    assert (await alter(control, shadow=True)).error is ErrorCode.INVALID_REQUEST
    await at(control, clock, NOON + HOUR)
    assert ORDERS not in control.image.quotas
    # The version of an entity without limits is 0, also of one that has had a temporary limit.
    assert (await alter(control, {RATE: 1.0}, version=0)).ok
    assert in_force(control) == {RATE: 1.0}


async def test_the_clock_may_be_set_in_both_directions(control: Control, clock: ManualClock) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, temporary={RATE: TemporaryLimit(50.0, NOON + HOUR, NOON + 2 * HOUR)})
    assert await at(control, clock, NOON + 100 * HOUR) == {RATE: 10.0}
    assert await at(control, clock, NOON + HOUR) == {RATE: 50.0}
    assert await at(control, clock, NOON + HOUR - 1) == {RATE: 10.0}
    assert await at(control, clock, NOON + 2 * HOUR - 1) == {RATE: 50.0}
    assert await at(control, clock, NOON + 2 * HOUR) == {RATE: 10.0}


async def test_windows_begin_and_end_again(control: Control, clock: ManualClock) -> None:
    await alter(control, {RATE: 10.0})
    limit = from_times(50.0, {"windows": ["Mon-Fri 09:00-17:00"], "zone": "Europe/Berlin"})
    await alter(control, temporary={RATE: limit})
    assert in_force(control) == {RATE: 50.0}  # a Tuesday, 13:00 in Berlin
    assert control.next_switch_ms == NOON + 4 * HOUR
    assert await at(control, clock, NOON + 4 * HOUR) == {RATE: 10.0}
    assert control.next_switch_ms == NOON + 20 * HOUR
    assert await at(control, clock, NOON + 20 * HOUR) == {RATE: 50.0}


async def test_other_rules_are_not_copied(control: Control, clock: ManualClock) -> None:
    other = AlterClientQuotas((QuotaAlteration(OTHER, (QuotaOp(RATE, 1.0),)),))
    await control.apply(other, actor())
    entry = control.image.quotas[OTHER]
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    assert control.image.quotas[OTHER] is entry
    quotas = control.image.quotas
    await control.switch_limits()
    assert control.image.quotas is quotas
    await at(control, clock, NOON + HOUR)
    assert control.image.quotas[OTHER] is entry


async def test_a_mark_of_shadow_mode_covers_the_temporary_limit(control: Control) -> None:
    await alter(control, {RATE: 10.0}, shadow=True)
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    assert control.image.quotas[ORDERS].shadow
    assert in_force(control) == {RATE: 50.0}
    await alter(control, {RATE: None})
    assert not control.image.quotas[ORDERS].shadow


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (TemporaryLimit(50.0, until_ms=NOON), "until 2026-12-01T12:00:00Z is in the past"),
        (TemporaryLimit(50.0, NOON + 9, NOON + 9), "is not after from"),
        (TemporaryLimit(50.0), "a temporary limit needs until or windows"),
        (TemporaryLimit(0.0, until_ms=NOON + 1), "must be greater than 0"),
    ],
)
async def test_an_impossible_limit_is_refused(
    control: Control, committer: StoreCommitter, limit: TemporaryLimit, problem: str
) -> None:
    outcome = await alter(control, {"consumer_byte_rate": 5.0}, {RATE: limit})
    assert outcome.error is ErrorCode.INVALID_REQUEST
    assert problem in str(outcome.message)
    assert committer.commits == 0


async def test_a_key_may_be_permanent_and_temporary_in_one_request_and_each_once(control: Control) -> None:
    limit = TemporaryLimit(50.0, until_ms=NOON + 1)
    assert (await alter(control, {RATE: 10.0}, {RATE: limit})).ok
    assert (in_force(control), permanent(control)) == ({RATE: 50.0}, {RATE: 10.0})
    twice = QuotaAlteration(ORDERS, (), temporary=(TemporaryOp(RATE, limit), TemporaryOp(RATE, None)))
    (outcome,) = await control.apply(AlterClientQuotas((twice,)), actor())
    assert "Duplicate quota key" in str(outcome.message)


async def trail(committer: StoreCommitter) -> list[AuditRow]:
    return list(reversed(committer.store.history(AuditFilter(kind="temporary-quota"))))


async def test_the_trail_says_who_set_it_and_an_undo_restores_it(
    control: Control, committer: StoreCommitter, clock: ManualClock
) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    await alter(control, temporary={RATE: TemporaryLimit(60.0, until_ms=NOON + 2 * HOUR)})
    first, second = await trail(committer)
    assert (first.actor, first.key, first.old, first.new) == (
        "ann",
        RATE,
        None,
        '{"value":50,"until":"2026-12-01T13:00:00Z"}',
    )
    assert second.old == first.new
    assert (await control.apply(Undo(first.seq), actor())).error is ErrorCode.INVALID_UPDATE_VERSION
    assert (await control.apply(Undo(second.seq), actor())).ok
    assert in_force(control) == {RATE: 50.0}
    assert (await control.apply(Undo(first.seq), actor())).ok
    assert in_force(control) == {RATE: 10.0}
    removal = (await trail(committer))[-1]
    assert (await control.apply(Undo(removal.seq), actor())).ok
    assert in_force(control) == {RATE: 50.0}


async def test_an_undo_after_the_end_of_the_earlier_limit_restores_the_permanent_one(
    control: Control, committer: StoreCommitter, clock: ManualClock
) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    await alter(control, temporary={RATE: TemporaryLimit(60.0, until_ms=NOON + 2 * HOUR)})
    await at(control, clock, NOON + HOUR)
    second = (await trail(committer))[-1]
    assert (await control.apply(Undo(second.seq), actor())).ok
    assert in_force(control) == {RATE: 10.0}
    await alter(control, temporary={RATE: TemporaryLimit(60.0, until_ms=NOON + 2 * HOUR)})
    await alter(control, temporary={RATE: None})
    await at(control, clock, NOON + 2 * HOUR)
    removal = (await trail(committer))[-1]
    refused = await control.apply(Undo(removal.seq), actor())
    assert (refused.error, refused.message) == (ErrorCode.INVALID_REQUEST, "This temporary limit has ended")


async def test_an_undo_of_the_permanent_limit_leaves_the_temporary_one_alone(control: Control) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, {RATE: 20.0})
    seq = control.image.version
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    assert (await control.apply(Undo(seq), actor())).ok
    assert (in_force(control), permanent(control)) == ({RATE: 50.0}, {RATE: 10.0})


@pytest.mark.parametrize(("later", "value"), [(HOUR - 1, 50.0), (HOUR, 10.0)])
async def test_a_restart_finds_what_is_in_force_at_its_time(
    control: Control, committer: StoreCommitter, clock: ManualClock, tmp_path: Path, later: int, value: float
) -> None:
    await alter(control, {RATE: 10.0})
    await alter(control, temporary={RATE: TemporaryLimit(50.0, until_ms=NOON + HOUR)})
    committer.store.close()
    clock.advance(later)
    store = MetadataStore.open(tmp_path / "metadata.sqlite", clock.wall_ms())
    again = Control(store.image, load(None, [], {}), StoreCommitter(store), clock.wall_ms)
    assert (in_force(again), permanent(again)) == ({RATE: value}, {RATE: 10.0})
    store.close()


async def test_a_zone_that_this_machine_lacks_does_not_stop_it(
    committer: StoreCommitter, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    from broker.metadata.changes import Change, ChangeKind, write_pairs

    entity, text = write_pairs(ORDERS), '{"value":5,"windows":["Mon-Sat 00:00-24:00"],"zone":"Mars/Olympus"}'
    changes = [
        Change(ChangeKind.CLIENT_QUOTA, entity, RATE, "10"),
        Change(ChangeKind.TEMPORARY_QUOTA, entity, RATE, text),
    ]
    committer.store.commit(changes, actor(), NOON)
    control = Control(committer.store.image, load(None, [], {}), committer, clock.wall_ms)
    assert in_force(control) == {RATE: 10.0}
    assert await at(control, clock, NOON - 1) == {RATE: 10.0}
    assert [record.zone for record in caplog.records] == ["Mars/Olympus"]  # type: ignore[attr-defined]
    assert (await alter(control, temporary={RATE: None})).ok


class RunClock:
    """The wall clock of a run under a mock clock; `step_ms` sets it."""

    def __init__(self) -> None:
        self.step_ms = 0

    def wall_ms(self) -> int:
        return NOON + round(trio.current_time() * 1000) + self.step_ms


async def test_the_task_switches_at_the_millisecond_and_sees_a_step_within_a_second(
    autojump_clock: trio.testing.MockClock, committer: StoreCommitter, nursery: trio.Nursery
) -> None:
    clock, begin = RunClock(), trio.current_time()
    control = Control(committer.store.image, load(None, [], {}), committer, clock.wall_ms)
    seen: list[tuple[float, float | None]] = []

    def note(_old: Image, _new: Image, delta: Delta) -> None:
        seen.extend((round(trio.current_time() - begin, 3), change.value) for change in delta.quotas)

    control.subscribe(note)
    nursery.start_soon(switch_temporary_limits, control)
    await trio.sleep(0.25)
    start = clock.wall_ms()
    await alter(control, temporary={RATE: TemporaryLimit(50.0, start + 1_500, start + 10_000)})
    await trio.sleep(3)
    assert seen == [(1.75, 50.0)]
    clock.step_ms += 60_000
    await trio.sleep(INTERVAL_S)
    assert [value for _, value in seen] == [50.0, None]
    assert seen[1][0] <= 3.25 + INTERVAL_S
    clock.step_ms -= 60_000
    await trio.sleep(INTERVAL_S)
    assert [value for _, value in seen] == [50.0, None, 50.0]
    await trio.sleep(20)
    assert seen[3:] == [(10.25, None)]
    nursery.cancel_scope.cancel()
