"""Buffers of very large frames are returned to the system in pieces, and other tasks run between these."""

from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.network.connection.frame_pool import MIB, PIECE, TRUSTED_FRAME, FramePool, Unmapping
from tests.support.rig import RunClock
from tests.support.running import running_broker


@contextmanager
def sizes(unmapping: Unmapping) -> Iterator[list[int]]:
    """What is left each time that another task runs."""
    found: list[int] = []

    class Turns(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            if not found or found[-1] != unmapping.left:
                found.append(unmapping.left)

    instrument = Turns()
    trio.lowlevel.add_instrument(instrument)
    yield found
    trio.lowlevel.remove_instrument(instrument)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        (PIECE - 4096, [0]),
        (PIECE, [0]),
        (PIECE + 4096, [4096, 0]),
        (7 * MIB, [5 * MIB, 3 * MIB, MIB, 0]),
    ],
)
async def test_a_mapping_ends_in_pieces(size: int, wanted: list[int]) -> None:
    unmapping = Unmapping(RunClock())
    mapping = mmap(-1, size)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(unmapping.reaper.run)
        await trio.testing.wait_all_tasks_blocked()
        with sizes(unmapping) as found:
            unmapping.begin(mapping)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [each for each in found if each != size] == wanted
    assert mapping.closed


async def test_a_mapping_in_use_is_left_to_its_last_view() -> None:
    unmapping = Unmapping(RunClock())
    mapping = mmap(-1, 3 * PIECE)
    view = memoryview(mapping)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(unmapping.reaper.run)
        unmapping.begin(mapping)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert unmapping.left == 0
    assert len(view) == 3 * PIECE and view[-1] == 0


def test_the_frame_pool_gives_its_mappings_back() -> None:
    ended: list[mmap] = []
    pool = FramePool(ended.append)
    small = pool.take(TRUSTED_FRAME, 0)
    pool.give_back(small)
    assert isinstance(small, bytearray) and not ended
    large = pool.take(TRUSTED_FRAME + 1, TRUSTED_FRAME)
    assert isinstance(large, mmap)
    pool.release(memoryview(large)[:100])
    assert ended == [large] and pool.outstanding == 0


async def test_each_server_has_its_task(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert "frame-unmapping-reaper" in {row.name for row in broker.server.views.live.tasks()}
