"""The broadcaster updates each open page with one write, with a scheduling point in between."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from broker.controller.rows.broker import Overview
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from tests.webui.settled import settled
from webui.live.broadcaster import BROADCAST_EVERY_S, Live
from webui.live.snapshot import Snapshot
from webui.live.sse_client import QUIET_S, Section, StreamSubscriber
from webui.rest.events import make_live, stream

OVERVIEW: list[tuple[str, Section]] = [("overview", Snapshot.overview)]
THROTTLED: list[tuple[str, Section]] = [("throttled", Snapshot.throttled)]


class Pipe:
    """A connection that takes `capacity` bytes, and the rest once `drained` is set."""

    def __init__(self, capacity: Callable[[int], int] = lambda size: size) -> None:
        self.capacity = capacity
        self.written: list[bytes] = []
        self.writes = 0
        self.drained = trio.Event()
        self.gone = False

    def send_nowait(self, data: bytes) -> int:
        self.writes += 1
        if self.gone:
            raise BrokenPipeError
        taken = self.capacity(len(data))
        if taken == 0:
            raise BlockingIOError
        self.written.append(data[:taken])
        return taken

    async def send_all(self, data: bytes) -> None:
        await self.drained.wait()
        if self.gone:
            raise trio.BrokenResourceError
        self.written.append(data)

    def chunks(self) -> list[bytes]:
        """Return the chunks as HTTP/1.1 frames them, and fail on a malformed one."""
        left, found = b"".join(self.written), []
        while left:
            size, _, left = left.partition(b"\r\n")
            found.append(left[: int(size, 16)])
            assert left[int(size, 16) :].startswith(b"\r\n")
            left = left[int(size, 16) + 2 :]
        return found


class Counted(FakeBroker):
    overviews_queried = 0

    def overview(self) -> Overview:
        self.overviews_queried += 1
        return super().overview()


@asynccontextmanager
async def followed(
    broker: FakeBroker,
    pipes: Sequence[Pipe],
    sections: list[tuple[str, Section]] = OVERVIEW,
    is_logged_in: Callable[[], bool] = lambda: True,
) -> AsyncIterator[tuple[Live, list[list[bytes]]]]:
    """Live pages with these connections, and the bytes that the framework sends for each."""
    live = make_live(broker.views, broker.alerts, lambda: broker.now_ms + round(trio.current_time() * 1000))
    framed: list[list[bytes]] = []

    async def follow(pipe: Pipe, sent: list[bytes]) -> None:
        async for part in stream(live, StreamSubscriber(sections, is_logged_in, pipe)):
            sent.append(part)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        await settled()
        for pipe in pipes:
            framed.append([])
            nursery.start_soon(follow, pipe, framed[-1])
        await settled()
        yield live, framed
        nursery.cancel_scope.cancel()


async def test_fifty_pages_cost_one_look_and_one_write_each(mock_clock: MockClock) -> None:
    broker, pipes = Counted(), [Pipe() for _ in range(50)]
    async with followed(broker, pipes):
        await _pass(mock_clock, BROADCAST_EVERY_S)
        count = broker.overviews_queried
        written = [pipe.writes for pipe in pipes]
        for _ in range(10):
            await _pass(mock_clock, BROADCAST_EVERY_S)
        # The pages get the same values as the history.
        assert broker.overviews_queried - count == 10
        assert [pipe.writes - before for pipe, before in zip(pipes, written, strict=True)] == [10] * 50
        assert len({pipe.written[-1] for pipe in pipes}) == 1


async def test_the_beginning_is_the_frameworks_and_the_rest_is_written_in_chunks(
    mock_clock: MockClock, broker: FakeBroker
) -> None:
    pipe = Pipe()
    async with followed(broker, [pipe], THROTTLED) as (_, framed):
        assert framed[0][0] == b"retry: 1000\n\n" and framed[0][1].startswith(b"event: throttled\n")
        broker.throttled_rows = [throttled()]
        await _pass(mock_clock, BROADCAST_EVERY_S)
        [event] = pipe.chunks()
        assert event.startswith(b"event: throttled\ndata: ") and event.endswith(b"\n\n")
        assert json.loads(event.split(b"data: ", 1)[1])["total"] == 1
        assert len(framed[0]) == 2


class Polls(trio.abc.Instrument):
    """Note when the event loop polls the kernel."""

    def __init__(self, turns: list[str]) -> None:
        self.turns = turns

    def before_io_wait(self, timeout: float) -> None:
        self.turns.append("clients")


async def test_between_two_pages_clients_have_their_turn(mock_clock: MockClock, broker: FakeBroker) -> None:
    turns: list[str] = []

    class NotingPipe(Pipe):
        def send_nowait(self, data: bytes) -> int:
            turns.append("page")
            return super().send_nowait(data)

    async with followed(broker, [NotingPipe() for _ in range(5)]):
        trio.lowlevel.add_instrument(Polls(turns))
        await _pass(mock_clock, 1.0)
    assert turns.count("page") == 5
    assert ("page", "page") not in pairwise(turns)


@pytest.mark.parametrize("taken", [0, 1, 10, 60])
async def test_unsent_bytes_of_a_connection_are_sent_first(
    mock_clock: MockClock, broker: FakeBroker, taken: int
) -> None:
    slow, quick = Pipe(lambda size: min(taken, size)), Pipe()
    async with followed(broker, [slow, quick]):
        await _pass(mock_clock, 1.0)
        assert b"".join(slow.written) == quick.written[0][:taken]
        for _ in range(3):
            await _pass(mock_clock, 1.0)
        assert slow.writes == 1 and quick.writes == 4
        slow.capacity = lambda size: size
        slow.drained.set()
        await settled()
        assert slow.chunks()[0] == quick.chunks()[0]
        await _pass(mock_clock, 1.0)
        # Skipped snapshots are not sent later.
        assert slow.chunks()[-1] == quick.chunks()[-1] and len(slow.chunks()) == 2


async def test_a_peer_that_has_gone_affects_no_other(mock_clock: MockClock, broker: FakeBroker) -> None:
    gone, connected = Pipe(), Pipe()
    async with followed(broker, [gone, connected]):
        gone.gone = True
        await _pass(mock_clock, 1.0)
        await _pass(mock_clock, 1.0)
        assert gone.written == [] and connected.writes == 2


async def test_a_peer_that_stops_reading_ends_its_own_stream(
    mock_clock: MockClock, broker: FakeBroker
) -> None:
    stalled = Pipe(lambda size: 1)
    async with followed(broker, [stalled]) as (live, _):
        await _pass(mock_clock, 1.0)
        stalled.gone = True
        stalled.drained.set()
        await settled()
        assert live.streams == 0


async def test_a_user_that_signs_out_is_notified_with_the_next_snapshot(
    mock_clock: MockClock, broker: FakeBroker
) -> None:
    pipe = Pipe()
    signed_out: list[bool] = []
    async with followed(broker, [pipe], is_logged_in=lambda: not signed_out) as (live, framed):
        signed_out.append(True)
        await _pass(mock_clock, 1.0)
        assert framed[0][-1] == b"event: signed-out\ndata: {}\n\n"
        assert pipe.writes == 0 and live.streams == 0


async def test_the_end_ends_every_page(mock_clock: MockClock, broker: FakeBroker) -> None:
    async with followed(broker, [Pipe(), Pipe()]) as (live, _):
        live.end()
        await settled()
        assert live.streams == 0


async def test_a_quiet_page_hears_that_we_live(mock_clock: MockClock, broker: FakeBroker) -> None:
    pipe = Pipe()
    async with followed(broker, [pipe], THROTTLED):
        for _ in range(round(QUIET_S / BROADCAST_EVERY_S) - 1):
            await _pass(mock_clock, BROADCAST_EVERY_S)
        assert pipe.written == []
        await _pass(mock_clock, BROADCAST_EVERY_S)
        assert pipe.chunks() == [b": still here\n\n"]


async def _pass(clock: MockClock, seconds: float) -> None:
    clock.jump(seconds)
    await settled()
