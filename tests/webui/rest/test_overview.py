"""The broker's metrics and their history over REST."""

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import broker_metrics, connection
from webui.console import Console
from webui.rest.overview import OVERVIEW


async def test_the_overview_fits_its_schema(http: Browserless, broker: FakeBroker) -> None:
    broker.connection_rows = [connection("app")]
    answer = OVERVIEW.check(await (await http.get("/api/v1/overview")).get_json())
    assert answer["metrics"]["connections"] == 1 and answer["history"]["at_ms"] == []


async def test_the_overview_brings_its_last_minutes_where_asked(
    http: Browserless, broker: FakeBroker, console: Console
) -> None:
    for second in range(4):
        console.live.history.add(broker_metrics(bytes_in_total=1_000 * second), second * 1_000)
    answer = OVERVIEW.check(await (await http.get("/api/v1/overview?history_s=2")).get_json())
    assert answer["history"]["bytes_in"] == [1_000.0, 1_000.0]


@pytest.mark.parametrize("history", ["-1", "86401", "many"])
async def test_history_has_bounds(http: Browserless, history: str) -> None:
    assert (await http.get(f"/api/v1/overview?history_s={history}")).status_code == 400
