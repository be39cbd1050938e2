"""Damaged and hostile frames of Produce and Fetch, from the socket's bytes to the fast paths.

The modules that read them may run compiled, where a wrong length could read or keep memory that no Python
code would. The slow test sends ten million of them: `pytest -s -m slow tests/network/test_random_frames.py`.
"""

import contextlib
import random
import statistics
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from broker.api.fetch.fast_path import FetchFastPath
from broker.api.produce.fast_path import ProduceFastPath
from broker.api.requests.context import RequestContext
from broker.api.requests.fast_path import FastPath
from broker.api.requests.outcome import AfterCommit
from broker.api.requests.services import FetchServices, ProduceServices
from broker.common.errors import ProtocolViolation
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SCRATCH_BYTES, Frame, Receive
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, request_header_version
from broker.protocol.client_id import client_id_and_body
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch
from tests.api.harness import WALL_MS, Connection, Harness, join
from tests.support.resident import resident_bytes

PARTITIONS: Final = 4
PRODUCE_VERSIONS: Final = (7, 9, 13)
FETCH_VERSIONS: Final = (7, 12, 17)
"""One version of each layout: each keeps 1,024 prologues, which few versions soon have."""
LIMIT: Final = 100_000
"""Bytes of a frame that the connections accept."""

ROUND: Final = 100_000
"""Frames between two changes of the frames, of which each is then sent some ten times."""

DISTINCT: Final = 10_000
BATCH: Final = 128
HOSTILE: Final = (-1, 0, 1, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x7FFFFFFF, -0x80000000)
"""Numbers that are put in the place of lengths and counts."""


class Stream:
    """The bytes of a connection, in pieces of random sizes."""

    def __init__(self, data: bytes, chance: random.Random) -> None:
        self.data = data
        self.at = 0
        self.chance = chance

    def recv_into(self, buffer: memoryview) -> int:
        size = min(self.chance.choice((1, 3, 100, 5_000, 70_000)), len(buffer), len(self.data) - self.at)
        buffer[:size] = self.data[self.at : self.at + size]
        self.at += size
        return size


class Frames:
    """Makes whole and damaged frames: `make` returns one without its size."""

    def __init__(self, harness: Harness, chance: random.Random) -> None:
        self._chance = chance
        topic_id = harness.control.image.topics["events"].topic_id
        batches = [
            build_batch([NewRecord(None, b"x" * size, WALL_MS) for _ in range(count)])
            for size in (0, 100, 3_000)
            for count in (1, 4)
        ]
        self._whole: list[bytes] = []
        for number in range(200):
            indexes = chance.choices(range(PARTITIONS + 1), k=chance.choice((0, 1, 1, 3)))
            if number % 2:
                version = chance.choice(PRODUCE_VERSIONS)
                data = [PartitionProduceData(index, chance.choice(batches)) for index in indexes]
                produce = ProduceRequest(None, 1, 30_000, [TopicProduceData("events", topic_id, data)])
                parts = codec.encode_request(ApiKey.PRODUCE, version)(produce, 7, f"client {number % 7}")
            else:
                version = chance.choice(FETCH_VERSIONS)
                wanted = [
                    FetchPartition(index, -1, chance.choice((0, 1, 50)), partition_max_bytes=10_000)
                    for index in indexes
                ]
                fetch = FetchRequest(
                    max_wait_ms=0, session_epoch=-1, topics=[FetchTopic("events", topic_id, wanted)]
                )
                parts = codec.encode_request(ApiKey.FETCH, version)(fetch, 7, f"client {number % 7}")
            self._whole.append(join(parts)[4:])

    def make(self) -> bytes:
        chance = self._chance
        frame = bytearray(chance.choice(self._whole))
        fate = chance.randrange(20)
        if fate < 4:
            del frame[chance.randrange(8, len(frame)) :]
        elif fate < 12:
            for _ in range(chance.choice((1, 1, 4))):
                frame[chance.randrange(8, len(frame))] ^= 1 << chance.randrange(8)
        elif fate < 18:
            layout = chance.choice((">b", ">h", ">i"))
            size = struct.calcsize(layout)
            at = chance.randrange(8, len(frame) - size)
            number = chance.choice(HOSTILE) & ((1 << 8 * size) - 1)
            frame[at : at + size] = number.to_bytes(size)
        elif fate < 19:
            frame[8:] = chance.randbytes(chance.randrange(300))
        return bytes(frame)


class Server:
    """The fast paths over one store, and what a handler pool does around them."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._paths: dict[tuple[int, int], FastPath] = {
            (ApiKey.PRODUCE, version): ProduceFastPath(version, harness.services[ProduceServices])
            for version in PRODUCE_VERSIONS
        }
        for version in FETCH_VERSIONS:
            self._paths[ApiKey.FETCH, version] = FetchFastPath(version, harness.services[FetchServices])
        self._connection = Connection()
        self._staged: list[AfterCommit] = []
        self.served = self.refused = 0

    def serve(self, frame: Frame) -> None:
        if len(frame) < 10:  # the processor closes the connection
            self.refused += 1
            return
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        context = RequestContext()
        context.api_key, context.api_version, context.correlation_id = key, version, correlation_id
        context.connection, context.client_id, context.exempt = self._connection, None, False
        context.size, context.now_ms, context.wall_ms = len(frame), 1, WALL_MS
        outcome = self._paths[key, version].serve(frame, context)
        if outcome is None:
            self.refused += 1
            with contextlib.suppress(ProtocolViolation):
                client_id_and_body(frame, request_header_version(key, version) >= 2)
            return
        self.served += 1
        if isinstance(outcome, AfterCommit):
            self._staged.append(outcome)
            if len(self._staged) == BATCH:
                self.deliver()

    def deliver(self) -> None:
        staged, self._staged = self._staged, []
        self._harness.partitions.commit()
        for each in staged:
            each.finish()

    def remove_records(self) -> None:
        """Delete the records, so that the disk does not fill."""
        self.deliver()
        for index in range(PARTITIONS):
            log = self._harness.partitions.log("events", index)
            assert log is not None
            log.delete_records_before(log.high_watermark)
            for path in log.retire(WALL_MS):
                Path(path).unlink()


def received(data: bytes, chance: random.Random, pool: FramePool) -> Iterator[Frame]:
    """Yield the frames of a connection that ends with a hostile size."""
    stream = Stream(data, chance)
    receive = Receive(LIMIT, memoryview(bytearray(SCRATCH_BYTES)), pool)
    try:
        while True:
            frame = receive.read(stream)  # type: ignore[arg-type]
            while frame is not None:
                yield frame
                if isinstance(frame, memoryview):
                    pool.release(frame)
                frame = receive.next_buffered()
    except ProtocolViolation:
        receive.close()


async def growth_over(directory: Path, frames: int) -> list[int]:
    """Send so many frames, and return the resident bytes after each round, but the first tenth of them."""
    chance, pool = random.Random(17), FramePool()
    harness = Harness(directory, "log.segment.bytes=1048576")
    await harness.create_topic("events", PARTITIONS)
    for index in range(PARTITIONS):
        harness.append("events", WALL_MS, partition=index)
    maker, server = Frames(harness, chance), Server(harness)
    resident: list[int] = []
    sent = 0
    while sent < frames:
        made = [maker.make() for _ in range(min(DISTINCT, frames))]
        end = min(sent + ROUND, frames)
        while sent < end:
            some = chance.choices(made, k=min(500, end - sent))
            data = b"".join(struct.pack(">i", len(each)) + each for each in some)
            count = 0
            for frame in received(data + struct.pack(">i", chance.choice((-1, LIMIT + 1))), chance, pool):
                assert frame == some[count]
                count += 1
                server.serve(frame)
            assert count == len(some) and pool.outstanding == 0
            sent += count
        server.remove_records()
        resident.append(resident_bytes())
    assert server.served > frames // 50 and server.refused > frames // 10
    harness.close()
    return resident[len(resident) // 10 :]


async def test_damaged_frames_are_refused_or_served(tmp_path: Path) -> None:
    await growth_over(tmp_path, 20_000)


@pytest.mark.slow
async def test_ten_million_damaged_frames_leave_no_memory_behind(tmp_path: Path) -> None:
    resident = await growth_over(tmp_path, 10_000_000)
    slope = statistics.linear_regression(range(len(resident)), resident).slope * 10
    print(f"{slope:.0f} bytes per million frames")
    assert slope < 400_000
