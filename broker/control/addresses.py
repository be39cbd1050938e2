"""Rows of addresses that have a rule or connected recently. Called by `reading`.

The rules come from the image, the use from the live views.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from broker.control.rows.connections import AddressRow, AddressUse
from broker.metadata.image import Image, QuotaEntry
from broker.quotas.connection_rates import canonical_address, counted_address
from broker.quotas.connections import IP_RATE
from broker.quotas.entity import IP

Uses = tuple[AddressUse | None, AddressUse | None]
"""On the broker's listeners, on the controller's."""

UNSEEN: Final[Uses] = (None, None)


def address_rows(
    image: Image, uses: Iterable[AddressUse], controller_uses: Iterable[AddressUse], ipv6_prefix: int
) -> Iterator[AddressRow | None]:
    """Yield rows in no order; None stands for work without a row yet.

    Different spellings of an address are one row, and so are all addresses with the same first `ipv6_prefix`
    bits; the row has the first of them.
    """
    seen: dict[str, Uses] = {use.address: (use, None) for use in uses}
    for use in controller_uses:
        seen[use.address] = (seen.get(use.address, UNSEEN)[0], use)
    default: float | None = None
    ruled: dict[str, tuple[QuotaEntry, float]] = {}
    for entity, entry in image.quotas.items():
        if len(entity) == 1 and entity[0][0] == IP and IP_RATE in entry.limits:
            name, value = entity[0][1], entry.limits[IP_RATE].value
            if name is None:
                default = value
                yield _row(None, entry, value, value, UNSEEN)
            else:
                ruled[name] = entry, value
        yield None
    for name, (entry, value) in ruled.items():
        yield _row(name, entry, value, value, seen.pop(_counted(name, ipv6_prefix), UNSEEN))
    for address, both in seen.items():
        yield _row(address, None, None, default, both)


def asked_address(ip: str, ipv6_prefix: int) -> str:
    """Return the key under which `ip` is counted; an invalid address is returned unchanged."""
    try:
        return _counted(ip, ipv6_prefix)
    except ValueError:
        return ip


def _counted(name: str, ipv6_prefix: int) -> str:
    return counted_address(canonical_address(name), ipv6_prefix)


def _row(
    address: str | None,
    entry: QuotaEntry | None,
    limit: float | None,
    bound: float | None,
    uses: Uses,
) -> AddressRow:
    if entry is None:
        return AddressRow(address, None, bound, 0, 0, "", *uses)
    return AddressRow(address, limit, bound, entry.version, entry.changed_at_ms, entry.changed_by, *uses)
