"""The client of a request that HTTP proxies have forwarded, by X-Forwarded-For.

Each proxy appends the address that it sees, so an entry is only as good as who wrote it: the peer wrote the
last, and the address of each entry wrote the one before it. What was not written by a trusted proxy is never
read, since any client can send the header.
"""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final

from hypercorn.typing import HTTPScope

from broker.common.proxy_headers import Network, is_in

FORWARDED_FOR: Final = b"x-forwarded-for"

MAX_HOPS: Final = 16
"""Proxies between a client and the console; ours. Entries before them are not read."""


def client_of(scope: HTTPScope, trusted: Iterable[Network]) -> tuple[str, int] | None:
    """Return the address of a request's client: the last one, beginning with the peer, that is not
    `trusted`, or the first one before an entry that is no address. The port is 0 unless it is the peer.
    """
    peer = scope.get("client")
    if peer is None or not is_in(trusted, peer[0]):
        return peer
    written = b",".join(value for name, value in scope["headers"] if name == FORWARDED_FOR)
    address = peer[0]
    for entry in reversed(written.decode("latin-1").rsplit(",", MAX_HOPS)[-MAX_HOPS:]):
        before = _address(entry.strip(" \t"))
        if before is None:
            break
        address = before
        if not is_in(trusted, address):
            break
    return peer if address == peer[0] else (address, 0)


def _address(entry: str) -> str | None:
    """Return the canonical address of an entry, which may have a port; None if it is none."""
    if entry.startswith("["):
        entry = entry[1:].partition("]")[0]
    elif entry.count(":") == 1:
        entry = entry.partition(":")[0]
    try:
        address = ip_address(entry)
    except ValueError:
        return None
    if not isinstance(address, IPv6Address):
        return str(address)
    return None if address.scope_id else str(address.ipv4_mapped or address)
