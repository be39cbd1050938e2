"""Reading records for a person: order, filters, codecs, limits, where a reading stops, and what it skips."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.common.slices import run_through
from broker.partitions import record_reader
from broker.partitions.record_reader import (
    MAX_HEADERS,
    Cut,
    FoundRecords,
    Range,
    ReadLimits,
    RecordFilter,
    Stop,
    read_records,
)
from broker.records.compression import Codec
from broker.records.header import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tests.webui.log_world import WALL_MS, LogWorld

LIMITS = ReadLimits(records=100, read_bytes=1 << 20, time_ms=1_000, kept_bytes=100)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    world = LogWorld(tmp_path)
    yield world
    world.close()


def whole(world: LogWorld, topic: str = "t", start: int = 0) -> list[Range]:
    hosted = world.partitions.by_name[topic]
    logs = [hosted.open_logs.get(index) for index in range(hosted.count)]
    return [
        Range(index, log, start, 0 if log is None else log.high_watermark) for index, log in enumerate(logs)
    ]


def read(
    world: LogWorld,
    ranges: list[Range] | None = None,
    wanted: RecordFilter = RecordFilter(),  # noqa: B008 - frozen
    limits: ReadLimits = LIMITS,
    **rest: Any,
) -> FoundRecords:
    given = whole(world) if ranges is None else ranges
    return run_through(read_records(given, wanted, limits, world.clock.ms, **rest))


def values(found: FoundRecords) -> list[bytes | None]:
    return [None if each.value is None else each.value.kept for each in found.records]


def on(found: FoundRecords, world: LogWorld) -> list[Range]:
    """The ranges at which another reading continues."""
    hosted = world.partitions.by_name["t"]
    return [
        Range(each.partition, hosted.open_logs.get(each.partition), each.next, each.end)
        for each in found.positions
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_every_codec_are_read(world: LogWorld, codec: Codec) -> None:
    world.topic("t")
    world.append("t", *((f"k{n}", f"value {n}" * 20) for n in range(300)), codec=codec)
    found = read(world, limits=ReadLimits(300, 1 << 20, 1_000, 1_000))
    assert [each.offset for each in found.records] == list(range(300))
    assert found.records[299].key == Cut(4, b"k299") and found.records[7].value == Cut(140, b"value 7" * 20)
    assert (found.stopped, found.read_records) == (Stop.END, 300)
    assert found.records[3].timestamp == WALL_MS + 3


def test_partitions_are_merged_by_time(world: LogWorld) -> None:
    world.topic("t", 3)
    world.append("t", (None, "a"), (None, "d"), partition=0, at_ms=10, step_ms=30)
    world.append("t", (None, "b"), (None, "e"), partition=1, at_ms=20, step_ms=30)
    world.append("t", (None, "c"), partition=2, at_ms=30)
    assert values(read(world)) == [b"a", b"b", b"c", b"d", b"e"]
    found = read(world, limits=ReadLimits(2, 1 << 20, 1_000, 10))
    assert values(found) == [b"a", b"b"] and found.stopped is Stop.RECORDS
    assert values(read(world, on(found, world))) == [b"c", b"d", b"e"]


@pytest.mark.parametrize(("most", "stopped"), [(2, Stop.RECORDS), (3, Stop.END), (4, Stop.END)])
def test_a_reading_stops_at_its_number_of_records(world: LogWorld, most: int, stopped: Stop) -> None:
    world.topic("t")
    world.append("t", *((None, str(n)) for n in range(3)))
    found = read(world, limits=ReadLimits(most, 1 << 20, 1_000, 10))
    assert len(found.records) == min(most, 3) and found.stopped is stopped
    assert found.positions[0].next == min(most, 3)


@pytest.mark.parametrize(("spare", "count"), [(-1, 20), (0, 10), (1, 20)])
def test_a_reading_stops_after_its_bytes_and_goes_on_from_there(
    world: LogWorld, spare: int, count: int
) -> None:
    """One batch has exactly the allowed bytes: the second is not begun. With a byte more allowed, it is."""
    world.topic("t")
    for at in range(3):
        world.append("t", *((None, f"{at} {n:03}") for n in range(10)))
    (size,) = {run_through(_bytes_of_one(world))}
    found = read(world, limits=ReadLimits(100, size + spare, 1_000, 10))
    assert len(found.records) == (count if spare >= 0 else 10)
    assert found.stopped is Stop.BYTES and found.positions[0].next == len(found.records)
    rest = read(world, on(found, world))
    assert values(found) + values(rest) == values(read(world))


def _bytes_of_one(world: LogWorld) -> Iterator[Any]:
    found = yield from read_records(whole(world), RecordFilter(), ReadLimits(1, 1, 1_000, 10), world.clock.ms)
    return found.read_bytes


def test_a_reading_stops_at_its_time_even_if_nothing_matches(world: LogWorld) -> None:
    world.topic("t")
    for _ in range(40):
        world.append("t", *((None, "x" * 20) for _ in range(100)))
    ticks = iter(range(10_000))
    found = run_through(
        read_records(
            whole(world),
            RecordFilter(contains=b"absent"),
            ReadLimits(10, 1 << 30, 20, 10),
            lambda: next(ticks),
        )
    )
    assert found.records == [] and found.stopped is Stop.TIME
    assert 0 < found.positions[0].next < found.positions[0].end


def test_every_reading_advances_even_if_one_batch_exceeds_its_bytes(world: LogWorld) -> None:
    world.topic("t", 2)
    for partition in range(2):
        world.append("t", *((None, f"{partition} {n}") for n in range(5)), partition=partition)
    found: list[bytes | None] = []
    ranges = whole(world)
    for _ in range(20):
        some = read(world, ranges, limits=ReadLimits(100, 1, 1_000, 10))
        found += values(some)
        ranges = on(some, world)
        if some.stopped is Stop.END:
            break
    assert sorted(found) == sorted(values(read(world))) and some.stopped is Stop.END


def test_the_newest_are_the_last_of_all_partitions(world: LogWorld) -> None:
    world.topic("t", 2)
    world.append("t", *((None, f"a{n}") for n in range(5)), partition=0, at_ms=100, step_ms=10)
    world.append("t", *((None, f"b{n}") for n in range(2)), partition=1, at_ms=125, step_ms=10)
    found = read(world, limits=ReadLimits(3, 1 << 20, 1_000, 10), newest=True)
    assert values(found) == [b"a3", b"b1", b"a4"] and found.stopped is Stop.END


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_filters_select_by_key_and_by_text_in_key_value_and_header(world: LogWorld, codec: Codec) -> None:
    world.topic("t")
    world.append("t", ("k1", "blue"), ("k2", "red"), (None, "k1"), ("", "empty key"), codec=codec)
    world.append("t", ("k1", None), codec=codec, headers=(("colour", b"dark red"),))
    assert [r.offset for r in read(world, wanted=RecordFilter(key=b"k1")).records] == [0, 4]
    assert [r.offset for r in read(world, wanted=RecordFilter(key=b"")).records] == [3]
    assert [r.offset for r in read(world, wanted=RecordFilter(contains=b"red")).records] == [1, 4]
    assert [r.offset for r in read(world, wanted=RecordFilter(contains=b"k1")).records] == [0, 2, 4]
    assert [r.offset for r in read(world, wanted=RecordFilter(b"k1", b"red")).records] == [4]
    assert read(world, wanted=RecordFilter(contains=b"RED")).records == []
    assert read(world, wanted=RecordFilter(contains=b".*")).records == []


def test_a_large_batch_is_searched_record_by_record(world: LogWorld) -> None:
    world.topic("t", max_message_bytes="4000000")
    world.append("t", *((None, f"{n:06}" + "x" * 994) for n in range(1_500)))
    found = read(world, wanted=RecordFilter(contains=b"001234"), limits=ReadLimits(5, 1 << 22, 60_000, 6))
    assert [(r.offset, r.value) for r in found.records] == [(1_234, Cut(1_000, b"001234"))]


@pytest.mark.parametrize("size", [99, 100, 101])
def test_long_values_are_cut_and_say_their_size(world: LogWorld, size: int) -> None:
    world.topic("t")
    world.append("t", ("k" * size, "v" * size), headers=(("n" * size, b"h" * size),))
    (record,) = read(world).records
    assert record.key == Cut(size, b"k" * min(size, 100)) and record.value == Cut(size, b"v" * min(size, 100))
    assert record.headers == ((Cut(size, b"n" * min(size, 100)), Cut(size, b"h" * min(size, 100))),)


@pytest.mark.parametrize("count", [MAX_HEADERS - 1, MAX_HEADERS, MAX_HEADERS + 1])
def test_of_many_headers_the_first_are_returned(world: LogWorld, count: int) -> None:
    world.topic("t")
    world.append("t", (None, "v"), headers=tuple((f"h{n}", None) for n in range(count)))
    (record,) = read(world).records
    assert record.header_count == count and len(record.headers) == min(count, MAX_HEADERS)


def test_a_reading_begins_within_a_batch(world: LogWorld) -> None:
    world.topic("t")
    world.append("t", *((None, str(n)) for n in range(9)))
    assert values(read(world, whole(world, start=7))) == [b"7", b"8"]
    (part,) = whole(world)
    assert values(read(world, [part._replace(start=2, end=4)])) == [b"2", b"3"]


def control_batch(world: LogWorld, producer: int, kind: int) -> None:
    key = struct.pack(">hh", 0, kind)
    flags = CONTROL_FLAG | TRANSACTIONAL_FLAG
    world.append(
        "t", (key, b"\0" * 6), attributes=flags, producer_id=producer, producer_epoch=0, base_sequence=1
    )


def test_control_batches_and_aborted_transactions_are_skipped(world: LogWorld) -> None:
    world.topic("t")
    of = {"attributes": TRANSACTIONAL_FLAG, "producer_epoch": 0}
    world.append("t", (None, "aborted"), producer_id=7, base_sequence=0, **of)
    world.append("t", (None, "kept"), producer_id=8, base_sequence=0, **of)
    control_batch(world, 7, 0)
    control_batch(world, 8, 1)
    world.append("t", (None, "open"), producer_id=9, base_sequence=0, **of)
    found = read(world)
    assert [(values(found)[at], each.is_transactional) for at, each in enumerate(found.records)] == [
        (b"kept", True),
        (b"open", True),
    ]
    assert found.positions[0].next == 5


def test_a_damaged_batch_is_named_and_what_follows_is_read(world: LogWorld) -> None:
    world.topic("t")
    world.append("t", (None, "first"))
    world.append("t", *((None, "x" * 50) for _ in range(20)), codec=Codec.GZIP)
    world.append("t", (None, "last"))
    log = world.partitions.log("t", 0)
    assert log is not None
    _, size = log.segments[0].locate(0) or (0, 0)
    with open(log.segments[0].path, "r+b") as file:
        file.seek(size + 61 + 12)
        file.write(b"\xff" * 8)
    found = read(world)
    assert values(found) == [b"first", b"last"]
    assert [(each.partition, each.offset) for each in found.unreadable] == [(0, 1)]
    assert found.stopped is Stop.END


def test_a_partition_that_was_never_written_has_nothing(world: LogWorld) -> None:
    found = read(world, [Range(0, None, 0, 0)])
    assert found.records == [] and found.stopped is Stop.END


def test_records_that_retention_removes_meanwhile_are_passed_over(world: LogWorld) -> None:
    world.topic("t")
    for value in "abc":
        world.append("t", (None, value))
    ranges = whole(world)
    log = world.partitions.log("t", 0)
    assert log is not None
    log.delete_records_before(2)
    assert values(read(world, ranges)) == [b"c"]


SPAN = 8


@pytest.mark.parametrize("at", [0, SPAN - 2, SPAN - 1, SPAN, 2 * SPAN - 3, 4 * SPAN - 3])
def test_a_text_is_found_wherever_the_parts_of_a_search_end(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setattr(record_reader, "SEARCHED_AT_ONCE", SPAN)
    world.topic("t")
    value = "." * at + "xyz" + "." * (4 * SPAN - at - 3)
    world.append("t", ("k", value), ("k", "." * 4 * SPAN), ("k", "xy" * 2 * SPAN))
    found = read(world, wanted=RecordFilter(contains=b"xyz"))
    assert [each.offset for each in found.records] == [0]


@pytest.mark.parametrize(("parts", "pauses"), [(1, 0), (2, 1), (10, 9)])
def test_a_search_pauses_between_the_parts_of_a_long_value(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, parts: int, pauses: int
) -> None:
    world.topic("t")
    world.append("t", (None, "." * 100 * parts))
    steps = read_records(whole(world), RecordFilter(contains=b"absent"), LIMITS, world.clock.ms)
    before = sum(1 for _ in steps)
    monkeypatch.setattr(record_reader, "SEARCHED_AT_ONCE", 100)
    steps = read_records(whole(world), RecordFilter(contains=b"absent"), LIMITS, world.clock.ms)
    # The key, the headers and the end of the record are searched too, without a pause.
    assert sum(1 for _ in steps) - before == pauses


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_a_large_value_is_not_copied(world: LogWorld, monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    monkeypatch.setattr(record_reader, "MAX_COPIED", 1_000)
    world.topic("t")
    world.append("t", (None, "x" * (1_000 + over)))
    (found,) = read(world, limits=ReadLimits(1, 1 << 20, 1_000, 2_000)).records
    assert found.value is not None and found.value.kept == b"x" * (1_000 + over)
    assert isinstance(found.value.kept, memoryview) is (over > 0)


@pytest.mark.parametrize(("kept", "pauses"), [(99, 4), (100, 9), (101, 9)])
def test_copying_pauses_after_so_many_bytes(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch, kept: int, pauses: int
) -> None:
    monkeypatch.setattr(record_reader, "KEPT_AT_ONCE", 100)
    world.topic("t")
    world.append("t", *((None, "x" * kept) for _ in range(9)))
    limits = ReadLimits(9, 1 << 20, 1_000, 1_000)
    made = sum(1 for _ in read_records(whole(world), RecordFilter(), limits, world.clock.ms))
    monkeypatch.setattr(record_reader, "KEPT_AT_ONCE", 1 << 20)
    assert made - sum(1 for _ in read_records(whole(world), RecordFilter(), limits, world.clock.ms)) == pauses


def test_a_key_of_another_length_is_not_compared(world: LogWorld) -> None:
    world.topic("t")
    world.append("t", ("key", "1"), ("key!", "2"), ("ke", "3"), (None, "4"), ("", "5"))
    assert values(read(world, wanted=RecordFilter(key=b"key"))) == [b"1"]
    assert values(read(world, wanted=RecordFilter(key=b""))) == [b"5"]
