"""GET, PUT and DELETE /ip-quotas: connection creation rate limits of addresses, with the measured rates
(KIP-612); and the table of addresses.

The same command as AlterClientQuotas with an entity of type ip; `<default>` names the rule for all others.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from broker.common.errors import ErrorCode
from broker.controller.commands import AlterClientQuotas, EntityPairs, QuotaAlteration, QuotaOp, Role
from broker.controller.rows.connections import AddressRow, AddressUse, ConnectionLimitRow
from broker.views.console import Views
from webui.problem import Problem, problem_schema
from webui.quotas import kafka_configs
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.replies import HEADERS, expected_version, no_content, path_of, stored, versioned
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.rest.temporary_quotas import SHOWN, VALUE
from webui.rest.temporary_quotas import shown as shown_temporary
from webui.schema import COUNT, NAME, TIME, Flag, Listing, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table
from webui.tables.slices import collect

DEFAULT: Final = "<default>"
"""The default rule in a path; not a valid address."""


def address_json(row: AddressRow) -> dict[str, Any]:
    shown = as_json(row)
    shown["address"] = DEFAULT if row.address is None else row.address
    if row.version == 0:
        shown["changed_at"] = None
    if row.temporary is not None:
        shown["temporary"] = as_json(shown_temporary(row.temporary, row.limit))
    return shown


def order_of(row: AddressRow) -> tuple[int, int]:
    """Return the sort key: the default, then IPv4 addresses numerically, then IPv6."""
    if row.address is None:
        return (0, 0)
    address = ip_address(row.address)
    return (address.version, int(address))


def _used(row: AddressRow) -> float | None:
    rate = row.rate
    return None if rate is None or row.bound is None else rate / row.bound


def _total(row: AddressRow, figure: Callable[[AddressUse], int]) -> int | None:
    """Return the sum over all servers and gateways."""
    return sum(map(figure, row.all_uses)) if row.all_uses else None


ADDRESSES: Final[Table[AddressRow]] = Table(
    json=address_json,
    search_texts=lambda row: (DEFAULT if row.address is None else row.address, row.changed_by),
    default_sort="address",
    sort_key=order_of,
    sorts={
        "limit": lambda row: row.limit,
        "rate": lambda row: row.rate,
        "used": _used,
        "connections": lambda row: _total(row, lambda use: use.connections),
        "accepted": lambda row: _total(row, lambda use: use.accepted),
        "throttled": lambda row: _total(row, lambda use: use.throttled),
        "refused": lambda row: _total(row, lambda use: use.refused),
        "changed": lambda row: row.changed_at_ms or None,
    },
    filters={
        "limited": lambda row: row.limit is not None,
        "default": lambda row: row.address is not None and row.version == 0,
        "connected": lambda row: any(use.connections > 0 for use in row.all_uses),
        "stopped": lambda row: any(use.throttled + use.refused > 0 for use in row.all_uses),
    },
)


class AddressReach(msgspec.Struct, frozen=True):
    """The recently seen `addresses` that a rule applies to, those that are `over` its new rate, and the rate
    that limits them before and after; None is no limit.
    """

    addresses: int
    over: int
    connections: int
    before: float | None = msgspec.field(name="from")
    after: float | None = msgspec.field(name="to")


KEY: Final = "connection_creation_rate"

_ROW: Final = schema_of(AddressRow, address=NAME, changed_at=Text(form=TIME.form, nullable=True))
ADDRESS: Final = Record(
    {**_ROW.fields, "temporary": SHOWN}, optional=frozenset({"temporary"}), title="IpQuota"
)
IP_QUOTAS: Final = page_schema(
    ADDRESS, limits=Listing(schema_of(ConnectionLimitRow)), unlisted=COUNT, unheard=Listing(NAME)
)
EDITED: Final = Record(
    {
        "current": ADDRESS,
        "command": Text(max_length=8192),
        "reach": schema_of(AddressReach),
        "warnings": Listing(Text(max_length=4096)),
    },
    title="IpQuotaEdit",
)
REFUSED: Final = problem_schema(current=ADDRESS)

_PLACE = (
    Query(
        "address",
        Text(max_length=256, min_length=1),
        "An IP address, or `<default>` for all other addresses.",
    ),
)
_VALIDATE = Query(
    "validate_only", Flag(), "Only preview the affected addresses; change nothing.", default=False
)


async def list_ip_quotas(call: Call) -> Reply:
    page = await table_page(call, ADDRESSES, call.views.quotas.each_address())
    return Reply(page | beside(call.views))


def beside(views: Views) -> dict[str, Any]:
    """Return what every page of addresses has besides its rows."""
    return {
        "limits": [as_json(row) for row in views.live.connection_limits()],
        "unlisted": views.shares.unlisted_addresses(),
        "unheard": sorted(views.shares.without_report()),
    }


async def get_ip_quota(call: Call) -> Reply:
    row = await _row(call)
    if row is None or (row.version == 0 and not row.all_uses):
        raise Problem(404, "This address has no own limit and was not seen in the last hour.")
    return versioned(address_json(row), row.version)


async def put_ip_quota(call: Call) -> Reply:
    before = await _row(call)
    answer, version = await _alter(call, call.body[KEY])
    existed = call.query["validate_only"] or (before is not None and before.limit is not None)
    return stored(answer, version, path_of("ip-quotas", call.path_params["address"]), existed=existed)


async def delete_ip_quota(call: Call) -> Reply:
    before = await _row(call)
    answer, version = await _alter(call, None)
    if before is None or before.limit is None:
        raise Problem(404, "This address has no own limit.")
    return versioned(answer, version) if call.query["validate_only"] else no_content()


async def _alter(call: Call, value: float | None) -> tuple[dict[str, Any], int]:
    """Return what the edit did or would do, and the version of the limit. Raises Problem."""
    ops = (QuotaOp(KEY, value),)
    entry = QuotaAlteration(_entity(call), ops, expected_version(call.headers))
    validate_only = call.query["validate_only"]
    command = AlterClientQuotas((entry,), validate_only)
    (outcome,) = await call.apply(command)
    row = await _row(call) or AddressRow(_address(call), None, None, 0, 0, "", None)
    if outcome.error is ErrorCode.INVALID_UPDATE_VERSION:
        raise Problem.of(outcome.error, outcome.message, current=address_json(row))
    if not outcome.ok:
        raise Problem.of(outcome.error, outcome.message, where=KEY)
    if not validate_only:
        call.console.live.refresh()
    endpoint = call.views.server_info().endpoint
    answer = {
        "current": address_json(row),
        "command": kafka_configs(endpoint, entry.entity, ops),
        "reach": as_json(_reach(await collect(call.views.quotas.each_address()), _address(call), value)),
        "warnings": list(outcome.warnings),
    }
    return answer, row.version


def _reach(rows: list[AddressRow], address: str | None, value: float | None) -> AddressReach:
    default = next((row.limit for row in rows if row.address is None), None)
    before = next((row.bound for row in rows if row.address == address), default)
    bound = value if value is not None or address is None else default
    governed = [
        row
        for row in rows
        if row.all_uses and (row.address == address if address is not None else row.limit is None)
    ]
    return AddressReach(
        len(governed),
        sum(bound is not None and (row.rate or 0.0) > bound for row in governed),
        sum(use.connections for row in governed for use in row.all_uses),
        before,
        bound,
    )


async def _row(call: Call) -> AddressRow | None:
    address = _address(call)
    rows = await collect(call.views.quotas.each_address())
    return next((row for row in rows if row.address == address), None)


def _address(call: Call) -> str | None:
    named = str(call.path_params["address"])
    return None if named == DEFAULT else named


def _entity(call: Call) -> EntityPairs:
    return (("ip", _address(call)),)


_REFUSALS: Final = {
    400: ResponseSpec("Invalid address or rate", REFUSED),
    403: ResponseSpec("Insufficient role", REFUSED),
    412: ResponseSpec("The limit changed in the meantime; `current` is its current state", REFUSED),
}

ROUTES: Final = (
    Route(
        "GET /api/v1/ip-quotas",
        "listIpQuotas",
        "Addresses with a limit or seen in the last hour, and the connection limits of the listeners.",
        list_ip_quotas,
        {
            200: ResponseSpec(
                "A page of addresses; `limits` has the limits of each socket server and of its listeners. "
                "`elsewhere` is the use of an address at each other gateway that shares limits, and "
                "`unlisted` counts their missing addresses; `unheard` gateways have not reported yet",
                IP_QUOTAS,
            )
        },
        query=page_query(ADDRESSES),
    ),
    Route(
        "GET /api/v1/ip-quotas/{address}",
        "getIpQuota",
        "One address, or the default rule.",
        get_ip_quota,
        {
            200: ResponseSpec('The address; ETag: the version of its limit, "0" for none', ADDRESS),
            404: ResponseSpec("The address has no limit and was not seen", REFUSED),
        },
        path_params=_PLACE,
    ),
    Route(
        "PUT /api/v1/ip-quotas/{address}",
        "setIpQuota",
        "Sets the connection creation rate limit of an address.",
        put_ip_quota,
        {
            200: ResponseSpec(
                "The limit after the change, or before it with validate_only; ETag: its version", EDITED
            ),
            201: ResponseSpec("The limit is new", EDITED),
            **_REFUSALS,
        },
        query=(_VALIDATE,),
        example={KEY: 10},
        body=Record({KEY: VALUE}),
        headers=HEADERS,
        path_params=_PLACE,
        role=Role.EDITOR,
    ),
    Route(
        "DELETE /api/v1/ip-quotas/{address}",
        "removeIpQuota",
        "Deletes the limit of an address; the default limit then applies, if there is one.",
        delete_ip_quota,
        {
            200: ResponseSpec("Only with validate_only: the limit, and the addresses of it", EDITED),
            204: ResponseSpec("The limit is removed"),
            404: ResponseSpec("Limit not found", REFUSED),
            **_REFUSALS,
        },
        query=(_VALIDATE,),
        headers=HEADERS,
        path_params=_PLACE,
    ),
)
