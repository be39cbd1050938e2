"""Live updates: one snapshot of the broker per interval, shared by all open pages."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock

from broker.controller.rows.quotas import QuotaFilter, QuotaRow
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from tests.webui.settled import settled
from webui.live.broadcaster import BROADCAST_EVERY_S, POLL_EVERY_S, Live
from webui.live.snapshot import EXAMINED_EVERY_MS, LiveReport, LiveTable, Snapshot
from webui.rest.client_quotas import RULES
from webui.rest.events import make_live
from webui.tables.json_output import encode
from webui.tables.listing import Page


@pytest.fixture
async def live(broker: FakeBroker) -> AsyncGenerator[Live, None]:
    live = make_live(broker.views, broker.alerts, lambda: broker.now_ms + int(trio.current_time() * 1000))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        await settled()
        yield live
        nursery.cancel_scope.cancel()


@contextmanager
def watching(live: Live) -> Iterator[None]:
    live.join()
    try:
        yield
    finally:
        live.leave()


async def test_the_first_look_is_at_once_and_the_next_after_a_beat(
    autojump_clock: MockClock, live: Live
) -> None:
    with watching(live):
        first = await live.next(None)
        assert trio.current_time() == 0
        second = await live.next(first)
        assert trio.current_time() == BROADCAST_EVERY_S and second is not first


async def test_a_slow_page_gets_the_latest_and_nothing_in_between(
    autojump_clock: MockClock, live: Live
) -> None:
    with watching(live):
        first = await live.next(None)
        await trio.sleep(10 * BROADCAST_EVERY_S + 0.1)
        late = await live.next(first)
        assert trio.current_time() == 10 * BROADCAST_EVERY_S + 0.1
        assert late is live.snapshot


async def test_without_open_pages_only_the_history_is_updated(
    autojump_clock: MockClock, live: Live, broker: FakeBroker
) -> None:
    before = live.snapshot
    await trio.sleep(10.2)
    assert live.snapshot is before
    assert broker.overviews == 11 and len(dict(live.history.columns(99))["at_ms"]) == 10


async def test_the_first_watcher_does_not_see_an_old_broker(
    autojump_clock: MockClock, live: Live, broker: FakeBroker
) -> None:
    await trio.sleep(100)
    broker.throttled_rows = [throttled()]
    with watching(live):
        snapshot = await live.next(None)
        assert snapshot is not None and json.loads(await snapshot.throttled())["total"] == 1


async def test_a_change_made_here_is_shown_without_waiting(autojump_clock: MockClock, live: Live) -> None:
    with watching(live):
        first = await live.next(None)
        await trio.sleep(0.1)
        live.refresh()
        await live.next(first)
        assert trio.current_time() == 0.1


async def test_a_change_of_another_origin_is_shown_with_the_next_look(
    autojump_clock: MockClock, live: Live, broker: FakeBroker
) -> None:
    with watching(live):
        first = await live.next(None)
        await trio.sleep(POLL_EVERY_S + 0.1)
        broker.version += 1
        second = await live.next(first)
        assert trio.current_time() == 2 * POLL_EVERY_S
        await live.next(second)
        assert trio.current_time() == BROADCAST_EVERY_S


async def test_changes_without_end_are_shown_four_times_a_second(
    autojump_clock: MockClock, live: Live
) -> None:
    shown: list[float] = []

    async def watch() -> None:
        seen = await live.next(None)
        while True:
            seen = await live.next(seen)
            shown.append(trio.current_time())

    with watching(live):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            for number in range(199):
                await trio.sleep_until(0.005 + number / 100)
                live.refresh()
            nursery.cancel_scope.cancel()
    assert shown == pytest.approx([0.005, 0.255, 0.505, 0.755, 1.0, 1.005, 1.255, 1.505, 1.755])


async def test_a_report_is_made_every_two_seconds_and_when_something_was_changed(broker: FakeBroker) -> None:
    made: list[int] = []

    async def make(now_ms: int) -> dict[str, int]:
        made.append(now_ms)
        return {"at": now_ms}

    report = LiveReport(broker.views, make)
    for now_ms in (1_000, 1_000, 999 + EXAMINED_EVERY_MS):
        assert await report.data(now_ms) == b'{"at":1000}'
    assert await report.data(1_000 + EXAMINED_EVERY_MS) == b'{"at":3000}'
    broker.version += 1
    assert await report.data(3_001) == b'{"at":3001}'
    assert made == [1_000, 3_000, 3_001]


async def test_a_report_is_made_once_for_all_concurrent_requests(broker: FakeBroker) -> None:
    made: list[int] = []
    answers: list[bytes] = []

    async def make(now_ms: int) -> dict[str, int]:
        made.append(now_ms)
        await settled()
        return {"at": now_ms}

    async def ask(report: LiveReport) -> None:
        answers.append(await report.data(5))

    async with trio.open_nursery() as nursery:
        report = LiveReport(broker.views, make)
        for _ in range(3):
            nursery.start_soon(ask, report)
    assert made == [5] and answers == [b'{"at":5}'] * 3


async def test_changes_without_open_pages_cost_no_query(
    autojump_clock: MockClock, live: Live, broker: FakeBroker
) -> None:
    before = broker.overviews
    for _ in range(50):
        await trio.sleep(0.01)
        live.refresh()
        broker.version += 1
    assert broker.overviews == before


async def test_a_figure_is_asked_for_once_however_many_want_it(
    autojump_clock: MockClock, live: Live, broker: FakeBroker
) -> None:
    with watching(live):
        snapshot = await live.next(None)
        assert snapshot is not None
        before = broker.overviews
        assert len({id(await snapshot.overview()) for _ in range(50)}) == 1
        assert broker.overviews - before == 1


async def test_the_end_ends_every_wait(autojump_clock: MockClock, live: Live) -> None:
    ended: list[Snapshot | None] = []

    async def wait() -> None:
        with watching(live):
            first = await live.next(None)
            ended.append(await live.next(first))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await settled()
        live.end()
    assert ended == [None, None, None] and trio.current_time() == 0
    assert live.streams == 0


class SlowViews(FakeBroker):
    """Views that take a second of the test's clock to collect rules."""

    calls = 0
    seconds = 0.0
    each_takes = 1.0

    def quotas(self, components: Sequence[QuotaFilter] = (), *, strict: bool = False) -> list[QuotaRow]:
        self.calls += 1
        self.seconds += self.each_takes
        return super().quotas(components, strict=strict)


def live_rules(views: SlowViews) -> LiveTable[QuotaRow]:
    return LiveTable(RULES, views.quotas, views.views, clock=lambda: views.seconds)


async def test_gathering_the_rules_takes_a_twentieth_of_the_time() -> None:
    views = SlowViews()
    quotas = live_rules(views)
    await quotas.page(Page(), "snapshot 1")
    for views.seconds in (1.5, 10.0, 19.9):
        await quotas.page(Page(), f"snapshot at {views.seconds}")
    assert views.calls == 1
    views.seconds = 20.0
    await quotas.page(Page(), "snapshot 20")
    assert views.calls == 2


@pytest.mark.parametrize(("after_s", "calls"), [(0.5, 1), (0.89, 1), (0.9, 2)])
async def test_a_short_table_is_gathered_once_a_second(after_s: float, calls: int) -> None:
    views = SlowViews()
    views.each_takes = 0.0
    quotas = live_rules(views)
    await quotas.page(Page(), "snapshot 1")
    views.seconds = after_s
    await quotas.page(Page(), "snapshot 2")
    assert views.calls == calls


async def test_a_changed_rule_is_gathered_with_the_next_beat() -> None:
    views = SlowViews()
    quotas = live_rules(views)
    assert json.loads(await quotas.page(Page(), "snapshot 1"))["of"] == 0
    views.version += 1
    views.set((("user", "alice"),), {"producer_byte_rate": 1.0})
    assert json.loads(await quotas.page(Page(), "snapshot 1"))["of"] == 0
    assert json.loads(await quotas.page(Page(), "snapshot 2"))["of"] == 1


async def test_pages_that_look_alike_are_written_once() -> None:
    views = SlowViews()
    quotas = live_rules(views)
    one, other = (
        await quotas.page(Page(search="a"), "snapshot 1"),
        await quotas.page(Page(search="a"), "snapshot 1"),
    )
    assert one is other and views.calls == 1
    assert await quotas.page(Page(search="b", limit=7), "snapshot 1") != one and views.calls == 1


def test_nan_and_infinity_become_null_in_json() -> None:
    assert encode({"a": "é\u2028\n"}) == '{"a":"é\u2028\\n"}'.encode()
    with pytest.raises(ValueError, match="Out of range"):
        encode(float("nan"))
