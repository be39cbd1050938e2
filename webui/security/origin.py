"""Whether a request comes from a page of the console itself.

Called by webui.security.gate. Fetch Metadata first (every browser of the last years sends it), the Origin
header for the others; programs send neither and are known by their bearer token. A page on another port of
the same machine is "same-site": SameSite cookies do reach us from there, so it is refused like any stranger.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

from webui.security.headers import HeaderLookup

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"", "same-origin", "none"})


def is_ours(method: str, scheme: str, headers: HeaderLookup) -> bool:
    """A link from elsewhere may open a page (a top-level navigation by GET); nothing else may come from
    elsewhere.
    """
    site = headers.get("Sec-Fetch-Site", "")
    if site not in _OWN:
        return is_navigation(method, headers)
    if site == "same-origin":
        # The browser's own word, and no page can forge it. Behind a proxy that ends TLS, Origin says https.
        return True
    origin = headers.get("Origin", "")
    return not origin or origin.lower() == f"{scheme}://{headers.get('Host', '')}".lower()


def is_navigation(method: str, headers: HeaderLookup) -> bool:
    return (
        method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )


def says_where_from(headers: HeaderLookup, address: str) -> bool:
    """Whether the browser says which site a link was opened from, as all do over TLS and on their own
    machine. An old one that does not is believed on a loopback address.
    """
    return bool(headers.get("Sec-Fetch-Site", "")) or _is_loopback(address)


def _is_loopback(address: str) -> bool:
    try:
        peer = ip_address(address)
    except ValueError:
        return False
    mapped = peer.ipv4_mapped if isinstance(peer, IPv6Address) else None
    return (mapped or peer).is_loopback


def is_foreign(headers: HeaderLookup) -> bool:
    """Asked by another site, navigation or not: good enough to show a page, not to sign somebody in."""
    return headers.get("Sec-Fetch-Site", "") not in _OWN
