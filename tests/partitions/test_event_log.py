"""The bounded buffers of event topics, records that do not fit, and the headers with an event's origin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import BROKER_ITSELF, CreateTopics, NewTopic
from broker.partitions.event_log import RECORD_OVERHEAD, EventLog, EventOrigin
from broker.records.build import NewRecord
from tests.api.harness import WALL_MS, Harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    yield made
    made.close()


def record(size: int) -> NewRecord:
    """Build a record that takes `size` bytes of its buffer."""
    return NewRecord(None, b"x" * (size - RECORD_OVERHEAD), WALL_MS)


async def make(harness: Harness, name: str, partitions: int = 1, **configs: str) -> None:
    settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
    (outcome,) = await harness.control.apply(
        CreateTopics((NewTopic(name, partitions, 1, settings),)), BROKER_ITSELF
    )
    assert outcome.ok


@pytest.mark.parametrize(("size", "is_taken"), [(499, True), (500, True), (501, False)])
def test_a_buffer_takes_what_it_has_space_for_and_counts_the_rest(
    harness: Harness, size: int, is_taken: bool
) -> None:
    log = EventLog(harness.partitions, buffer_bytes=1_000)
    assert log.offer("__weir_a", record(500))
    assert log.offer("__weir_a", record(size)) is is_taken
    assert log.topics["__weir_a"].dropped == (not is_taken)
    assert log.offer("__weir_b", record(1_000))  # each topic has its own


async def test_records_wait_until_their_topic_exists(harness: Harness) -> None:
    log = EventLog(harness.partitions)
    log.offer("__weir_a", record(100))
    assert log.missing() == ["__weir_a"] and log.write(WALL_MS) == []
    await make(harness, "__weir_a")
    assert log.missing() == []
    (grown,) = log.write(WALL_MS)
    assert grown.high_watermark == 1 and log.topics["__weir_a"].written == 1
    assert log.write(WALL_MS) == []


async def test_written_rows_free_space_in_the_buffer(harness: Harness) -> None:
    log = EventLog(harness.partitions, buffer_bytes=1_000)
    await make(harness, "__weir_a")
    assert log.offer("__weir_a", record(1_000)) and not log.offer("__weir_a", record(100))
    log.write(WALL_MS)
    assert log.offer("__weir_a", record(1_000))


async def test_one_record_that_the_topic_refuses_costs_no_other(harness: Harness) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a", max_message_bytes="300000")
    for size in (300_000, 400_000, 100):
        log.offer("__weir_a", NewRecord(None, bytes(range(256)) * (size // 256), WALL_MS))
    log.write(WALL_MS)
    waiting = log.topics["__weir_a"]
    assert (waiting.written, waiting.dropped) == (2, 1)


async def test_a_full_disk_drops_and_counts_and_the_next_second_is_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a")
    log.offer("__weir_a", record(100))
    partition = harness.partitions.by_name["__weir_a"].log(0)
    assert partition is not None
    with monkeypatch.context() as patch:
        patch.setattr("os.pwritev", _refuse)
        patch.setattr("os.pwrite", _refuse)
        log.write(WALL_MS)
    log.offer("__weir_a", record(100))
    log.write(WALL_MS)
    waiting = log.topics["__weir_a"]
    assert (waiting.written, waiting.dropped) == (1, 1) and partition.high_watermark == 1


async def test_without_a_descriptor_for_its_codec_a_second_is_dropped_and_the_next_is_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a")
    with monkeypatch.context() as patch:
        patch.setattr("broker.partitions.event_log.build_batch", _none_left)
        log.offer("__weir_a", record(100))
        log.write(WALL_MS)
    log.offer("__weir_a", record(100))
    log.write(WALL_MS)
    assert (log.topics["__weir_a"].written, log.topics["__weir_a"].dropped) == (1, 1)


@pytest.mark.parametrize(("partitions", "expected"), [(1, [6]), (3, [1, 1, 4])])
async def test_a_key_decides_the_partition_in_as_many_as_the_topic_has(
    harness: Harness, partitions: int, expected: list[int]
) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a", partitions)
    for key in (b"alice/app", b"bob/", None, b"alice/app", b"10.0.0.1", b"alice/app"):
        log.offer("__weir_a", NewRecord(key, b"x", WALL_MS))
    assert len(log.write(WALL_MS)) == partitions
    assert ends(harness, "__weir_a") == expected and log.topics["__weir_a"].written == 6


async def test_records_without_a_key_go_to_the_partitions_in_turn(harness: Harness) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a", 2)
    for expected in ([1, 0], [1, 1], [2, 1]):
        log.offer("__weir_a", record(100))
        log.write(WALL_MS)
        assert ends(harness, "__weir_a") == expected


async def test_a_partition_without_a_log_costs_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EventLog(harness.partitions)
    await make(harness, "__weir_a", 2)
    healthy = harness.partitions.by_name["__weir_a"].log(1)
    assert healthy is not None
    with monkeypatch.context() as patch:
        patch.setattr("broker.log.store.LogStore.create_partition", _no_log)
        for _ in range(2):
            log.offer("__weir_a", record(100))
            log.write(WALL_MS)
    assert (log.topics["__weir_a"].written, log.topics["__weir_a"].dropped) == (1, 1)
    assert healthy.high_watermark == 1


def ends(harness: Harness, topic: str) -> list[int]:
    """The high watermark of each partition."""
    hosted = harness.partitions.by_name[topic]
    logs = [hosted.log(index) for index in range(hosted.count)]
    return [log.high_watermark for log in logs if log is not None]


def _no_log(*_: object, **__: object) -> None:
    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)


def _none_left(*_: object, **__: object) -> memoryview:
    raise OSError(24, "Too many open files", "cramjam/__init__.py")


def _refuse(*_: object) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("cluster", "gateway", "expected"),
    [
        ("c1", "", (("cluster", b"c1"), ("node", b"7"))),
        ("c1", "7-ab", (("cluster", b"c1"), ("node", b"7"), ("gateway", b"7-ab"))),
        ("", "7-ab", (("node", b"7"), ("gateway", b"7-ab"))),
    ],
)
def test_only_what_is_known_is_a_header(
    cluster: str, gateway: str, expected: tuple[tuple[str, bytes], ...]
) -> None:
    assert EventOrigin(7, lambda: cluster, gateway).headers() == expected


def test_a_cluster_that_is_found_later_is_in_later_records() -> None:
    found = ""
    origin = EventOrigin(7, lambda: found)
    assert origin.headers() == (("node", b"7"),)
    found = "c1"
    assert origin.headers() == (("cluster", b"c1"), ("node", b"7"))
