"""Unreadable records: their partitions get an error as long as no byte of the response has been sent;
otherwise the connection closes.

A file that was truncated under the broker gives EIO beyond its end.
"""

import itertools
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.log import disk
from broker.log.slice import READ_AHEAD
from broker.network import responder
from broker.network.unsendable import QUIET_MS
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.history import ENDS
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import WireClient

PARTITIONS = 5
KAFKA_STORAGE_ERROR = 56
FLEXIBLE, INFLEXIBLE = 12, 11


def fetch_of(*partitions: int, most: int = 1_000_000, session_epoch: int = -1) -> FetchRequest:
    fetched = [FetchPartition(each, fetch_offset=0, partition_max_bytes=most) for each in partitions]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=20_000_000,
        topics=[FetchTopic("events", partitions=fetched)],
        session_epoch=session_epoch,
    )


def errors_of(answer: Any) -> dict[int, int]:
    """By partition; one without an error has its records."""
    found = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
    for each in found.values():
        assert bool(each.records) is (each.error_code == 0)
        assert (each.high_watermark == -1) is (each.error_code != 0)
    return {index: each.error_code for index, each in found.items()}


def truncate(directory: Path, *partitions: int) -> None:
    for each in partitions:
        os.truncate(directory / f"events-{each}" / f"{0:020d}.log", 10)


def cut_off(running: RunningBroker) -> int:
    return sum(each.selector.counts.cut_off for each in running.server.socket_server.processors())


async def filled(running: RunningBroker, value: bytes, times: int = 1) -> WireClient:
    client = await running.connect()
    await client.ask(create_topic(partitions=PARTITIONS), 5)
    for partition in range(PARTITIONS):
        for _ in range(times):
            answer = await client.ask(produce_request(batch_of(value), partition=partition), PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
    return client


BROKEN = [(0,), (2,), (4,), (1, 3), (0, 1, 2, 3, 4)]


def ways() -> Iterator[Any]:
    """Each way of a request with two of the five, so that each of them meets every value. Others are slow."""
    wholes = itertools.product(["kafka", "automq"], [True, None], [100, 20_000], [INFLEXIBLE, FLEXIBLE])
    for number, whole in enumerate(wholes):
        for at, broken in enumerate(BROKEN):
            marks = () if at in (number % 5, (number + 2) % 5) else pytest.mark.slow
            yield pytest.param(*whole, broken, marks=marks)


@pytest.mark.parametrize(("mode", "cached", "size", "version", "broken"), list(ways()))
async def test_partitions_whose_small_records_cannot_be_read_fail_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: tuple[int, ...],
    version: int,
    size: int,
    cached: bool | None,
    mode: str,
) -> None:
    """Their offsets are remembered, and the page cache says that it has them, or cannot tell: the error is
    met when they are to be sent. The connection goes on.
    """
    async with running_broker(tmp_path, f"socket.server.mode={mode}") as running:
        client = await filled(running, bytes(size))
        monkeypatch.setattr(disk, "is_cached", lambda _file, _position: cached)
        truncate(tmp_path, *broken)
        expected = {each: KAFKA_STORAGE_ERROR if each in broken else 0 for each in range(PARTITIONS)}
        for _ in range(2):
            assert errors_of(await client.ask(fetch_of(*range(PARTITIONS)), version)) == expected
        logs = running.server.partitions.by_name["events"]
        for index in range(PARTITIONS):
            log = logs.open_logs.get(index)
            assert log is not None and (log.offline is not None) is (index in broken)
            assert log.metrics.failed_reads == (2 if index in broken else 0)
        assert cut_off(running) == 0


async def test_a_consumer_that_repeats_itself_is_reported_and_keeps_its_connection(tmp_path: Path) -> None:
    """Its requests are served from memory, without a message."""
    async with running_broker(tmp_path) as running:
        client = await filled(running, bytes(100))
        for _ in range(3):
            assert errors_of(await client.ask(fetch_of(3), FLEXIBLE)) == {3: 0}
        truncate(tmp_path, 3)
        for _ in range(2):
            assert errors_of(await client.ask(fetch_of(3), FLEXIBLE)) == {3: KAFKA_STORAGE_ERROR}
        assert errors_of(await client.ask(fetch_of(4), FLEXIBLE)) == {4: 0}
        assert cut_off(running) == 0


async def test_a_session_goes_on_after_an_answer_that_was_made_anew(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        client = await filled(running, bytes(100))
        truncate(tmp_path, 1)
        request = fetch_of(0, 1, 2, session_epoch=0)
        answer = await client.ask(request, FLEXIBLE)
        assert errors_of(answer) == {0: 0, 1: KAFKA_STORAGE_ERROR, 2: 0} and answer.session_id > 0
        request.topics, request.session_id, request.session_epoch = [], answer.session_id, 1
        again = await client.ask(request, FLEXIBLE)
        assert again.error_code == 0
        assert errors_of(again) == {0: 0, 1: KAFKA_STORAGE_ERROR, 2: 0}


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
@pytest.mark.parametrize("size", [40_000, 60_000, 100_000, 300_000])
async def test_records_behind_those_that_are_copied_are_read_before_the_answer_begins(
    tmp_path: Path, transfer: str, size: int
) -> None:
    """All five have more bytes than one system call takes, and the last cannot be read."""
    async with running_broker(tmp_path, f"log.transfer={transfer}") as running:
        client = await filled(running, bytes(size))
        truncate(tmp_path, 4)
        expected = dict.fromkeys(range(4), 0) | {4: KAFKA_STORAGE_ERROR}
        for _ in range(2):
            assert errors_of(await client.ask(fetch_of(*range(PARTITIONS)), FLEXIBLE)) == expected
        assert cut_off(running) == 0


async def test_more_partitions_than_one_call_takes_are_known_to_be_readable_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def is_cached(file: disk.OpenFile, _position: int) -> bool:
        looked.append(file.fd)
        return True

    async with running_broker(tmp_path, "log.max.open.files=1000") as running:
        client = await running.connect()
        await client.ask(create_topic(partitions=203), 5)
        for partition in range(203):
            await client.ask(produce_request(batch_of(b"x"), partition=partition), PRODUCE_VERSION)
        monkeypatch.setattr(disk, "is_cached", is_cached)
        for count, looks in ((200, 0), (201, 0), (202, 1), (203, 2)):
            looked.clear()
            answer = await client.ask(fetch_of(*range(count)), FLEXIBLE)
            assert set(errors_of(answer).values()) == {0} and len(set(looked)) == looks


@pytest.mark.parametrize("transfer", ["sendfile", "mmap"])
async def test_a_response_that_has_begun_is_cut_off_counted_and_reported_once_a_second(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, transfer: str
) -> None:
    """Its length is on the wire, so only records could follow. The readers take nothing for a while, and the
    file is truncated meanwhile.
    """
    async with running_broker(tmp_path, "num.network.threads=1", f"log.transfer={transfer}") as running:
        client = await filled(running, bytes(READ_AHEAD - 100), times=12)
        readers = [await running.connect(f"reader-{n}") for n in range(4)]
        late = readers.pop()
        for reader in (*readers, late):
            await reader.send(fetch_of(0, 1, most=20_000_000), FLEXIBLE)
        await wait_all_tasks_blocked(0.02)
        truncate(tmp_path, 0)
        for count, reader in enumerate(readers, 1):
            with pytest.raises(ENDS):
                await reader.receive(ApiKey.FETCH, FLEXIBLE)
            await wait_all_tasks_blocked(0.02)
            assert cut_off(running) == count
        mock_clock.jump(QUIET_MS / 1_000)
        with pytest.raises(ENDS):
            await late.receive(ApiKey.FETCH, FLEXIBLE)
        lines = [each for each in caplog.records if each.name == responder.__name__]
        assert [(each.levelno, getattr(each, "others_before", 0)) for each in lines] == [
            (logging.WARNING, 0),
            (logging.WARNING, 2),
        ]
        offline = [each for each in caplog.records if each.getMessage() == "a partition is offline"]
        assert len(offline) == 1
        expected = {0: KAFKA_STORAGE_ERROR, 1: 0}
        assert errors_of(await client.ask(fetch_of(0, 1), FLEXIBLE)) == expected
        assert cut_off(running) == 4
        assert "weir_responses_cut_off_total 4" in running.server.prometheus.page()
