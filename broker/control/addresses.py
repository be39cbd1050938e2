"""The addresses that have a rule or have connected lately, as rows. Called by `reading`; the rules are the
image's, the use is what the composition root hands in.
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
    """In no order; None where there is no row yet, but some rules were looked at. An address written in two
    ways is one row, and all that share `ipv6_prefix` bits are one, which stands under the first of them.
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
    """What is looked up for somebody who asks of `ip`; what is no address is looked up as it is."""
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
