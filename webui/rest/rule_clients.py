"""GET /client-quotas/{id}/clients: the clients that a quota rule matches now, with their use and the rule
that applies to each.

Used by the page of a rule. The same resolution as /client-quotas:resolve, for all connected clients.
"""

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from broker.controller.commands import EntityPairs
from broker.controller.rows.fields import Rate
from broker.controller.rows.quotas import ClientUsage
from broker.views.console import Views
from webui.problem import PROBLEM, Problem
from webui.quota_preview import MAX_CLIENTS
from webui.quotas import ENTITY, LIMIT_KEYS, json_of
from webui.rest.client_quota_rule import ID_OF_RULE, entity_in_path
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.schema import COUNT, Record
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table
from webui.tables.slices import collect, sliced


class RuleClient(msgspec.Struct, frozen=True):
    """A connected client that a rule matches. `rules` is the rule that applies, by key of the rule's limits:
    the rule itself, or one that precedes it.
    """

    user: str
    client_id: str
    connections: int
    bytes_in_per_s: Rate
    bytes_out_per_s: Rate
    requests_per_s: Rate
    request_percentage: Rate | None


class _Matched(msgspec.Struct, frozen=True):
    client: ClientUsage
    rules: dict[str, EntityPairs]


_RULES: Final = Record(dict.fromkeys(LIMIT_KEYS, ENTITY), optional=frozenset(LIMIT_KEYS))
RULE_CLIENT: Final = Record({**schema_of(RuleClient).fields, "rules": _RULES}, title="RuleClient")
RULE_CLIENTS: Final = page_schema(RULE_CLIENT, unlisted=COUNT)


def _json(row: _Matched) -> dict[str, Any]:
    client = row.client
    shown = RuleClient(
        client.user,
        client.client_id,
        client.connections,
        client.bytes_in_per_s,
        client.bytes_out_per_s,
        client.requests_per_s,
        client.request_percentage,
    )
    return as_json(shown) | {"rules": {key: json_of(entity) for key, entity in row.rules.items()}}


CLIENTS: Final[Table[_Matched]] = Table(
    json=_json,
    search_texts=lambda row: (row.client.user, row.client.client_id),
    default_sort="use",
    sort_key=lambda row: (
        -(row.client.bytes_in_per_s + row.client.bytes_out_per_s),
        row.client.user,
        row.client.client_id,
    ),
    sorts={
        "bytes_in": lambda row: row.client.bytes_in_per_s,
        "bytes_out": lambda row: row.client.bytes_out_per_s,
        "connections": lambda row: row.client.connections,
    },
)


async def rule_clients(call: Call) -> Reply:
    entity = entity_in_path(call)
    if entity[0][0] == "ip":
        raise Problem(400, "The addresses of this rule are in /ip-quotas.", where="id")
    keys = call.views.quotas.limited_keys(entity)
    if not keys:
        raise Problem(404, "This entity has no limit in force.")
    # A quota callback decides without the rules.
    every = () if call.views.quotas.callback else call.views.quotas.each_usage()
    matching = await collect(_matching(every, entity))
    rows = await _resolved(call.views, matching[:MAX_CLIENTS], keys)
    call.to_free.extend([matching, rows])
    return Reply(await table_page(call, CLIENTS, rows) | {"unlisted": max(0, len(matching) - MAX_CLIENTS)})


def _matching(usage: Any, entity: EntityPairs) -> Iterator[ClientUsage | None]:
    for row in usage:
        names = {} if row is None else {"user": row.user, "client-id": row.client_id}
        is_match = bool(names) and all(name in (None, names[kind]) for kind, name in entity)
        yield row if is_match and row.connections else None


async def _resolved(views: Views, clients: list[ClientUsage], keys: tuple[str, ...]) -> list[_Matched]:
    names = [(row.user, row.client_id) for row in clients]
    rows: list[_Matched] = []
    async with aclosing(sliced(views.quotas.resolve_all(names, keys))) as slices:
        async for some in slices:
            for limits in some:
                rules = {now.key: now.matched for now, _ in limits if now.matched is not None}
                rows.append(_Matched(clients[len(rows)], rules))
    return rows


ROUTES: Final = (
    Route(
        "GET /api/v1/client-quotas/{id}/clients",
        "listRuleClients",
        "The connected clients that a rule matches, the busiest first, with the rule that applies to each: "
        "this one, or one that precedes it. Empty with a quota callback.",
        rule_clients,
        {
            200: ResponseSpec(
                f"A page of clients; `unlisted` counts those beyond the first {MAX_CLIENTS:,}", RULE_CLIENTS
            ),
            404: ResponseSpec("The entity has no limit in force", PROBLEM),
        },
        query=page_query(CLIENTS),
        path_params=ID_OF_RULE,
    ),
)
