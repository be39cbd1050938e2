"""The format of __transaction_state, byte by byte, and damaged records."""

import pytest

from broker.coordinator.transaction.records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from broker.coordinator.transaction.state import TransactionData, TransactionState
from broker.records.stored_fields import UnreadableRecord

DATA = TransactionData(
    7,
    3,
    60_000,
    TransactionState.ONGOING,
    frozenset({("b", 1), ("a", 2), ("a", 0)}),
    1_000,
    2_000,
    client_version=2,
)


def test_a_key_is_its_version_and_the_id() -> None:
    assert encode_key("pay") == b"\0\0\0\x03pay"
    assert decode_key(b"\0\0\0\x03pay") == "pay"
    assert decode_key(b"\0\x01\0\x03pay") is None


def test_a_value_has_kafka_s_version_1() -> None:
    assert encode_value(DATA) == bytes.fromhex(
        "0001 0000000000000007 0003 0000ea60 01"
        "03 02 61 03 00000000 00000002 00 02 62 02 00000001 00"
        "00000000000007d0 00000000000003e8"
        "01 02 02 0002"
    )
    empty = TransactionData(7, 3, 60_000, updated_ms=5)
    assert encode_value(empty)[17:18] == b"\0"  # null, as Kafka has it for Empty


def test_other_producer_ids_are_stored_as_kafka_4_4_stores_them() -> None:
    data = TransactionData(
        7,
        3,
        60_000,
        TransactionState.COMPLETE_COMMIT,
        started_ms=1_000,
        updated_ms=2_000,
        previous_producer_id=4,
        next_producer_id=5,
        client_version=2,
    )
    assert encode_value(data) == bytes.fromhex(
        "0001 0000000000000007 0003 0000ea60 04"
        "01 00000000000007d0 00000000000003e8"
        "03 00 08 0000000000000004 01 08 0000000000000005 02 02 0002"
    )


@pytest.mark.parametrize(
    "data",
    [
        DATA,
        TransactionData(1, 0, 1),
        TransactionData(
            1, 32_767, 1, TransactionState.PREPARE_ABORT, previous_producer_id=4, next_producer_id=5
        ),
        TransactionData(1, 2, 3, TransactionState.COMPLETE_COMMIT, started_ms=4, updated_ms=5),
        TransactionData(
            1, 2, 3, TransactionState.ONGOING, frozenset(("t" * 200, each) for each in range(200))
        ),
    ],
)
def test_a_value_is_read_back(data: TransactionData) -> None:
    assert decode_value(encode_value(data)) == data


def test_version_0_is_read() -> None:
    value = bytes.fromhex(
        "0000 0000000000000007 0003 0000ea60 01"
        "00000001 0001 61 00000002 00000000 00000002"
        "00000000000007d0 00000000000003e8"
    )
    expected = TransactionData(
        7, 3, 60_000, TransactionState.ONGOING, frozenset({("a", 0), ("a", 2)}), 1_000, 2_000
    )
    assert decode_value(value) == expected


@pytest.mark.rotates
@pytest.mark.parametrize("cut", range(len(encode_value(DATA))))
def test_a_truncated_value_is_unreadable(cut: int) -> None:
    with pytest.raises(UnreadableRecord):
        decode_value(encode_value(DATA)[:cut])


@pytest.mark.parametrize(
    "value",
    [
        b"\0\x02" + encode_value(DATA)[2:],
        encode_value(DATA)[:16] + b"\x08" + encode_value(DATA)[17:],
        encode_value(DATA)[:17] + b"\xff\xff\xff\xff\xff\xff",
        encode_value(DATA)[:19] + b"\xff" + encode_value(DATA)[20:],
    ],
)
def test_a_damaged_value_is_unreadable(value: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_value(value)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0\0\x04pay", b"\0\0\xff\xff"])
def test_a_damaged_key_is_unreadable(key: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_key(key)
