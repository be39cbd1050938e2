"""The table of addresses: rule, connection rate, throttled and rejected connections.

Used by GET /ip-quotas and by the live stream of the page. Independent of HTTP.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final

from broker.control.views import AddressRow, AddressUse, ConnectionLimitRow
from webui.tables.json_output import finite, named, utc
from webui.tables.listing import Table

DEFAULT: Final = "<default>"
"""The default rule in a path; not a valid address."""


def address_json(row: AddressRow) -> dict[str, Any]:
    return {
        "address": DEFAULT if row.address is None else row.address,
        "connection_creation_rate": row.limit,
        "bound": row.bound,
        "version": row.version,
        "changed_at": None if row.limit is None else utc(row.changed_at_ms),
        "changed_by": row.changed_by,
        "use": _use_json(row.use),
        "controller_use": _use_json(row.controller_use),
    }


def _use_json(use: AddressUse | None) -> dict[str, Any] | None:
    return None if use is None else named(use) | {"rate": finite(use.rate)}


def limit_json(row: ConnectionLimitRow) -> dict[str, Any]:
    return named(row) | {"rejected": [{"rule": rule, "count": count} for rule, count in row.rejected]}


def order_of(row: AddressRow) -> tuple[int, int]:
    """Return the sort key: the default, then IPv4 addresses numerically, then IPv6."""
    if row.address is None:
        return (0, 0)
    address = ip_address(row.address)
    return (address.version, int(address))


def _used(row: AddressRow) -> float | None:
    rate = _rate(row)
    return None if rate is None or row.bound is None else rate / row.bound


def _rate(row: AddressRow) -> float | None:
    """Return the highest value of any server, because a limit applies to each server separately."""
    return max((use.rate for use in row.uses), default=None)


def _total(row: AddressRow, figure: Callable[[AddressUse], int]) -> int | None:
    """Return the sum over all servers."""
    return sum(map(figure, row.uses)) if row.uses else None


ADDRESSES: Final[Table[AddressRow]] = Table(
    json=address_json,
    words=lambda row: (DEFAULT if row.address is None else row.address, row.changed_by),
    natural="address",
    order=order_of,
    sorts={
        "limit": lambda row: row.limit,
        "rate": _rate,
        "used": _used,
        "connections": lambda row: _total(row, lambda use: use.connections),
        "accepted": lambda row: _total(row, lambda use: use.accepted),
        "held": lambda row: _total(row, lambda use: use.held),
        "refused": lambda row: _total(row, lambda use: use.refused),
        "changed": lambda row: row.changed_at_ms or None,
    },
    shapes={
        "limited": lambda row: row.limit is not None,
        "connected": lambda row: any(use.connections > 0 for use in row.uses),
        "stopped": lambda row: any(use.held + use.refused > 0 for use in row.uses),
    },
)
