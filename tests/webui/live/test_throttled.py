"""Clients throttled in the last hour."""

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from webui.console import Console
from webui.live.throttled import KEPT_MS, MAX_CLIENTS, RecentThrottles
from webui.rest.monitoring import RECENT_THROTTLES_PAGE


def test_a_client_is_one_line_however_many_connections_it_has() -> None:
    held = RecentThrottles()
    held.add([throttled("a", connection_id=str(index), times=1) for index in range(3)], 1_000)
    held.add([throttled("a", connection_id="0", times=5, throttle_ms=9_000, observed=4e6)], 2_000)
    (row,) = held.rows(2_000)
    assert (row.times, row.longest_ms, row.worst) == (7, 9_000, 4.0)
    assert (row.first_ms, row.last_ms) == (1_000, 2_000)


def test_the_same_throttle_seen_twice_counts_once() -> None:
    held = RecentThrottles()
    for now_ms in (1_000, 2_000):
        held.add([throttled("a", times=4)], now_ms)
    assert [row.times for row in held.rows(2_000)] == [1]


def test_an_hour_later_it_is_forgotten() -> None:
    held = RecentThrottles()
    held.add([throttled("a")], 0)
    assert held.rows(KEPT_MS - 1) and not held.rows(KEPT_MS)


def test_there_is_an_end_to_what_is_remembered() -> None:
    held = RecentThrottles()
    for index in range(MAX_CLIENTS + 1):
        held.add([throttled(f"c{index}", connection_id=str(index))], index)
    rows = held.rows(MAX_CLIENTS)
    assert len(rows) == MAX_CLIENTS // 2 and rows[-1].client_id == f"c{MAX_CLIENTS}"


async def test_it_is_asked_for_the_latest_first(
    http: Browserless, broker: FakeBroker, console: Console
) -> None:
    console.live.recent_throttles.add([throttled("old")], broker.now_ms - 5_000)
    console.live.recent_throttles.add([throttled("new", connection_id="2")], broker.now_ms - 1_000)
    answer = await http.get("/api/v1/throttled-channels:recent?sort=last&order=desc", token="viewer-token")
    listed = RECENT_THROTTLES_PAGE.check(await answer.get_json())
    assert [row["client_id"] for row in listed["items"]] == ["new", "old"]
