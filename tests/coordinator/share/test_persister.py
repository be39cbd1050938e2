"""The durable state of share partitions: what a start reads, what fences a writer, what bounds the topic."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.coordinator.share.persister import (
    SHARE_STATE_TOPIC,
    ShareStateSummary,
    StateWrite,
    coordinator_key,
    partition_of,
)
from broker.coordinator.share.state_log import (
    SPARE,
    ShareState,
    ShareUpdate,
    decode_key,
    decode_snapshot,
    decode_update,
    encode_snapshot,
    encode_update,
)
from broker.coordinator.share.states import RecordState, SharePartitionKey, StateBatch
from broker.log.partition import PartitionLog
from broker.records.build import NewRecord, build_batch
from tests.api.harness import Harness
from tests.coordinator.share.stored import one_partition, records_of

ACKNOWLEDGED, AVAILABLE = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE


class Stored:
    """A persister over real logs. `key` is a share partition of an existing topic."""

    def __init__(self, harness: Harness, *, updates: int = 500) -> None:
        self.harness = harness
        self.updates = updates
        self.key = SharePartitionKey("readers", harness.partitions.by_name["orders"].topic_id, 0)
        self.restart()

    def restart(self) -> None:
        """Build the persister anew from the logs, as a start does."""
        self.persister = one_partition(self.harness, self.updates)
        self.persister.load()
        self.reset: list[SharePartitionKey] = []
        self.persister.on_reset = self.reset.append

    async def initialize(self, start_offset: int = 0, key: SharePartitionKey | None = None) -> None:
        await self.persister.initialize(*(key or self.key), start_offset)

    def write(
        self,
        *batches: StateBatch,
        start: int = -1,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        complete: int = -1,
    ) -> ErrorCode:
        change = StateWrite(state_epoch, leader_epoch, start, batches, complete)
        written = self.persister.stage_write(self.key, change)
        self.persister.commit()
        return self.persister.settle(written)

    @property
    def log(self) -> PartitionLog:
        log = self.harness.partitions.log(SHARE_STATE_TOPIC, 0)
        assert log is not None
        return log

    def kinds(self) -> list[int]:
        return [decoded[0] for key, _ in records_of(self.log) if (decoded := decode_key(key))]


@pytest.fixture
async def stored(tmp_path: Path) -> AsyncIterator[Stored]:
    harness = Harness(tmp_path)
    await harness.create_topic("orders")
    yield Stored(harness)
    harness.close()


async def test_a_state_is_initialized_read_and_deleted(stored: Stored) -> None:
    persister = stored.persister
    assert persister.summary(*stored.key) is None and not persister.is_available
    await stored.initialize(7)
    assert persister.summary(*stored.key) == ShareStateSummary(7, 0, 0, 0)
    await stored.initialize(-1)
    assert persister.summary(*stored.key) == ShareStateSummary(-1, 1, 0)
    assert stored.reset == [stored.key, stored.key]
    stored.restart()
    assert stored.persister.summary(*stored.key) == ShareStateSummary(-1, 1, 0)
    await stored.persister.delete(*stored.key)
    await stored.persister.delete(*stored.key)
    assert stored.persister.summary(*stored.key) is None and stored.reset == [stored.key]
    stored.restart()
    assert stored.persister.summary(*stored.key) is None


async def test_updates_add_to_the_state_and_a_start_reads_the_same(stored: Stored) -> None:
    await stored.initialize()
    assert stored.write(StateBatch(5, 9, ACKNOWLEDGED, 1)) == ErrorCode.NONE
    assert stored.write(StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(10, 12, AVAILABLE, 1)) == 0
    assert stored.write(StateBatch(10, 10, ACKNOWLEDGED, 2), start=10) == 0
    for _ in range(2):
        state = stored.persister.state(stored.key)
        assert state is not None and (state.start_offset, state.batches) == (
            10,
            (StateBatch(10, 10, ACKNOWLEDGED, 2), StateBatch(11, 12, AVAILABLE, 1)),
        )
        stored.restart()


async def test_the_start_offset_never_moves_back(stored: Stored) -> None:
    await stored.initialize(5)
    stored.write(start=9)
    stored.write(StateBatch(10, 12, ACKNOWLEDGED, 1), start=6)
    value = records_of(stored.log)[-1][1]
    assert value is not None and decode_update(value).start_offset == -1
    assert stored.persister.summary(*stored.key) == ShareStateSummary(9, 0, 0, 3)


async def test_what_is_never_delivered_again_is_counted_from_the_start_offset_on(stored: Stored) -> None:
    await stored.initialize(5)
    archived = StateBatch(20, 20, RecordState.ARCHIVED, 1)
    stored.write(StateBatch(5, 6, AVAILABLE, 1), StateBatch(10, 12, ACKNOWLEDGED, 1), archived)
    assert stored.persister.summary(*stored.key) == ShareStateSummary(5, 0, 0, 4)
    stored.write(start=11)
    assert stored.persister.summary(*stored.key) == ShareStateSummary(11, 0, 0, 3)


@pytest.mark.parametrize(
    ("start", "complete", "expected"),
    [
        (9, 3, (9, 4)),  # late: the higher number applies
        (9, 5, (9, 5)),
        (8, 7, (9, 4)),  # of an earlier start offset
        (10, 2, (10, 2)),
        (10, 0, (10, 0)),
        (9, -1, (9, 0)),  # not stated: no batch is complete
    ],
)
@pytest.mark.parametrize("updates", [0, 500])
async def test_a_writer_may_state_the_number(
    stored: Stored, start: int, complete: int, expected: tuple[int, int], updates: int
) -> None:
    stored.updates = updates
    stored.restart()
    await stored.initialize(9)
    stored.write(start=9, complete=4)
    stored.write(start=start, complete=complete)
    for _ in range(2):
        found = stored.persister.summary(*stored.key)
        assert found is not None and (found.start_offset, found.complete) == expected
        stored.restart()


def test_a_stated_number_is_a_tagged_field_as_in_kafka() -> None:
    """ShareUpdateValue and ShareSnapshotValue of Kafka 4.4.0 with DeliveryCompleteCount 3."""
    update = ShareUpdate(1, 2, 7, (), 3)
    assert (
        encode_update(update).hex()
        == "0000" + "00000001" + "00000002" + f"{7:016x}" + "01" + "01000400000003"
    )
    assert decode_update(encode_update(update)) == update
    state = ShareState(1, 4, 2, 7, 8, 9, (), 3)
    assert encode_snapshot(state)[-7:].hex() == "01000400000003"
    assert decode_snapshot(encode_snapshot(state)) == state
    assert encode_update(update._replace(stated=-1))[-2:].hex() == "0100"


@pytest.mark.parametrize("updates", [0, 1, 3])
async def test_a_snapshot_follows_a_number_of_updates(stored: Stored, updates: int) -> None:
    stored.updates = updates
    stored.restart()
    await stored.initialize()
    for number in range(2 * (updates + 1)):
        stored.write(StateBatch(10 * number, 10 * number + 4, ACKNOWLEDGED, 1))
    assert stored.kinds() == [0, *([1] * updates + [0]) * 2]
    value = records_of(stored.log)[-1][1]
    assert value is not None and decode_snapshot(value).snapshot_epoch == 2
    before = stored.persister.state(stored.key)
    stored.restart()
    assert stored.persister.state(stored.key) == before


async def test_no_snapshot_is_written_while_an_update_is_not_committed(stored: Stored) -> None:
    """It would lack the update, and hide it from the next start."""
    stored.updates = 1
    stored.restart()
    await stored.initialize()
    stored.write(StateBatch(0, 0, ACKNOWLEDGED, 1))
    write = stored.persister.stage_write
    staged = [
        write(stored.key, StateWrite(0, 0, -1, [StateBatch(number, number, ACKNOWLEDGED, 1)]))
        for number in (2, 4)
    ]
    stored.persister.commit()
    assert [stored.persister.settle(each) for each in staged] == [0, 0]
    assert stored.kinds() == [0, 1, 0, 1]
    stored.restart()
    state = stored.persister.state(stored.key)
    assert state is not None and [each.first for each in state.batches] == [0, 2, 4]


async def test_epochs_fence_writers(stored: Stored) -> None:
    await stored.initialize()
    stored.write(leader_epoch=3)
    await stored.initialize()
    for epochs, error in (
        ((0, 3), ErrorCode.FENCED_STATE_EPOCH),
        ((1, 2), ErrorCode.FENCED_LEADER_EPOCH),
    ):
        with pytest.raises(ApiError) as caught:
            stored.write(state_epoch=epochs[0], leader_epoch=epochs[1])
        assert caught.value.code == error
    assert stored.write(state_epoch=1, leader_epoch=3) == ErrorCode.NONE
    assert stored.write(state_epoch=-1, leader_epoch=-1) == ErrorCode.NONE


async def test_a_write_without_a_state_is_refused(stored: Stored) -> None:
    with pytest.raises(ApiError) as caught:
        stored.write()
    assert caught.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await stored.initialize(0, SharePartitionKey("others", stored.key.topic_id, 0))
    with pytest.raises(ApiError) as caught:
        stored.write()
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_a_write_of_an_earlier_initialization_does_not_change_the_new_state(stored: Stored) -> None:
    await stored.initialize()
    staged = stored.persister.stage_write(
        stored.key, StateWrite(0, 0, 5, [StateBatch(5, 9, ACKNOWLEDGED, 1)])
    )
    await stored.initialize(3)
    assert stored.persister.settle(staged) == ErrorCode.NONE
    for _ in range(2):
        state = stored.persister.state(stored.key)
        assert state is not None and (state.start_offset, state.batches) == (3, ())
        stored.restart()


def flush(log: PartitionLog) -> None:
    chore = log.flush(0)
    chore.run()
    chore.finish()


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_obsolete_records_are_deleted_once_the_rest_is_flushed(stored: Stored, more: int) -> None:
    """A cold state has a snapshot far behind; it is written again at more than SPARE records."""
    cold = SharePartitionKey("cold", stored.key.topic_id, 0)
    await stored.initialize(5, cold)
    await stored.initialize()
    for number in range(SPARE + more - 1):
        stored.write(StateBatch(number, number, ACKNOWLEDGED, 1))
    assert stored.log.high_watermark == SPARE + 1 + more
    stored.harness.clock.advance(300_000)
    stored.persister.prune(stored.harness.clock.ms())
    stored.persister.prune(stored.harness.clock.ms())
    assert stored.log.log_start_offset == 0
    flush(stored.log)
    stored.persister.prune(stored.harness.clock.ms())
    assert (stored.log.log_start_offset > 0) is (more >= 0)
    before = [stored.persister.state(key) for key in (cold, stored.key)]
    stored.restart()
    assert [stored.persister.state(key) for key in (cold, stored.key)] == before


async def test_states_of_deleted_topics_are_forgotten(stored: Stored) -> None:
    gone = SharePartitionKey("readers", bytes(range(16)), 0)
    await stored.initialize(0, gone)
    await stored.initialize()
    stored.persister.prune(stored.harness.clock.ms())
    assert stored.persister.state(gone) is None and stored.persister.state(stored.key) is not None
    stored.restart()
    assert stored.persister.state(gone) is None and stored.persister.state(stored.key) is not None


async def test_an_unreadable_record_is_skipped(stored: Stored, caplog: pytest.LogCaptureFixture) -> None:
    await stored.initialize()
    log = stored.log
    stored.write(StateBatch(0, 4, ACKNOWLEDGED, 1))
    key = records_of(log)[-1][0]
    for bad in (b"", b"\0\0\0", key[:-1]):
        log.stage(build_batch([NewRecord(bad or key, b"\0\1bad", 0)]), now_wall_ms=0, internal=True)
    stored.persister.commit()
    stored.write(StateBatch(5, 9, ACKNOWLEDGED, 1))
    stored.restart()
    state = stored.persister.state(stored.key)
    assert state is not None and state.batches == (StateBatch(0, 9, ACKNOWLEDGED, 1),)
    assert caplog.text.count("skipping an unreadable batch of __share_group_state") == 3


def test_the_partition_of_a_state_is_kafkas() -> None:
    key = SharePartitionKey("group", bytes(range(16)), 3)
    assert coordinator_key(key) == "group:AAECAwQFBgcICQoLDA0ODw:3"
    assert partition_of(key, 1) == 0 and 0 <= partition_of(key, 50) < 50
