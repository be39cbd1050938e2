"""Sparse indexes: the greatest key that is not above, in memory and in the file."""

import random
from pathlib import Path

import pytest

from broker.log.disk import OpenFiles
from broker.log.index import OFFSET_ENTRY, TIME_ENTRY, Resident, SparseIndex


def fresh(tmp_path: Path, entry=OFFSET_ENTRY) -> SparseIndex:
    return SparseIndex(OpenFiles(4), str(tmp_path / "index"), entry, fresh=True)


def found(index, key):
    count = index.count_to(key)
    return index[count - 1] if count else None


@pytest.mark.parametrize("spilled", [0, 1, 3, 5])
def test_the_entry_at_or_before_a_key_is_found(tmp_path, spilled):
    index = fresh(tmp_path)
    for at in range(5):
        index.append(10 * at + 10, at)
        if at + 1 == spilled:
            index.spill()
    assert len(index) == 5 and index.size == 40
    assert found(index, 9) is None
    for at in range(5):
        assert found(index, 10 * at + 10) == (10 * at + 10, at)
        assert found(index, 10 * at + 19) == (10 * at + 10, at)
    assert found(index, 10**9) == (50, 4)


def test_nothing_is_found_in_an_empty_index(tmp_path):
    index = fresh(tmp_path)
    assert found(index, 5) is None and index.last_key() == -1 and len(index) == 0
    index.spill()
    assert not (tmp_path / "index").exists()


def test_the_file_is_kafka_s(tmp_path):
    index = fresh(tmp_path, TIME_ENTRY)
    index.append(1_700_000_000_000, 7)
    index.spill()
    assert (tmp_path / "index").read_bytes() == (1_700_000_000_000).to_bytes(8, "big") + (7).to_bytes(
        4, "big"
    )


def test_an_index_goes_on_where_its_file_ends(tmp_path):
    index = fresh(tmp_path)
    index.append(10, 1)
    index.append(20, 2)
    index.spill()
    again = SparseIndex(OpenFiles(4), index.path, OFFSET_ENTRY, fresh=False)
    assert again.last_key() == 20
    again.append(30, 3)
    again.spill()
    read = SparseIndex(OpenFiles(4), index.path, OFFSET_ENTRY, fresh=False)
    assert [read[at] for at in range(len(read))] == [(10, 1), (20, 2), (30, 3)]


def test_entries_that_cannot_be_written_are_kept(tmp_path):
    index = SparseIndex(OpenFiles(4), str(tmp_path / "missing" / "index"), OFFSET_ENTRY, fresh=True)
    index.append(10, 1)
    with pytest.raises(OSError):
        index.spill()
    assert found(index, 10) == (10, 1)
    (tmp_path / "missing").mkdir()
    index.spill()
    assert index.unwritten == 0 and found(index, 10) == (10, 1)


def test_clearing_empties_the_file_too(tmp_path):
    index = fresh(tmp_path)
    index.append(10, 1)
    index.spill()
    index.clear()
    assert (len(index), index.last_key(), (tmp_path / "index").stat().st_size) == (0, -1, 0)


def test_many_entries_agree_with_a_plain_search(tmp_path):
    chance = random.Random(3)
    index, keys = fresh(tmp_path), sorted(chance.sample(range(100_000), 1_000))
    for at, key in enumerate(keys):
        index.append(key, at)
        if at % 256 == 255:
            index.spill()
    for key in chance.sample(range(100_000), 2_000):
        below = [each for each in keys if each <= key]
        assert found(index, key) == ((below[-1], len(below) - 1) if below else None)


def around(entries, key):
    """The expected result of SparseIndex.around."""
    below = [value for each, value in entries if each < key]
    above = [value for each, value in entries if each >= key]
    return (below[-1] if below else 0, above[0] if above else None)


def test_the_neighbours_of_a_key_agree_with_a_plain_search(tmp_path):
    chance = random.Random(4)
    for name in range(20):
        index = SparseIndex(OpenFiles(4), str(tmp_path / str(name)), OFFSET_ENTRY, fresh=True)
        entries = []
        for key in sorted(chance.sample(range(300), chance.randrange(40))):
            entries.append((key, 7 * key))
            index.append(*entries[-1])
            if chance.random() < 0.1:
                index.spill()
            target = chance.randrange(-2, 303)
            assert index.around(target) == around(entries, target)


def test_spilled_entries_are_known_to_readers_that_asked_before(tmp_path):
    index = fresh(tmp_path)
    for at in range(10):
        index.append(at, at * 100)
        index.spill()
        assert index.around(at) == ((at - 1) * 100 if at else 0, at * 100)
    index.clear()
    assert index.around(5) == (0, None)


def test_only_so_many_entries_are_held(tmp_path):
    resident = Resident(most=10)
    indexes = []
    for name in range(5):
        index = SparseIndex(OpenFiles(4), str(tmp_path / str(name)), OFFSET_ENTRY, fresh=True)
        for at in range(4):
            index.append(at, at)
        index.spill()
        indexes.append(index)
    for index in indexes:
        assert list(resident.get(index)[0]) == [0, 1, 2, 3]
        assert resident.entries <= 10
    assert resident.entries == 8
    resident.forget(indexes[-1])
    resident.forget(indexes[0])
    assert resident.entries == 4
    resident.get(fresh(tmp_path))
    assert resident.entries == 4
