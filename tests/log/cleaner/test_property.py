"""For random logs: the cleaner keeps the last record of each key, what it must not remove yet, and nothing
else.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.cleaner.cleaning import CleaningLimits
from broker.log.partition import PartitionLog
from broker.log.producer_state import ProducerStateEntry
from broker.records.compression import Codec
from broker.records.walk import Record
from tests.log.cleaner.harness import (
    clean,
    close_segment,
    compacted,
    contents,
    end,
    headers,
    put,
    put_in_transaction,
)
from tests.log.harness import NOW, open_store

RETENTION_MS = 1_000

KEYS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"])
VALUES = st.one_of(st.none(), st.sampled_from(["", "x", "y" * 90]))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
CODECS = st.sampled_from(list(Codec))


class Write(NamedTuple):
    pairs: list[tuple[str, str | None]]
    codec: Codec
    producer: int
    """0: none; 1 and 2: idempotent; 3 and 4: in a transaction."""


class End(NamedTuple):
    producer: int
    is_commit: bool


class Roll(NamedTuple):
    pass


WRITES = st.builds(Write, PAIRS, CODECS, st.integers(0, 4))
STEPS = st.lists(
    st.one_of(WRITES, WRITES, st.builds(End, st.integers(3, 4), st.booleans()), st.builds(Roll)), max_size=40
)


class Model:
    """The log as a list of records, with the fate of each transaction."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self._sequences = dict.fromkeys(range(1, 5), 0)

    def apply(self, step: Write | End | Roll) -> None:
        match step:
            case Roll():
                close_segment(self.log)
            case End(producer, is_commit):
                written = self.open.pop(producer, None)
                if written is not None:
                    end(self.log, producer, is_commit=is_commit)
                    if not is_commit:
                        self.aborted.update(written)
            case Write(pairs, codec, producer):
                self._write(pairs, codec, producer)

    def _write(self, pairs: list[tuple[str, str | None]], codec: Codec, producer: int) -> None:
        if not producer:
            put(self.log, *pairs, codec=codec)
            return
        identity = (producer, 0, self._sequences[producer])
        self._sequences[producer] += len(pairs)
        if producer < 3:
            put(self.log, *pairs, codec=codec, producer=identity)
            return
        base = put_in_transaction(self.log, identity, *pairs, codec=codec)
        self.open.setdefault(producer, []).extend(range(base, base + len(pairs)))

    def expected(self, before: list[Record], end_offset: int) -> list[Record]:
        """Return what a first pass that cleans up to `end_offset` must keep."""
        last: dict[bytes | None, int] = {}
        for each in before:
            if each.offset < end_offset and each.offset not in self.aborted:
                last[each.key] = each.offset
        return [
            each
            for each in before
            if each.offset >= end_offset
            or (each.offset not in self.aborted and each.offset == last[each.key])
        ]


def producers(log: PartitionLog) -> list[tuple[int, Any]]:
    def known(state: ProducerStateEntry) -> tuple[object, ...]:
        last = state.batches[-1] if state.batches else None
        sequences = None if last is None else (last.first_sequence, last.last_sequence, last.last_offset)
        return state.epoch, sequences, state.first_offset

    return [(producer, known(state)) for producer, state in log.producers.items()]


@given(steps=STEPS, later=STEPS, map_slots=st.sampled_from([8, 50_000]))
@settings(max_examples=120, deadline=None)
def test_what_remains(steps: list[Any], later: list[Any], map_slots: int) -> None:
    where = Path(tempfile.mkdtemp())
    try:
        check(where, steps, later, CleaningLimits(map_slots * 24, 0.9, 4_096))
    finally:
        shutil.rmtree(where)


def check(where: Path, steps: list[Any], later: list[Any], limits: CleaningLimits) -> None:
    store, _ = open_store(where / "data")
    log = compacted(store, delete_retention_ms=RETENTION_MS)
    model = Model(log)
    for step in steps:
        model.apply(step)
    before = contents(log)
    state, aborted = producers(log), log.last_stable_offset
    ends = []
    for _ in range(12):
        run = clean(store, log, limits=limits)
        ends.append(run.end_offset)
        if len(ends) > 1 and ends[-2] == ends[-1]:
            break
    end_offset = ends[-1]
    expected = model.expected(before, end_offset)
    if limits.map_bytes > 10_000:
        limit = min(log.last_stable_offset, log.segments[-1].base_offset)
        assert end_offset == max(each.base_offset for each in log.segments if each.base_offset <= limit)
    assert contents(log) == expected
    assert (producers(log), log.last_stable_offset) == (state, aborted)

    # A second round, after the tombstones' time.
    for step in later:
        model.apply(step)
    before = contents(log)
    run = clean(store, log, now=NOW + RETENTION_MS, limits=CleaningLimits(1_048_576, 0.9, 4_096))
    expected = [
        each
        for each in model.expected(before, run.end_offset)
        if each.value is not None or each.offset >= end_offset
    ]
    assert contents(log) == expected
    state, known = producers(log), headers(log)

    # A start that reads every batch finds the same log, and the same producers.
    for name in ("*.snapshot", "*.index", "*.timeindex"):
        for path in (where / "data" / "events-0").glob(name):
            path.unlink()
    (where / "data" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    shutil.copytree(where / "data", where / "killed")
    again, recovery = open_store(where / "killed")
    found = compacted(again)
    assert (recovery.missing, recovery.damage) == ([], [])
    assert contents(found) == expected
    assert headers(found) == known
    assert producers(found) == state
    assert found.last_stable_offset == log.last_stable_offset
    again.close()
    store.close()
