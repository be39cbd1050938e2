"""Which records a reader believes: its own, and those of other gateways, each once and while they are new."""

import pytest

from broker.common.slices import run_through
from broker.config.sections import GatewayConfig
from broker.gateway.sharing.signing import (
    AT_ONCE,
    FRESH_MS,
    MAX_WRITERS,
    WINDOW,
    ClusterKeys,
    Records,
    Refusal,
    RefusedCounts,
    RefusedRecord,
    SignedRecords,
    key_id_of,
)

KEY, OTHER = "k" * 32, "o" * 32


def keys(*texts: str) -> ClusterKeys:
    return ClusterKeys(GatewayConfig(cluster_keys=",".join(texts)))


def records(*texts: str, topic: str = "t", writer: str = "w") -> SignedRecords:
    return SignedRecords(topic, writer, keys(*texts or (KEY,)))


def refusal(reader: SignedRecords, key: bytes, value: bytes) -> Refusal | None:
    try:
        run_through(reader.open(key, value))
    except RefusedRecord as error:
        return error.refusal
    return None


@pytest.mark.parametrize("value", [b"", b"x", b"a\nb\n", bytes(range(256)), b"v" * (AT_ONCE + 1)])
def test_what_is_signed_is_read(value):
    assert run_through(records().open(b"key", run_through(records().sign(b"key", value)))) == value


def test_a_large_value_is_signed_and_read_in_pieces():
    steps = [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE]
    for size, pauses in zip(steps, (0, 0, 1, 2), strict=True):
        assert sum(1 for _ in records().sign(b"k", bytes(size))) == pauses
        signed = run_through(records().sign(b"k", bytes(size)))
        assert sum(1 for _ in records().open(b"k", signed)) == pauses


def test_every_changed_byte_is_found():
    signed = run_through(records().sign(b"key", b"value"))
    for at in range(len(signed)):
        for bit in (1, 128):
            changed = bytearray(signed)
            changed[at] ^= bit
            assert refusal(records(), b"key", bytes(changed)) is not None, at
    for size in range(len(signed)):
        assert refusal(records(), b"key", signed[:size]) is not None, size


def test_a_record_is_believed_only_under_its_key_and_in_its_topic():
    signed = run_through(records().sign(b"key", b"value"))
    assert refusal(records(), b"kez", signed) is Refusal.SIGNATURE
    assert refusal(records(topic="u"), b"key", signed) is Refusal.SIGNATURE
    # A byte that moves from the topic to the key changes what is signed.
    assert (
        refusal(records(topic="tk"), b"ey", run_through(records(topic="t").sign(b"key", b"")))
        is Refusal.SIGNATURE
    )


def test_the_reason_is_distinguished():
    reader = records()
    assert refusal(reader, b"k", b'{"version":1}') is Refusal.UNSIGNED
    assert refusal(reader, b"k", run_through(records(OTHER).sign(b"k", b"v"))) is Refusal.KEY
    assert refusal(reader, b"k", b"weir-signed 2 what ever\nfollows") is Refusal.FORMAT
    assert refusal(reader, b"k", b"weir-signed 1 a b c d e\nv") is Refusal.SIGNATURE
    assert refusal(reader, b"k", b"weir-signed ") is Refusal.FORMAT
    forged = run_through(records().sign(b"k", b"v")).replace(b"\nv", b"\nw")
    assert refusal(reader, b"k", forged) is Refusal.SIGNATURE


def test_a_record_is_believed_once():
    writer, reader = records(), records()
    signed = run_through(writer.sign(b"k", b"v"))
    assert refusal(reader, b"k", signed) is None
    assert refusal(reader, b"k", signed) is Refusal.REPLAYED
    assert refusal(reader, b"k", run_through(writer.sign(b"k", b"v"))) is None


def test_a_forged_record_uses_no_number_up():
    writer, reader = records(), records()
    signed = run_through(writer.sign(b"k", b"v"))
    assert refusal(reader, b"x", signed) is Refusal.SIGNATURE
    assert refusal(reader, b"k", signed) is None


@pytest.mark.parametrize(
    ("behind", "expected"), [(WINDOW - 1, None), (WINDOW, Refusal.REPLAYED), (WINDOW + 1, Refusal.REPLAYED)]
)
def test_records_may_change_places_within_a_window(behind, expected):
    writer, reader = records(), records()
    late = run_through(writer.sign(b"k", b"late"))
    for _ in range(behind):
        last = run_through(writer.sign(b"k", b"v"))
    assert refusal(reader, b"k", last) is None
    assert refusal(reader, b"k", late) is expected
    assert refusal(reader, b"k", late) is Refusal.REPLAYED
    assert refusal(reader, b"k", last) is Refusal.REPLAYED


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(FRESH_MS - 1, None), (FRESH_MS, Refusal.REPLAYED), (FRESH_MS + 1, Refusal.REPLAYED)],
)
def test_a_record_of_an_unknown_writer_is_an_old_one_after_a_minute(after_ms, expected):
    """A gateway that is gone wrote it, and the reader started later, or has forgotten the writer."""
    dead, reader = records(), records(writer="r")
    dead.read_up_to(99, 0)
    signed = run_through(dead.sign(b"k", b"v"))
    reader.read_up_to(100, 0)
    reader.read_up_to(100, after_ms)
    assert refusal(reader, b"k", signed) is expected


def test_a_writer_that_has_read_what_the_reader_had_is_believed_however_long_it_was_silent():
    writer, reader = records(), records(writer="r")
    writer.read_up_to(100, 0)
    for now_ms in range(0, 3_600_000, 1_000):
        reader.read_up_to(100, now_ms)
    assert refusal(reader, b"k", run_through(writer.sign(b"k", b"v"))) is None


def test_a_reader_remembers_a_bounded_number_of_writers():
    reader = records()
    first = run_through(records(writer="0").sign(b"k", b"v"))
    run_through(reader.open(b"k", first))
    for number in range(1, MAX_WRITERS):
        run_through(reader.open(b"k", run_through(records(writer=f"{number}").sign(b"k", b"v"))))
    assert refusal(reader, b"k", first) is Refusal.REPLAYED
    for number in range(MAX_WRITERS, MAX_WRITERS * 2):
        run_through(reader.open(b"k", run_through(records(writer=f"{number}").sign(b"k", b"v"))))
    assert len(reader._writers) == MAX_WRITERS


@pytest.mark.parametrize(("after_ms", "recent"), [(0, 1), (59_999, 1), (60_000, 0), (60_001, 0)])
def test_refused_records_are_counted_for_a_minute_and_since_the_start(after_ms, recent):
    counts = RefusedCounts()
    counts.add(Refusal.UNSIGNED, 5_000)
    assert counts.last_minute(5_000 + after_ms)[Refusal.UNSIGNED] == recent
    assert counts.total == {Refusal.UNSIGNED: 1}


def test_the_first_key_signs_and_all_verify():
    both = records(OTHER, KEY)
    assert key_id_of(run_through(both.sign(b"k", b"v"))) == keys(OTHER).first.id
    assert refusal(both, b"k", run_through(records(KEY).sign(b"k", b"v"))) is None
    assert refusal(records(KEY), b"k", run_through(both.sign(b"k", b"v"))) is Refusal.KEY
    assert key_id_of(b"{}") is None
    assert key_id_of(b"weir-signed ") == ""


def test_plain_records_are_as_they_are_and_a_signed_one_is_recognized():
    plain = Records()
    (value,) = [_result(plain.sign(b"k", b"v"))]
    assert value == b"v"
    assert _result(plain.open(b"k", b"v")) == b"v"
    with pytest.raises(RefusedRecord):
        _result(plain.open(b"k", run_through(records().sign(b"k", b"v"))))


def _result(steps):
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
