"""Work on records between other tasks: results, errors of decompression, cancellation."""

from functools import partial

import pytest
import trio

from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import OneAtATime, run_slices
from broker.common.slices import Slices
from broker.records.compression import Codec, compress, decompress
from broker.records.packing import CodecWork


def unpacked(packed: bytes) -> Slices[bytes]:
    step = CodecWork(partial(decompress, Codec.GZIP, packed))
    yield None
    yield step
    return bytes(step.data)


def endless() -> Slices[None]:
    while True:
        yield None


def counting(count: int, done: list[int]) -> Slices[int]:
    for number in range(count):
        done.append(number)
        yield None
    return count


async def test_a_batch_is_decompressed_and_the_result_returned() -> None:
    assert await run_slices(unpacked(bytes(compress(Codec.GZIP, b"x" * 5_000)))) == b"x" * 5_000


async def test_the_error_of_a_decompression_reaches_the_work() -> None:
    def forgiving() -> Slices[str]:
        try:
            yield CodecWork(partial(decompress, Codec.GZIP, b"nothing"))
        except ApiError as error:
            return error.code.name
        return ""

    assert await run_slices(forgiving()) == "CORRUPT_MESSAGE"
    with pytest.raises(ApiError) as refused:
        await run_slices(unpacked(b"nothing"))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


async def test_other_tasks_run_meanwhile_and_a_cancellation_ends_the_work() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_slices, endless())
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_work_to_the_end_is_not_cancelled() -> None:
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await run_slices(counting(10_000, done), to_the_end=True) == 10_000
    assert len(done) == 10_000


async def test_one_reading_runs_at_a_time() -> None:
    running: list[int] = []
    most = 0

    def reading(number: int) -> Slices[int]:
        nonlocal most
        running.append(number)
        for _ in range(3):
            most = max(most, len(running))
            yield CodecWork(partial(compress, Codec.GZIP, b"x", None))
        running.remove(number)
        return number

    readings = OneAtATime()
    ended: list[int] = []

    async def read(number: int) -> None:
        ended.append(await readings.run(reading(number)))

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(read, number)
    assert most == 1 and sorted(ended) == [0, 1, 2]
