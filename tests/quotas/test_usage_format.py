"""The file of saved usage: its bound, the order in which entities go into it, and what damage does to it."""

import pytest

from broker.quotas.saved_usage import Saved, SavedUsage
from broker.quotas.usage_format import MAX_BYTES, SORTED_AT_ONCE, UsageFileError, decode, encode


def entry(number: int, worth_s: float = 1.0, name: str = "u") -> SavedUsage:
    return SavedUsage("produce", f"{name}{number:07}", None, None, 1_000.0, worth_s, 8.5, [(1_500, 500, 7.0)])


def saved(*entries: SavedUsage) -> Saved:
    return Saved(1_700_000_000_000, 1_800_000_000_000, (11, 1_000), (11, 1_000), list(entries))


def test_what_is_written_is_read():
    one = SavedUsage("broker/ip", "10.0.0.1", None, None, 5.0, 2.5, None, [])
    two = SavedUsage("fetch", None, "app", -1, 0.5, 3.0, -0.25, [(0, 0, 1.5), (10_999, 1, 2.0)])
    assert decode(encode(saved(two, one))) == saved(one, two)
    assert decode(encode(saved())) == saved()


@pytest.mark.parametrize("count", [1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, 3 * SORTED_AT_ONCE])
def test_what_has_used_most_of_its_limit_comes_first(count):
    entries = [entry(number, worth_s=number * 7_919 % count) for number in range(count)]
    read = decode(encode(saved(*entries))).entries
    assert [each.worth_s for each in read] == [float(number) for number in reversed(range(count))]


def test_the_file_is_bounded_and_what_fits_exactly_is_in_it():
    entries = [entry(number, worth_s=9 - number) for number in range(9)]
    whole = encode(saved(*entries))
    one = len(encode(saved(entry(0)))) - len(encode(saved()))
    for room, kept in ((len(whole) + 1, 9), (len(whole), 9), (len(whole) - 1, 8), (len(whole) - one - 1, 7)):
        data = encode(saved(*entries), room)
        assert len(data) <= room
        assert decode(data).entries == entries[:kept]


def test_ids_that_clients_choose_keep_no_user_out():
    ids = [
        SavedUsage("produce", None, "x" * 9_000 + str(number), None, 1.0, 99.0, 99.0, [])
        for number in range(9)
    ]
    data = encode(saved(*ids, entry(1, worth_s=0.1)), 30_000)
    assert [each.user for each in decode(data).entries] == [entry(1).user, None, None, None]


def test_a_name_that_is_no_text_keeps_only_itself_out():
    strange = SavedUsage("produce", "\udcff", None, None, 1.0, 99.0, 99.0, [])
    assert decode(encode(saved(entry(1), strange, entry(2)))) == saved(entry(1), entry(2))


def test_any_number_of_long_names_stays_within_the_bound():
    entries = [entry(number, name="n" * 30_000) for number in range(200)]
    data = encode(saved(*entries))
    assert MAX_BYTES - 30_100 < len(data) <= MAX_BYTES
    assert len(decode(data).entries) == (MAX_BYTES - 100) // 30_060


def test_a_larger_file_is_refused():
    data = encode(saved(entry(1)))
    with pytest.raises(UsageFileError, match=f"it has {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"):
        decode(data + bytes(MAX_BYTES + 1 - len(data)))
    with pytest.raises(UsageFileError, match="checksum"):
        decode(data + bytes(MAX_BYTES - len(data)))


def test_every_flipped_bit_and_every_missing_byte_is_found():
    data = encode(saved(entry(1), entry(2)))
    for index in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[index] ^= 1 << bit
            with pytest.raises(UsageFileError):
                decode(bytes(damaged))
        with pytest.raises(UsageFileError):
            decode(data[:index])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no version"),
        (b"\n", "no version"),
        (b"weir-quota-usage \n", "no version"),
        (b"weir-quota-usage 1", "no version"),
        (b"weir-quota-usage 1\n", "checksum"),
        (b"weir-quota-usage 2\nanything", "its version is 2, not 1"),
        (b"weir-quota-usage 17\nanything", "its version is 17, not 1"),
        (b"weir-quota-usage x\n", "no version"),
        (b"SQLite format 3\0" * 100, "no version"),
        (bytes(1_000), "no version"),
    ],
)
def test_a_file_of_another_kind_or_version_is_refused_with_its_reason(data, reason):
    with pytest.raises(UsageFileError, match=reason):
        decode(data)
