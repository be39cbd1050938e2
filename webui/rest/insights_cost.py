"""GET /insights/cost and /insights/cost:series: the cost of what each tenant produced and fetched.

The prices are those of the configuration; without any, each cost is 0.
"""

from typing import Any

from webui.insights import queries
from webui.insights.queries import ClientFilter, Prices
from webui.insights.statements import Scope, Selection, TableQuery
from webui.rest.insights import page_body, reply
from webui.rest.routing import Call, Reply


def selection(call: Call, scope: Scope) -> Selection:
    return queries.cost(scope, _who(call), call.query["by"], _prices(call))


def series(call: Call, scope: Scope) -> TableQuery:
    return queries.cost_series(scope, _who(call), _prices(call), call.query["step"])


async def cost(call: Call) -> Reply:
    settings = call.console.settings
    head: dict[str, Any] = {
        "currency": settings.price_currency,
        "price_per_gb_produced": settings.price_per_gb_produced,
        "price_per_gb_fetched": settings.price_per_gb_fetched,
    }
    return reply(call, await page_body(call, selection, head))


def _who(call: Call) -> ClientFilter:
    return ClientFilter(call.query["user"], call.query["client_id"])


def _prices(call: Call) -> Prices:
    settings = call.console.settings
    return Prices(settings.price_per_gb_produced, settings.price_per_gb_fetched)
