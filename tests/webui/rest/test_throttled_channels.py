"""Throttled connections over REST."""

from msgspec.structs import replace

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import throttled
from webui.rest.usage import THROTTLED_PAGE


async def test_throttled_channels_come_longest_wait_first(http: Browserless, broker: FakeBroker) -> None:
    broker.throttled_rows = [
        throttled("a", remaining_ms=5),
        throttled("b", remaining_ms=9),
        throttled("c", remaining_ms=7),
    ]
    page = THROTTLED_PAGE.check(await (await http.get("/api/v1/throttled-channels?limit=2")).get_json())
    assert [row["client_id"] for row in page["items"]] == ["b", "c"]
    assert (page["total"], page["unlisted"]) == (3, 0)
    # All waits are two milliseconds shorter by the time of the next page.
    broker.now_ms += 2
    broker.throttled_rows = [replace(row, remaining_ms=row.remaining_ms - 2) for row in broker.throttled_rows]
    rest = await http.get(f"/api/v1/throttled-channels?limit=2&cursor={page['next']}")
    page = THROTTLED_PAGE.check(await rest.get_json())
    assert [row["client_id"] for row in page["items"]] == ["a"] and page["next"] is None
