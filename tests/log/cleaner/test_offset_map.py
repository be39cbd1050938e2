"""The offset map: the last offset of each key, and its bound."""

import pytest

from broker.log.cleaner.offset_map import NONE, OffsetMap


def test_a_key_has_its_last_offset():
    offsets = OffsetMap(10, 0.9)
    assert offsets.get(b"a") == NONE
    assert offsets.put(b"a", 1) and offsets.put(b"", 2) and offsets.put(b"a", 2**63 - 1)
    assert (offsets.get(b"a"), offsets.get(b""), offsets.get(b"b")) == (2**63 - 1, 2, NONE)
    assert (len(offsets), offsets.utilization) == (2, 0.2)


def test_it_takes_keys_up_to_its_load_factor():
    offsets = OffsetMap(100, 0.5)
    taken = [at for at in range(60) if offsets.put(str(at).encode(), at)]
    assert taken == list(range(50)) and len(offsets) == 50
    assert offsets.put(b"49", 99) and offsets.get(b"49") == 99  # a known key needs no room
    assert offsets.get(b"50") == NONE


def test_a_table_that_is_nearly_full_finds_every_key():
    offsets = OffsetMap(64, 1.0)
    assert [offsets.put(str(at).encode(), at) for at in range(64)] == [True] * 63 + [False]
    assert [offsets.get(str(at).encode()) for at in range(64)] == [*range(63), NONE]


@pytest.mark.parametrize(("slots", "factor"), [(1, 1.0), (10, 0.0), (10, 0.09)])
def test_a_map_without_room_for_a_key_is_refused(slots, factor):
    with pytest.raises(ValueError, match="cannot hold one key"):
        OffsetMap(slots, factor)


def test_a_map_for_one_key():
    offsets = OffsetMap(2, 0.5)
    assert offsets.put(b"a", 0) and not offsets.put(b"b", 1)
    assert (offsets.get(b"a"), len(offsets)) == (0, 1)
