"""Long changes yield between their slices, and a publication runs to its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.common import slices as common_slices
from broker.common.slices import SLICE_S, Steps
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import AuditFilter, Change, ChangeKind
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.network.metadata_writer import MetadataWriter
from tests.webui.polls import Polls, WorkClock

STEPS = 40


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[MetadataWriter]:
    store = MetadataStore.open(tmp_path / "metadata.sqlite", 0)
    yield MetadataWriter(store, TrioClock())
    store.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    clock = WorkClock()
    monkeypatch.setattr(common_slices, "time", clock)
    return clock


def work(clock: WorkClock, each_s: float, done: list[int]) -> Steps[str]:
    for step in range(STEPS):
        clock.now += each_s
        done.append(step)
        yield
    return "done"


@pytest.mark.parametrize(
    ("slices", "pauses"),
    [(0.99, 0), (1.0, 2), (1.99, 2), (2.0, 3), (STEPS, STEPS + 1), (4 * STEPS, STEPS + 1)],
)
async def test_others_have_a_turn_whenever_a_slice_is_used_up(
    writer: MetadataWriter, clock: WorkClock, slices: float, pauses: int
) -> None:
    """After long work there is one more, so that what follows begins a slice of its own."""
    polls = Polls()
    trio.lowlevel.add_instrument(polls)
    await trio.lowlevel.checkpoint()
    polls.since()
    assert await writer.in_slices(work(clock, slices * SLICE_S / STEPS + 1e-12, [])) == "done"
    assert polls.since() == pauses


@pytest.mark.parametrize(("to_the_end", "steps"), [(True, STEPS), (False, 1)])
async def test_a_cancelled_task_finishes_only_what_it_must(
    writer: MetadataWriter, clock: WorkClock, to_the_end: bool, steps: int
) -> None:
    done: list[int] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await writer.in_slices(work(clock, SLICE_S, done), to_the_end=to_the_end)
    assert len(done) == steps


async def test_a_change_of_another_gateway_keeps_its_time(writer: MetadataWriter) -> None:
    change = Change(ChangeKind.CLIENT_METRICS, "all", "metrics", "*")
    async with writer.exclusive():
        image = await writer.commit_at([change], BROKER_ITSELF, 12_345)
    (row,) = await writer.history(AuditFilter(seq=image.version))
    assert (row.time_ms, row.new) == (12_345, "*")
