"""The table of quota rules: searched, sorted and cut to a page."""

from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.commands import EntityPairs
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS
from webui.rest.client_quotas import RULES
from webui.tables.listing import Page

ALICE: EntityPairs = (("user", "alice"),)
BOB_APP: EntityPairs = (("user", "Bob"), ("client-id", "app"))
DEFAULT_USER: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)
CALLED_DEFAULT: EntityPairs = (("client-id", "<default>"),)


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.set(APP, {"producer_byte_rate": 300.0}, at_ms=NOW_MS + 4)
    broker.set(DEFAULT_USER, {"producer_byte_rate": 100.0}, at_ms=NOW_MS + 1)
    broker.set(CALLED_DEFAULT, {"consumer_byte_rate": 50.0}, at_ms=NOW_MS + 5)
    broker.set(BOB_APP, {"producer_byte_rate": 200.0, "consumer_byte_rate": 9.0}, at_ms=NOW_MS + 3)
    broker.set(ALICE, {"consumer_byte_rate": 70.0}, at_ms=NOW_MS + 2)
    broker.observed = {
        APP: {"producer_byte_rate": 30.0},
        BOB_APP: {"producer_byte_rate": 250.0, "consumer_byte_rate": 1.0},
    }
    return broker


async def order(broker: FakeBroker, **page: Any) -> list[dict[str, Any]]:
    return [item["entity"] for item in (await RULES.page(broker.quotas(), Page(**page)))["items"]]


async def test_users_stand_before_client_ids_and_names_before_the_default(broker: FakeBroker) -> None:
    assert await order(broker) == [
        dict(ALICE),
        dict(BOB_APP),
        dict(DEFAULT_USER),
        dict(CALLED_DEFAULT),
        dict(APP),
    ]
    assert await order(broker, descending=True) == [
        dict(each) for each in (APP, CALLED_DEFAULT, DEFAULT_USER, BOB_APP, ALICE)
    ]


async def test_rules_without_the_figure_come_last_whichever_way(broker: FakeBroker) -> None:
    rest = [dict(ALICE), dict(CALLED_DEFAULT)]
    rising = [dict(DEFAULT_USER), dict(BOB_APP), dict(APP)]
    assert await order(broker, sort="producer_byte_rate") == rising + rest
    assert await order(broker, sort="producer_byte_rate", descending=True) == rising[::-1] + rest


async def test_the_most_used_limit_of_a_rule_is_its_use(broker: FakeBroker) -> None:
    assert (await order(broker, sort="used", descending=True))[:2] == [dict(BOB_APP), dict(APP)]


async def test_the_latest_change_first(broker: FakeBroker) -> None:
    assert (await order(broker, sort="changed", descending=True))[0] == dict(CALLED_DEFAULT)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ({"search": "AL"}, [ALICE]),
        ({"search": "bob"}, [BOB_APP]),
        ({"search": "app"}, [BOB_APP, APP]),
        ({"search": "default"}, [DEFAULT_USER, CALLED_DEFAULT]),
        ({"search": "nobody"}, []),
        ({"filter": "user"}, [ALICE, DEFAULT_USER]),
        ({"filter": "client-id"}, [CALLED_DEFAULT, APP]),
        ({"filter": "user+client-id"}, [BOB_APP]),
        ({"filter": "default"}, [DEFAULT_USER]),
        ({"filter": "ip"}, []),
        ({"filter": "user", "search": "al"}, [ALICE]),
    ],
)
async def test_search_and_kind(broker: FakeBroker, page: dict[str, Any], found: list[EntityPairs]) -> None:
    assert await order(broker, **page) == [dict(entity) for entity in found]


@pytest.mark.parametrize(
    ("offset", "limit", "count"), [(0, 4, 4), (0, 5, 5), (0, 6, 5), (4, 2, 1), (5, 2, 0), (99, 1, 0)]
)
async def test_a_page_says_how_much_there_is(broker: FakeBroker, offset: int, limit: int, count: int) -> None:
    answer = await RULES.page(broker.quotas(), Page(offset=offset, limit=limit))
    assert len(answer["items"]) == count
    assert (answer["total"], answer["of"], answer["offset"], answer["limit"]) == (5, 5, offset, limit)


async def test_total_counts_what_matches_and_of_counts_everything(broker: FakeBroker) -> None:
    answer = await RULES.page(broker.quotas(), Page(search="app", limit=1))
    assert (len(answer["items"]), answer["total"], answer["of"]) == (1, 2, 5)


async def test_a_row_has_limit_use_and_the_last_editor(broker: FakeBroker) -> None:
    [item] = (await RULES.page(broker.quotas(), Page(search="Bob")))["items"]
    assert item["limits"]["producer_byte_rate"] == {
        "value": 200.0,
        "observed": 250.0,
        "used": 1.25,
        "throttled": 0,
        "changed_at": "2027-01-15T08:00:00.003Z",
        "changed_by": "root",
    }


async def test_a_rate_that_is_no_number_is_none(broker: FakeBroker) -> None:
    [row] = [row for row in broker.quotas() if row.entity == APP]
    broken = replace(row, limits=tuple(replace(limit, observed=float("nan")) for limit in row.limits))
    [item] = (await RULES.page([broken], Page(sort="used")))["items"]
    assert item["limits"]["producer_byte_rate"]["observed"] is None
    assert item["limits"]["producer_byte_rate"]["used"] is None
