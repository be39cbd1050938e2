"""Long random sequences of operations on a partition, compared with a model: a dict of acknowledged records,
a start, an end.
"""

import contextlib
import errno
import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.config.sections.topics import TopicSettings
from broker.log.partition import PartitionLog
from broker.log.staged import Staged
from broker.log.store import LogStore
from broker.records.walk import batches, records
from tests.log.harness import NOW, after_kill, all_records, batch, make, open_store

SETTINGS = {"segment_bytes": 1_500, "index_interval_bytes": 200, "file_delete_delay_ms": 0}


class Batch(NamedTuple):
    """`producer` is -1 for none."""

    staged: Staged
    producer: int
    values: list[bytes]


class Life:
    def __init__(self, seed: int, tmp_path: Path) -> None:
        self.chance = random.Random(seed)
        self.tmp_path = tmp_path
        self.lives = 0
        self.where = tmp_path / "life0"
        self.values: dict[int, bytes] = {}
        self.start = self.end = 0
        self.sequences = dict.fromkeys(range(3), 0)
        self.store: LogStore
        self.log: PartitionLog
        self.open()

    def open(self) -> None:
        self.store, recovery = open_store(self.where, max_open_files=16)
        assert not recovery.damage and not recovery.unreadable
        self.log = make(self.store, **SETTINGS)
        self.check()

    def check(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.high_watermark, log.next_offset) == (self.start, self.end, self.end)
        found = all_records(log, max_bytes=self.chance.choice([1, 300, 5_000]))
        assert {record.offset: record.value for record in found} == self.values
        assert len(found) == len(self.values)

    def stage(self) -> list[Batch]:
        taken = []
        sequences = dict(self.sequences)
        for _ in range(self.chance.randrange(1, 8)):
            count = self.chance.randrange(1, 4)
            values = [self.chance.randbytes(self.chance.randrange(60)) for _ in range(count)]
            producer = self.chance.choice([-1, -1, *self.sequences])
            made = batch(*values, producer=(producer, 0, sequences[producer]) if producer >= 0 else None)
            taken.append(Batch(self.log.stage(made, now_wall_ms=NOW), producer, values))
            if producer >= 0:
                sequences[producer] += count
        return taken

    def learn(self, taken: list[Batch]) -> None:
        """Add the acknowledged batches to the model."""
        for staged, producer, values in taken:
            if staged.error is None and staged.last_offset < self.log.high_watermark:
                self.values |= {staged.base_offset + at: value for at, value in enumerate(values)}
                self.end = staged.last_offset + 1
                if producer >= 0:
                    self.sequences[producer] += len(values)

    def append(self) -> None:
        taken = self.stage()
        assert self.store.commit() == ()
        assert all(each.staged.error is None for each in taken)
        self.learn(taken)
        assert self.log.high_watermark == self.end == taken[-1].staged.last_offset + 1

    def append_to_a_full_disk(self) -> None:
        """Some batches may succeed with a roll; a refused one leaves no bytes."""
        space_left = self.chance.randrange(400)
        real = os.pwritev

        def pwritev(fd, buffers, offset):
            nonlocal space_left
            if space_left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = real(fd, [b"".join(buffers)[:space_left]], offset)
            space_left -= written
            return written

        taken = []
        first = self.sequences[0]
        os.pwritev = pwritev
        try:
            with contextlib.suppress(ApiError):
                for at in range(5):
                    value = self.chance.randbytes(50)
                    staged = self.log.stage(batch(value, producer=(0, 0, first + at)), now_wall_ms=NOW)
                    taken.append(Batch(staged, 0, [value]))
            self.store.commit()
        finally:
            os.pwritev = real
        self.learn(taken)

    def repeat(self) -> None:
        producer = self.chance.choice(list(self.sequences))
        next_sequence = self.sequences[producer]
        made = batch(b"x", producer=(producer, 0, next_sequence + 1))
        if self.log.producers.get(producer) is None:
            return
        with pytest.raises(ApiError) as caught:
            self.log.stage(made, now_wall_ms=NOW)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def read_anywhere(self) -> None:
        for _ in range(10):
            offset = self.chance.randrange(self.start, self.end + 1)
            run = self.log.read(offset, self.chance.randrange(3_000), min_one_batch=True).read()
            seen = [each for made in batches(run) for each in records(made) if each.offset >= offset]
            assert [each.value for each in seen] == [self.values[offset + at] for at in range(len(seen))]
            assert bool(seen) == (offset < self.end)

    def delete_some(self) -> None:
        self.start = self.log.delete_records_before(self.chance.randrange(self.start, self.end + 1))
        self.forget()

    def retain(self) -> None:
        self.log.configure(TopicSettings(**SETTINGS, retention_bytes=4_000))
        for chore in (*run_through(self.store.retention(NOW)), *run_through(self.store.retention(NOW))):
            chore.run()
            chore.finish()
        self.log.configure(TopicSettings(**SETTINGS))
        assert self.start <= self.log.log_start_offset <= self.end
        self.start = self.log.log_start_offset
        self.forget()

    def forget(self) -> None:
        self.values = {offset: value for offset, value in self.values.items() if offset >= self.start}

    def flush(self) -> None:
        for chore in (*self.store.due_flushes(NOW), self.store.checkpoint()):
            chore.run()
            chore.finish()
            assert chore.error is None

    def kill(self) -> None:
        """Kill at a random point: a roll may be partly written."""
        self.learn(self.stage())
        self.lives += 1
        following = after_kill(self.where, self.tmp_path / f"life{self.lives}")
        if self.chance.random() < 0.5:
            last = max(following.glob("events-0/*.log"))
            with last.open("ab") as file:
                file.write(self.chance.randbytes(self.chance.randrange(200)))
        self.store.close()  # the killed process's directory and descriptors, after the copy
        shutil.rmtree(self.where)
        self.where = following
        self.open()

    def end_cleanly(self) -> None:
        assert self.store.close() == []
        self.open()


@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(25))
def test_a_partition_is_what_the_model_says_through_all_its_lives(seed, tmp_path):
    life = Life(seed, tmp_path)
    deeds = [life.append] * 6 + [
        life.append_to_a_full_disk,
        life.repeat,
        life.read_anywhere,
        life.delete_some,
        life.retain,
        life.flush,
        life.kill,
        life.end_cleanly,
    ]
    for _ in range(60):
        life.chance.choice(deeds)()
    life.check()
    assert life.store.close() == []
