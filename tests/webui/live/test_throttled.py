"""Clients throttled in the last hour."""

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from webui.console import Console
from webui.live.throttled import KEPT_MS, MAX_CLIENTS, RecentThrottles
from webui.rest.usage import RECENT_THROTTLES_PAGE


def test_a_client_is_one_line_however_many_connections_it_has() -> None:
    throttles = RecentThrottles()
    throttles.add([throttled("a", connection_id=str(index), times=1) for index in range(3)], 1_000)
    throttles.add([throttled("a", connection_id="0", times=5, throttle_ms=9_000, observed=4e6)], 2_000)
    (row,) = throttles.rows(2_000)
    assert (row.times, row.longest_ms, row.worst) == (7, 9_000, 4.0)
    assert (row.first_ms, row.last_ms) == (1_000, 2_000)


def test_the_same_throttle_seen_twice_counts_once() -> None:
    throttles = RecentThrottles()
    for now_ms in (1_000, 2_000):
        throttles.add([throttled("a", times=4)], now_ms)
    assert [row.times for row in throttles.rows(2_000)] == [1]


def test_connections_of_several_gateways_are_not_mistaken_for_each_other() -> None:
    throttles = RecentThrottles()
    for times in (4, 5):
        throttles.add([throttled("a", times=times), throttled("a", times=2 * times, gateway="g2")], 1_000)
    (row,) = throttles.rows(1_000)
    assert row.times == 1 + 1 + 1 + 2


def test_an_hour_later_it_is_forgotten() -> None:
    throttles = RecentThrottles()
    throttles.add([throttled("a")], 0)
    assert throttles.rows(KEPT_MS - 1) and not throttles.rows(KEPT_MS)


def test_there_is_an_end_to_what_is_remembered() -> None:
    throttles = RecentThrottles()
    for index in range(MAX_CLIENTS + 1):
        throttles.add([throttled(f"c{index}", connection_id=str(index))], index)
    rows = throttles.rows(MAX_CLIENTS)
    assert len(rows) == MAX_CLIENTS // 2 and rows[-1].client_id == f"c{MAX_CLIENTS}"


def test_a_client_is_one_line_for_each_upstream_node() -> None:
    throttles = RecentThrottles()
    throttles.add(
        [throttled("a", connection_id=str(node), upstream_node=node, times=node) for node in (1, 2)], 0
    )
    throttles.add([throttled("a", connection_id="1", upstream_node=1, times=4)], 1_000)
    assert [(row.upstream_node, row.times) for row in throttles.rows(1_000)] == [(1, 4), (2, 1)]


async def test_it_is_asked_for_the_latest_first(
    http: Browserless, broker: FakeBroker, console: Console
) -> None:
    console.live.recent_throttles.add([throttled("old")], broker.now_ms - 5_000)
    console.live.recent_throttles.add(
        [throttled("new", connection_id="2", upstream_node=2)], broker.now_ms - 1_000
    )
    answer = await http.get("/api/v1/throttled-channels:recent?sort=last&order=desc", token="viewer-token")
    listed = RECENT_THROTTLES_PAGE.check(await answer.get_json())
    assert [row["client_id"] for row in listed["items"]] == ["new", "old"]
    assert [row["upstream_node"] for row in listed["items"]] == [2, None]
    for rule, names in (("client-id=new", ["new"]), ("client-id=nobody", [])):
        answer = await http.get(f"/api/v1/throttled-channels:recent?rule={rule}", token="viewer-token")
        assert [row["client_id"] for row in (await answer.get_json())["items"]] == names
    answer = await http.get("/api/v1/throttled-channels:recent?rule=new", token="viewer-token")
    assert answer.status_code == 400
