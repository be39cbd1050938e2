"""The format of __consumer_offsets, byte for byte, and malformed records.

The examples were read by Kafka 4.1.1's own classes (OffsetCommitKey, OffsetCommitValue, GroupMetadataKey,
GroupMetadataValue) to the last byte; those of version 4 of an offset were written by Kafka 4.4.0's.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.group.messages import CommittedOffset
from broker.coordinator.group.records import (
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_member,
    encode_offset_key,
    encode_offset_value,
)
from broker.records.stored_fields import UnreadableRecord

MEMBER = StoredMember("m", "i", "c", "/h", 60_000, 10_000, b"sub", b"as")
GROUP = StoredGroup("consumer", 5, "range", "m", 1_750_000_000_000, (MEMBER,))

texts = st.text(st.characters(codec="utf-8"), max_size=20)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    StoredMember,
    texts,
    st.none() | texts,
    texts,
    texts,
    st.integers(0, 2**31 - 1),
    int32s,
    st.binary(max_size=20),
    st.binary(max_size=20),
)


def written(group: StoredGroup) -> bytes:
    encoded = [(encode_member(*each[:6]), each.subscription, each.assignment) for each in group.members]
    return encode_group_value(group, encoded)


def test_keys_byte_for_byte():
    assert encode_offset_key("g", "t", 3) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert encode_group_key("gruppé") == bytes.fromhex("0002 0007 67727570 70c3a9")


def test_an_offset_byte_for_byte():
    assert encode_offset_value(CommittedOffset(42, 7, "m", 1_750_000_000_000)) == bytes.fromhex(
        "0004 000000000000002a 00000007 02 6d 000001977420dc00 00"
    )


def test_an_offset_with_a_topic_id_byte_for_byte():
    committed = CommittedOffset(42, 7, "m", 1_750_000_000_000, None, bytes(range(1, 17)))
    assert encode_offset_value(committed) == bytes.fromhex(
        "0004 000000000000002a 00000007 02 6d 000001977420dc00 01 00 10 0102030405060708090a0b0c0d0e0f10"
    )


def test_an_offset_of_version_3_is_read():
    stored = bytes.fromhex("0003 000000000000002a 00000007 0001 6d 00000197 7420dc00")
    assert decode_offset_value(stored) == CommittedOffset(42, 7, "m", 1_750_000_000_000)


@pytest.mark.parametrize("tagged", ["01 00 0f " + "01" * 15, "01 00 11 " + "01" * 17])
def test_a_topic_id_of_another_length_is_unreadable(tagged):
    with pytest.raises(UnreadableRecord, match="16 bytes"):
        decode_offset_value(bytes.fromhex("0004 000000000000002a 00000007 02 6d 000001977420dc00 " + tagged))


def test_other_tagged_fields_are_passed_over():
    stored = bytes.fromhex("0004 000000000000002a 00000007 02 6d 000001977420dc00 01 07 02 ffff")
    assert decode_offset_value(stored) == CommittedOffset(42, 7, "m", 1_750_000_000_000)


def test_an_offset_with_a_time_of_expiry_is_of_version_1_and_loses_its_epoch():
    committed = CommittedOffset(42, 7, "", 1, 2)
    assert encode_offset_value(committed) == bytes.fromhex(
        "0001 000000000000002a 0000 0000000000000001 0000000000000002"
    )
    assert decode_offset_value(encode_offset_value(committed)) == CommittedOffset(42, -1, "", 1, 2)


def test_a_group_byte_for_byte():
    assert written(StoredGroup("c", 5, "r", "m", 6, (MEMBER,))) == bytes.fromhex(
        "0003 0001 63 00000005 0001 72 0001 6d 0000000000000006 00000001"
        "0001 6d 0001 69 0001 63 0002 2f68 0000ea60 00002710 00000003 737562 00000002 6173"
    )


def test_an_empty_group_byte_for_byte():
    assert written(StoredGroup("", 6, None, None, -1, ())) == bytes.fromhex(
        "0003 0000 00000006 ffff ffff ffffffffffffffff 00000000"
    )


@given(texts, texts, int32s)
def test_keys_are_read_as_they_were_written(group_id, topic, partition):
    assert decode_key(encode_offset_key(group_id, topic, partition)) == OffsetKey(group_id, topic, partition)
    assert decode_key(encode_group_key(group_id)) == GroupKey(group_id)


@given(int64s, int32s, texts, int64s, st.binary(min_size=16, max_size=16))
def test_offsets_are_read_as_they_were_written(offset, epoch, metadata, commit_ms, topic_id):
    committed = CommittedOffset(offset, epoch, metadata, commit_ms, None, topic_id)
    assert decode_offset_value(encode_offset_value(committed)) == committed


@given(
    st.builds(
        StoredGroup,
        texts,
        int32s,
        st.none() | texts,
        st.none() | texts,
        int64s,
        st.lists(members, max_size=3).map(tuple),
    )
)
def test_groups_are_read_as_they_were_written(group):
    assert decode_group_value(written(group)) == group


def test_older_versions_are_read_too():
    # Version 0: neither time-out of the rebalance nor time of the state nor instance id.
    assert decode_group_value(
        bytes.fromhex(
            "0000 0001 63 00000005 0001 72 0001 6d 00000001"
            "0001 6d 0001 63 0002 2f68 00002710 00000003 737562 00000002 6173"
        )
    ) == StoredGroup(
        "c", 5, "r", "m", -1, (StoredMember("m", None, "c", "/h", 10_000, 10_000, b"sub", b"as"),)
    )
    assert decode_offset_value(
        bytes.fromhex("0002 000000000000002a 0001 6d 0000000000000001")
    ) == CommittedOffset(42, -1, "m", 1)
    assert decode_offset_value(
        bytes.fromhex("0001 000000000000002a 0000 0000000000000001 ffffffffffffffff")
    ) == CommittedOffset(42, -1, "", 1, None)
    assert decode_key(bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetKey("g", "t", 3)


@pytest.mark.parametrize("version", [9, 18, 24, 32_767])
def test_keys_of_other_kinds_of_groups_are_passed_over(version):
    assert decode_key(version.to_bytes(2, "big") + b"whatever") is None


@pytest.mark.parametrize(
    ("decode", "version"),
    [
        (decode_offset_value, -1),
        (decode_offset_value, 5),
        (decode_group_value, -1),
        (decode_group_value, 4),
    ],
)
def test_values_of_unknown_versions_are_unreadable(decode, version):
    head = version.to_bytes(2, "big", signed=True)
    with pytest.raises(UnreadableRecord, match=f"version {version}"):
        decode(head + bytes(100))


@pytest.mark.parametrize(
    ("decode", "whole"),
    [
        (decode_key, encode_offset_key("g", "t", 3)),
        (decode_key, encode_group_key("g")),
        (decode_offset_value, encode_offset_value(CommittedOffset(1, 2, "m", 3))),
        (decode_group_value, written(GROUP)),
    ],
)
def test_a_record_that_ends_too_early_is_unreadable_wherever_it_ends(decode, whole):
    for size in range(len(whole)):
        with pytest.raises(UnreadableRecord):
            decode(whole[:size])


@pytest.mark.parametrize("key", ["0002 0001 ff", "0002 ffff", "0002 8000", "0001 0001 67 ffff 00000001"])
def test_names_that_are_none_are_unreadable(key):
    with pytest.raises(UnreadableRecord):
        decode_key(bytes.fromhex(key))


@given(st.binary(max_size=60))
def test_any_bytes_raise_only_one_exception(data):
    for decode in (decode_key, decode_offset_value, decode_group_value):
        try:
            decode(data)
        except UnreadableRecord:
            continue
