"""Groups as the REST API lists them."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import group
from webui.rest.groups import GROUP_DETAIL, GROUP_PAGE
from webui.schema import Schema

STRANGE = 'a/b?c#d %2e%2e <default> ../x "y"'


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(group_rows=[group("readers", "app"), group("idle", lag=0), group(STRANGE, "x")])


async def fetched(http: Browserless, path: str, schema: Schema) -> Any:
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == 200, await answer.get_data()
    return schema.check(await answer.get_json())


async def test_groups_come_with_their_lag(http: Browserless) -> None:
    answer = await fetched(http, "groups?filter=behind&sort=lag&order=desc", GROUP_PAGE)
    assert {row["group_id"]: row["lag"] for row in answer["items"]} == {"readers": 40, STRANGE: 40}


@pytest.mark.parametrize("name", ["readers", STRANGE])
async def test_a_group_is_told_member_by_member_whatever_it_is_called(http: Browserless, name: str) -> None:
    answer = await fetched(http, f"groups/{quote(name, safe='')}", GROUP_DETAIL)
    assert answer["group_id"] == name and len(answer["consumers"]) == 1
    assert answer["consumers"][0]["assigned"] == [{"topic": "orders", "partition": 0}]
    assert [row["lag"] for row in answer["offsets"]] == [40, 0]
