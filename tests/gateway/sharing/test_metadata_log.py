"""Gateways that follow one log of changes, with real stores and `Control`, on a mock clock."""

import logging
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from broker.common.errors import ApiError, ConfigError, ErrorCode
from broker.common.temporary_limits import TemporaryLimit
from broker.config.load import load
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp, TemporaryOp, Undo
from broker.controller.control import Control
from broker.gateway.sharing.commits import Commit, read_commit, write_commit
from broker.gateway.sharing.metadata_log import APPEND_AGAIN_S, COMMIT_S, WARNING_MS, MetadataLog
from broker.gateway.sharing.signing import ClusterKeys, Records, SignedRecords
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.metadata.changes import AuditFilter, AuditRow, Change, ChangeKind
from broker.metadata.image import Image
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.server.parts.temporary_limits import switch_temporary_limits
from tests.controller.world import StoreCommitter
from tests.support.memory_log import MemoryLog, MemoryTopic

ANN = Actor("ann", Role.ADMIN, "10.0.0.1", ChangeOrigin.REST)
ALICE = (("user", "alice"),)
BOB = (("user", "bob"),)
RATE = "producer_byte_rate"


class LocalStore(StoreCommitter):
    """The local committer of a gateway."""

    async def commit_at(self, changes, actor, wall_ms) -> Image:
        await trio.lowlevel.checkpoint()
        assert self._lock.locked()
        if self.fault is not None:
            raise self.fault
        return self.store.commit(changes, actor, wall_ms)

    async def in_slices(self, steps, *, to_the_end=False):
        with trio.CancelScope(shield=to_the_end):
            return await super().in_slices(steps)


class Passes(trio.abc.Instrument):
    """Counts the passes of the event loop, in each of which every task that can run has a turn."""

    count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class Gateway:
    def __init__(
        self, name: str, topic: MemoryTopic, store: MetadataStore, keys: ClusterKeys | None = None
    ) -> None:
        """With `keys`, it signs."""
        self.name = name
        self.store = store
        self.local = LocalStore(store)
        self.log = MemoryLog(topic, append_s=0.02, read_s=0.01)
        (last,) = store.history(AuditFilter(limit=1))
        self.records = (
            Records() if keys is None else SignedRecords("__weir_metadata", f"{name}-{uuid4().hex}", keys)
        )
        self.clock = TrioClock()
        self.metadata = MetadataLog(name, self.log, self.local, last, self.clock, self.records)
        self.control = Control(store.image, load(None, (), {}), self.metadata, self.clock.wall_ms)
        self.metadata.attach(self.control.adopt, self.control.check_adoptable)
        self.seen: list[tuple[float, str]] = []
        self.control.subscribe(
            lambda _old, _new, delta: self.seen.append((trio.current_time(), delta.actor.name))
        )

    async def set(self, entity, rate: float, actor: Actor = ANN) -> ErrorCode:
        alteration = QuotaAlteration(entity, (QuotaOp(RATE, rate),))
        (outcome,) = await self.control.apply(AlterClientQuotas((alteration,)), actor)
        return outcome.error

    def rate(self, entity) -> float | None:
        entry = self.control.image.quotas.get(entity)
        return None if entry is None else entry.limits[RATE].value

    def rows(self) -> list[AuditRow]:
        """The rows that all gateways have, without the cluster id."""
        return self.store.history(AuditFilter(oldest_first=True, after_seq=1, limit=1_000))


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[MetadataStore]]:
    with ExitStack() as stack:
        found = [MetadataStore.open(tmp_path / f"{number}.sqlite", 0) for number in range(3)]
        for store in found:
            stack.callback(store.close)
        yield found


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


@pytest.fixture
def start(topic, stores, nursery):
    """Start gateways, each with its own store."""

    def make(*names: str, run: bool = True) -> list[Gateway]:
        made = [Gateway(name, topic, store) for name, store in zip(names, stores, strict=False)]
        for gateway in made:
            if run:
                nursery.start_soon(gateway.metadata.run)
        return made

    return make


async def test_a_temporary_limit_begins_and_ends_at_all_gateways_at_once(autojump_clock, start, nursery):
    gateways = start("a", "b", "c")
    switches: dict[str, list[tuple[int, float | None]]] = {each.name: [] for each in gateways}
    for gateway in gateways:

        def note(_old, _new, delta, gateway=gateway) -> None:
            switches[gateway.name] += [(gateway.clock.wall_ms(), each.value) for each in delta.quotas]

        nursery.start_soon(switch_temporary_limits, gateway.control)
        await gateway.set(ALICE, 1_000) if gateway is gateways[0] else None
        await trio.sleep(0.1)
        gateway.control.subscribe(note)
    now = gateways[0].clock.wall_ms()
    limit = TemporaryLimit(5_000.0, now + 3_210, now + 9_876)
    command = AlterClientQuotas((QuotaAlteration(ALICE, (), temporary=(TemporaryOp(RATE, limit),)),))
    (outcome,) = await gateways[1].control.apply(command, ANN)
    assert outcome.ok
    await trio.sleep(5)
    assert [gateway.rate(ALICE) for gateway in gateways] == [5_000] * 3
    rows = gateways[0].rows()
    gateways[2].log.is_away = True
    await trio.sleep(6)
    assert [gateway.rate(ALICE) for gateway in gateways] == [1_000] * 3
    assert switches == {name: [(now + 3_210, 5_000.0), (now + 9_876, 1_000.0)] for name in "abc"}
    # No gateway writes anything when the limit begins or ends.
    assert [gateway.rows() for gateway in gateways] == [rows] * 3
    assert rows[-1].actor == "ann"
    nursery.cancel_scope.cancel()


async def test_a_change_at_one_gateway_is_in_force_at_all(autojump_clock, start):
    first, second, third = start("a", "b", "c")
    begin = trio.current_time()
    assert await first.set(ALICE, 1_000) is ErrorCode.NONE
    assert trio.current_time() - begin == pytest.approx(0.04)
    assert first.rate(ALICE) == 1_000
    await trio.sleep(0.1)
    for other in (second, third):
        assert other.rate(ALICE) == 1_000
        ((at, name),) = other.seen
        assert name == "ann"
        assert at - begin <= 0.05


async def test_all_gateways_have_the_same_audit_trail(autojump_clock, start):
    gateways = start("a", "b", "c")
    for number, gateway in enumerate(gateways * 3):
        assert await gateway.set(ALICE, 1_000 + number) is ErrorCode.NONE
        await gateway.set(BOB, 5_000)
    await trio.sleep(1)
    rows = gateways[0].rows()
    assert [row.seq for row in rows] == list(range(2, 12))
    assert rows[2].old == "1000" and rows[2].new == "1001"
    assert {row.actor for row in rows} == {"ann"}
    for gateway in gateways:
        assert gateway.rows() == rows
        assert gateway.control.image.version == 11


async def test_of_two_writers_of_one_rule_one_wins_and_the_other_is_refused(autojump_clock, start, topic):
    first, second = start("a", "b")
    outcomes: dict[str, ErrorCode] = {}

    async def change(gateway: Gateway, rate: float) -> None:
        outcomes[gateway.name] = await gateway.set(ALICE, rate)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change, first, 1_000)
        nursery.start_soon(change, second, 2_000)
    await trio.sleep(1)
    assert sorted(outcomes.values()) == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    winner = 1_000 if outcomes["a"] is ErrorCode.NONE else 2_000
    assert first.rate(ALICE) == second.rate(ALICE) == winner
    assert first.rows() == second.rows()
    assert len(first.rows()) == 1
    # Both wrote their record with the same number.
    assert len(topic.entries) == 2


async def test_two_writers_of_different_rules_both_win(autojump_clock, start, topic):
    first, second = start("a", "b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.set, ALICE, 1_000)
        nursery.start_soon(second.set, BOB, 2_000)
    await trio.sleep(1)
    for gateway in (first, second):
        assert (gateway.rate(ALICE), gateway.rate(BOB)) == (1_000, 2_000)
    assert first.rows() == second.rows()
    assert len(topic.entries) == 3


async def test_many_writers_at_once_leave_all_gateways_equal(autojump_clock, start):
    gateways = start("a", "b", "c")
    outcomes: list[ErrorCode] = []

    async def change(gateway: Gateway, number: int) -> None:
        entity = (("user", f"user-{number % 4}"),)
        outcomes.append(await gateway.set(entity, 1_000 + number))

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(change, gateways[number % 3], number)
    await trio.sleep(1)
    won = outcomes.count(ErrorCode.NONE)
    assert won + outcomes.count(ErrorCode.INVALID_UPDATE_VERSION) == 30
    assert won >= 10
    for gateway in gateways:
        assert len(gateway.rows()) == won
        assert gateway.rows() == gateways[0].rows()
        assert gateway.control.image.quotas == gateways[0].control.image.quotas


async def test_a_lost_commit_never_wins_after_compaction(autojump_clock, start, topic):
    """The first gateway appends its change twice, because it sees late that the first record has won; the
    second gateway's record, which has lost, is between them.
    """
    first, second = start("a", "b")
    first.log.read_s = second.log.read_s = 1.5
    first.log.unsure = 1
    outcomes: dict[str, ErrorCode] = {}

    async def change(gateway: Gateway, rate: float) -> None:
        outcomes[gateway.name] = await gateway.set(ALICE, rate)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change, first, 1_000)
        await trio.sleep(0.001)
        nursery.start_soon(change, second, 2_000)
    assert outcomes == {"a": ErrorCode.NONE, "b": ErrorCode.INVALID_UPDATE_VERSION}
    commits = [read_commit(entry.value) for entry in topic.entries]
    assert [commit.first for commit in commits] == [2, 2, 2]
    assert [commit.id == commits[0].id for commit in commits] == [True, False, True]
    topic.compact()
    (*_, third) = start("a", "b", "c", run=False)
    assert await third.set(BOB, 1) is ErrorCode.NONE
    await trio.sleep(5)
    assert (third.rate(ALICE), third.metadata.problem) == (1_000, None)
    assert first.rows() == second.rows() == third.rows()


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))]
)
async def test_all_agree_on_two_hundred_racing_writes_after_compaction_and_restart(
    autojump_clock, start, topic, stores, seed
):
    """Responses get lost, and each writer is told whether its change is in force."""
    chance = random.Random(seed)
    gateways = start("a", "b")
    outcomes: list[tuple[int, ErrorCode]] = []

    async def change(number: int) -> None:
        await trio.sleep(chance.uniform(0, 2))
        gateway = chance.choice(gateways)
        gateway.log.read_s = chance.choice((0, 0.01, 0.2, 1.2))
        gateway.log.unsure = chance.randrange(2)
        gateway.log.lost = chance.randrange(8) // 7
        entity = (("user", f"user-{number % 3}"),)
        outcomes.append((number, await gateway.set(entity, 1_000 + number)))

    for _ in range(20):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(change, len(outcomes) + len(nursery.child_tasks))
    for gateway in gateways:
        gateway.log.read_s = gateway.log.unsure = gateway.log.lost = 0
    await trio.sleep(10)
    rows = gateways[0].rows()
    assert gateways[1].rows() == rows
    assert {error for _, error in outcomes} == {ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION}
    assert sorted(f"{1_000 + number}" for number, error in outcomes if error is ErrorCode.NONE) == sorted(
        row.new for row in rows
    )
    assert len(topic.entries) > len(rows)
    topic.compact()
    again = Gateway("a2", topic, stores[0])
    fresh = Gateway("c", topic, stores[2])
    for gateway in (again, fresh):
        assert await gateway.set(BOB, 1) is ErrorCode.NONE
        assert gateway.metadata.problem is None
        assert gateway.rows()[: len(rows)] == rows


async def test_a_change_that_follows_ones_own_is_published_after_it(autojump_clock, start, nursery):
    """The first gateway reads both at once."""
    first, second = start("a", "b")
    first.log.read_s = 0.5
    nursery.start_soon(first.set, ALICE, 1_000)
    await trio.sleep(0.7)
    assert second.rate(ALICE) == 1_000
    nursery.start_soon(second.set, ALICE, 2_000)
    nursery.start_soon(second.set, BOB, 3_000)
    await trio.sleep(0.2)
    assert first.rate(ALICE) is None
    await trio.sleep(3)
    for gateway in (first, second):
        assert (gateway.rate(ALICE), gateway.rate(BOB)) == (2_000, 3_000)
    assert first.control.image.quotas == second.control.image.quotas
    assert first.control.image.version == 4


async def test_a_change_is_planned_with_everything_that_others_committed_before(autojump_clock, start):
    """The second gateway does not follow by itself."""
    first, second = start("a", "b", run=False)
    await first.set(ALICE, 1_000)
    await first.set(ALICE, 2_000)
    assert await second.set(ALICE, 3_000) is ErrorCode.NONE
    assert [row.old for row in second.rows()] == [None, "1000", "2000"]


async def test_a_change_of_one_gateway_can_be_undone_at_another(autojump_clock, start):
    first, second = start("a", "b")
    await first.set(ALICE, 1_000)
    await first.set(ALICE, 2_000)
    outcome = await second.control.apply(Undo(3), ANN)
    assert outcome.error is ErrorCode.NONE
    await trio.sleep(1)
    assert first.rate(ALICE) == second.rate(ALICE) == 1_000


@pytest.mark.parametrize("fault", ["unsure", "lost"])
async def test_a_change_whose_append_may_have_failed_is_applied_once(autojump_clock, start, topic, fault):
    first, second = start("a", "b")
    setattr(first.log, fault, 1)
    begin = trio.current_time()
    assert await first.set(ALICE, 1_000) is ErrorCode.NONE
    # A lost record is looked for before the next attempt.
    assert (trio.current_time() - begin > APPEND_AGAIN_S) is (fault == "lost")
    await trio.sleep(2)
    assert len(first.rows()) == len(second.rows()) == 1


async def test_a_record_that_arrives_late_loses(autojump_clock, start, topic):
    first, second = start("a", "b")
    late = Commit("late", "c", 2, 0, ANN, [Change(ChangeKind.CLIENT_QUOTA, '[["user","alice"]]', RATE, "7")])
    await first.set(ALICE, 1_000)
    topic.append(b"late", write_commit(late))
    await first.set(BOB, 2_000)
    await trio.sleep(1)
    assert first.rate(ALICE) == second.rate(ALICE) == 1_000
    assert len(second.rows()) == 2


async def test_both_attempts_of_one_commit_count_once(autojump_clock, start, topic):
    first, second = start("a", "b")
    await first.set(ALICE, 1_000)
    topic.append(topic.entries[0].key, topic.entries[0].value)
    await second.set(BOB, 1)
    await trio.sleep(1)
    assert len(first.rows()) == len(second.rows()) == 2


async def test_a_change_is_refused_in_time_if_the_log_is_away(autojump_clock, start):
    first, second = start("a", "b")
    await first.set(ALICE, 1_000)
    first.log.is_away = True
    begin = trio.current_time()
    assert await first.set(ALICE, 2_000) is ErrorCode.KAFKA_STORAGE_ERROR
    assert trio.current_time() - begin <= COMMIT_S + 2.1
    assert first.rate(ALICE) == 1_000
    first.log.is_away = False
    assert await second.set(ALICE, 3_000) is ErrorCode.NONE
    await trio.sleep(1)
    assert first.rate(ALICE) == 3_000


async def test_a_change_that_was_given_up_can_still_be_applied_everywhere(autojump_clock, start, topic):
    """Its record is in the log, but the writer cannot read it in time."""
    first, second = start("a", "b")
    first.log.read_s = 60
    assert await first.set(ALICE, 1_000) is ErrorCode.KAFKA_STORAGE_ERROR
    await trio.sleep(1)
    assert second.rate(ALICE) == 1_000
    first.log.read_s = 0
    await trio.sleep(70)
    assert first.rate(ALICE) == 1_000
    assert first.rows() == second.rows()


async def test_a_cancelled_change_is_decided_first(autojump_clock, start):
    first, second = start("a", "b")
    with trio.move_on_after(0.015):
        await first.set(ALICE, 1_000)
    assert first.rate(ALICE) == 1_000
    await trio.sleep(1)
    assert second.rate(ALICE) == 1_000


async def test_a_full_disk_at_another_gateway_delays_the_change_there(autojump_clock, start, caplog):
    first, second = start("a", "b")
    second.local.fault = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")
    await first.set(ALICE, 1_000)
    await trio.sleep(1)
    assert second.rate(ALICE) is None
    assert "a change of another gateway was not stored" in caplog.messages
    second.local.fault = None
    await trio.sleep(1)
    assert second.rate(ALICE) == 1_000
    assert first.rows() == second.rows()


async def test_a_password_is_not_written_to_the_log(autojump_clock, start, topic):
    (first,) = start("a")
    change = Change(ChangeKind.BROKER_CONFIG, "", "ssl.key.password", "secret")
    async with first.metadata.exclusive():
        with pytest.raises(ApiError) as caught:
            await first.metadata.commit([change], ANN)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert topic.entries == []


@pytest.mark.parametrize("spare", [0, -1])
async def test_a_change_that_is_too_large_for_a_record_is_refused(autojump_clock, start, topic, spare):
    (first,) = start("a")
    await first.set(ALICE, 1_000)
    assert topic.entries[0].value is not None
    first.log.max_bytes = len(topic.entries[0].value) + spare
    expected = ErrorCode.NONE if spare == 0 else ErrorCode.MESSAGE_TOO_LARGE
    assert await first.set(ALICE, 2_000) is expected


async def test_a_gateway_that_starts_again_goes_on_with_its_store(autojump_clock, start, topic, stores):
    first, second = start("a", "b", run=False)
    await first.set(ALICE, 1_000)
    await first.set(BOB, 1_000)
    assert await second.set(BOB, 2_000) is ErrorCode.NONE
    await first.set(ALICE, 2_000)
    again = Gateway("b2", topic, stores[1])
    assert (again.rate(ALICE), again.rate(BOB)) == (1_000, 2_000)
    assert await again.set(BOB, 3_000) is ErrorCode.NONE
    assert (again.rate(ALICE), again.rate(BOB)) == (2_000, 3_000)
    assert [row.seq for row in again.rows()] == [2, 3, 4, 5, 6]


async def test_without_the_log_a_gateway_starts_with_what_it_had_and_changes_nothing(
    autojump_clock, start, topic, stores
):
    (first,) = start("a", run=False)
    await first.set(ALICE, 1_000)
    again = Gateway("a2", topic, stores[0])
    again.log.is_away = True
    assert again.rate(ALICE) == 1_000
    assert await again.set(ALICE, 2_000) is ErrorCode.KAFKA_STORAGE_ERROR
    again.log.is_away = False
    assert await again.set(ALICE, 3_000) is ErrorCode.NONE
    assert [row.new for row in again.rows()] == ["1000", "3000"]


async def test_a_store_with_changes_of_its_own_is_not_followed_with(
    autojump_clock, start, topic, stores, caplog
):
    own = [Change(ChangeKind.CLIENT_QUOTA, '[["user","alice"]]', RATE, "7")]
    stores[1].commit(own, ANN, 5)
    first, second = start("a", "b")
    await trio.sleep(1)
    assert second.metadata.problem == "the log ends with row 1, the local metadata has more"
    assert "cannot follow the metadata of the cluster" in caplog.messages
    assert await second.set(BOB, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await first.set(BOB, 1) is ErrorCode.NONE
    assert len(topic.entries) == 1


async def test_a_store_of_another_cluster_is_not_followed_with(autojump_clock, start, topic, stores):
    stores[1].commit([Change(ChangeKind.CLIENT_QUOTA, '[["user","alice"]]', RATE, "7")], ANN, 5)
    (first,) = start("a", run=False)
    await first.set(ALICE, 1_000)
    second = Gateway("b", topic, stores[1])
    await second.metadata.run()
    assert second.metadata.problem == "row 2 of the local metadata is not that of the cluster's log"


async def test_a_commit_of_a_later_version_stops_the_follower(autojump_clock, start, topic):
    first, second = start("a", "b")
    topic.append(b"x", b'{"version":2}')
    await trio.sleep(1)
    assert second.metadata.problem == "a commit has version 2, and this gateway reads 1"
    assert await first.set(ALICE, 1) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_changes_of_a_kind_that_only_a_later_version_knows_are_kept_and_not_applied(
    autojump_clock, start, topic, stores, tmp_path, caplog
):
    """The follower stopped for ever at the first change after one."""
    caplog.set_level(logging.INFO)
    first, second = start("a", "b")
    await trio.sleep(1)
    later = ChangeKind.named("later")
    known = Change(ChangeKind.CLIENT_QUOTA, '[["user","bob"]]', RATE, "5")
    topic.append(b"x", write_commit(Commit("x", "g", 2, 0, ANN, [Change(later, "e", "k", "v"), known])))
    topic.append(b"y", write_commit(Commit("y", "g", 4, 0, ANN, [Change(later, "e", "k", None)])))
    assert await first.set(ALICE, 1) is ErrorCode.NONE
    await trio.sleep(1)
    text = "a later version of Weir made a change that this one keeps and does not apply"
    assert caplog.messages == [text] * 2
    for gateway in (first, second):
        assert gateway.metadata.problem is None
        assert (gateway.rate(ALICE), gateway.rate(BOB)) == (1, 5)
        rows = [(row.kind, row.entity, row.key, row.new) for row in gateway.rows()[:3:2]]
        assert rows == [("later", "e", "k", "v"), ("later", "e", "k", None)]
    stores[0].close()
    with closing(MetadataStore.open(tmp_path / "0.sqlite", 0)) as store:
        again = Gateway("a", topic, store)
        with trio.move_on_after(1):
            await again.metadata.run()
        assert again.metadata.problem is None
        assert (again.rate(ALICE), again.rate(BOB)) == (1, 5)


async def test_all_gateways_skip_an_invalid_commit(autojump_clock, start, topic, caplog):
    caplog.set_level(logging.INFO)
    first, second = start("a", "b")
    topic.append(b"x", b"nonsense")
    topic.append(b"y", None)
    assert await first.set(ALICE, 1) is ErrorCode.NONE
    await trio.sleep(1)
    assert second.rate(ALICE) == 1
    assert caplog.messages == ["unreadable commit"] * 2


async def test_a_change_that_no_gateway_writes_is_skipped_by_all_and_after_a_restart(
    autojump_clock, start, topic, stores, tmp_path
):
    """It ended each gateway, also at each further start."""
    first, second = start("a", "b")
    await trio.sleep(1)
    poison = Commit("x", "g", 2, 0, ANN, [Change(ChangeKind.CLIENT_QUOTA, "nonsense", RATE, "abc")])
    topic.append(b"x", write_commit(poison))
    assert await first.set(ALICE, 1) is ErrorCode.NONE
    await trio.sleep(1)
    assert first.rate(ALICE) == second.rate(ALICE) == 1
    again = Gateway("a", topic, stores[0])
    with trio.move_on_after(1):
        await again.metadata.run()
    assert again.metadata.problem is None
    assert again.rate(ALICE) == 1


async def test_of_many_records_that_are_no_commits_one_a_second_is_reported_and_others_have_their_turns(
    autojump_clock, start, topic, caplog
):
    caplog.set_level(logging.INFO)
    for number in range(1_000):
        topic.append(b"x", b"nonsense %d" % number)
    passes = Passes()
    trio.lowlevel.add_instrument(passes)
    start("a")
    await trio.sleep(1)
    trio.lowlevel.remove_instrument(passes)
    assert passes.count >= 1_000
    assert caplog.messages == ["unreadable commit"]
    await trio.sleep(WARNING_MS / 1_000)
    topic.append(b"x", b"nonsense")
    await trio.sleep(0.5)
    topic.append(b"x", b"nonsense")
    await trio.sleep(0.4)
    assert caplog.messages == ["unreadable commit"] * 2


async def test_a_setting_that_cannot_be_in_force_here_stops_the_follower_and_not_the_gateway(
    autojump_clock, start, topic
):
    (first,) = start("a")
    await trio.sleep(1)

    def refuse(_changes) -> None:
        raise ConfigError("max.connections", "5", "anything else")

    first.metadata.attach(first.control.adopt, refuse)
    change = Change(ChangeKind.BROKER_CONFIG, "", "max.connections", "5")
    topic.append(b"x", write_commit(Commit("x", "g", 2, 0, ANN, [change])))
    await trio.sleep(1)
    assert (
        first.metadata.problem is not None and "row 2 of the log cannot be applied" in first.metadata.problem
    )
    assert first.rows() == []
    assert await first.set(ALICE, 1) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("left", [0, 1])
async def test_a_log_that_has_lost_changes_is_not_followed_and_the_rules_stay(
    autojump_clock, start, topic, stores, caplog, left: int
):
    """Changes of a log that began again were ignored up to the last row, and then followed."""
    first, second = start("a", "b")
    for entity in (ALICE, BOB):
        assert await first.set(entity, 1_000) is ErrorCode.NONE
    await trio.sleep(1)
    topic.cut(left)
    await trio.sleep(1)
    lost = "the topic has lost changes that were in force: the log ends before the offset"
    for gateway in (first, second):
        assert gateway.metadata.problem == lost
    assert caplog.messages == ["cannot follow the metadata of the cluster"] * 2
    begin = trio.current_time()
    assert await first.set(ALICE, 2_000) is ErrorCode.KAFKA_STORAGE_ERROR
    assert trio.current_time() - begin < 0.1
    # A gateway without any row begins the log again, and writes more than it had.
    third = Gateway("c", topic, stores[2])
    for rate in (5, 6, 7):
        assert await third.set(ALICE, rate) is ErrorCode.NONE
    assert await second.set(BOB, 3_000) is ErrorCode.KAFKA_STORAGE_ERROR
    for gateway in (first, second):
        assert (gateway.rate(ALICE), gateway.rate(BOB)) == (1_000, 1_000)


async def test_a_change_is_refused_at_once_when_the_log_loses_changes_meanwhile(
    autojump_clock, start, topic, nursery
):
    (first,) = start("a")
    for entity in (ALICE, BOB):
        assert await first.set(entity, 1_000) is ErrorCode.NONE
    first.log.lost = 1
    outcomes = []

    async def change() -> None:
        outcomes.append(await first.set(ALICE, 2_000))

    async with trio.open_nursery() as changing:
        changing.start_soon(change)
        await trio.sleep(0.1)
        topic.cut(0)
        begin = trio.current_time()
    assert outcomes == [ErrorCode.KAFKA_STORAGE_ERROR] and trio.current_time() - begin < 0.5
    assert first.rate(ALICE) == 1_000


async def test_the_begin_and_the_end_of_a_failure_are_one_line_each(autojump_clock, start, caplog):
    caplog.set_level(logging.INFO)
    (first,) = start("a")
    await trio.sleep(1)
    first.log.is_away = True
    await trio.sleep(20)
    first.log.is_away = False
    await trio.sleep(20)
    assert caplog.messages == [
        "cannot read the metadata of the cluster",
        "can read the metadata of the cluster again",
    ]
