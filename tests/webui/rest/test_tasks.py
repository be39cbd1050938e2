"""The task tree over REST."""

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import tasks
from webui.rest.overview import TASK_PAGE


@pytest.mark.parametrize("token", ["viewer-token", "admin-token"])
async def test_tasks_are_listed_parents_first_to_whoever_may_look(
    http: Browserless, broker: FakeBroker, token: str
) -> None:
    broker.task_rows = tasks()
    rows = TASK_PAGE.check(await (await http.get("/api/v1/tasks", token=token)).get_json())["items"]
    seen: set[str | None] = {None}
    for row in rows:
        assert row["parent"] in seen
        seen.add(row["name"])
    handlers = next(row for row in rows if row["name"] == "handlers")
    assert handlers["owns"] == [{"name": "requests", "now": 3, "capacity": 500, "peak": 212}]
    assert handlers["idle"] is None and handlers["since"] == "2027-01-15T07:58:30.000Z"


async def test_strangers_are_shown_no_tasks(http: Browserless, broker: FakeBroker) -> None:
    broker.task_rows = tasks()
    assert (await http.get("/api/v1/tasks", token=None)).status_code == 401
