"""Detection of cross-site requests.

Called by webui.security.gate. Checks Fetch Metadata, which every recent browser sends, then the Origin
header; programs send neither and use bearer tokens. A page on another port of the same machine is
"same-site": it has SameSite cookies, so it is refused like any other site.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final

from webui.security.headers import HeaderLookup

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"", "same-origin", "none"})


def is_ours(method: str, scheme: str, headers: HeaderLookup) -> bool:
    """Return whether the request is from the console itself or opens a page by a link (a top-level navigation
    by GET).
    """
    site = headers.get("Sec-Fetch-Site", "")
    if site not in _OWN:
        return is_navigation(method, headers)
    if site == "same-origin":
        # No page can forge this header. Origin differs behind a proxy that terminates TLS: it says https.
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
    """Return whether the browser sends the site of a link: all browsers do over TLS and on loopback
    addresses, where a missing header means an old browser and is accepted.
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
    """Return whether another site sent the request, navigation or not. Such a request must not sign a user
    in.
    """
    return headers.get("Sec-Fetch-Site", "") not in _OWN
