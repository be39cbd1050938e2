"""The origin of a request: its Host header, its site, and the host name of the pages themselves.

Called by webui.security.gate before all other checks, by webui.http.page_routes for each page, and by
broker.server.web for the printed link.

Host: a site that points its own name at 127.0.0.1 (DNS rebinding) sends requests that are same-origin to
the browser and under its full control; only their Host header identifies them.

Site: Fetch Metadata, which every recent browser sends, then the Origin header; programs send neither and
use bearer tokens. A page on another port of the same machine is "same-site": it has SameSite cookies, so it
is refused like any other site.

Own host name: cookies ignore ports, so a session of http://127.0.0.1:8080 is sent to every other service on
127.0.0.1. The pages are therefore served at `weir-<port>.localhost`, which browsers resolve to this
machine, or at console.public.url. Programs send no cookies and may use any allowed name. Over TLS, or bound
to one address of the network, the console has another name only by console.public.url: no certificate is
valid for `weir-<port>.localhost`.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from broker.config.sections.console import ConsoleConfig
from webui.security.headers import HeaderLookup

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"", "same-origin", "none"})


def is_allowed_origin(method: str, scheme: str, headers: HeaderLookup) -> bool:
    """Return whether the request is from the console itself or opens a page by a link (a top-level navigation
    by GET).
    """
    site = headers.get("Sec-Fetch-Site", "")
    if site not in _OWN_SITES:
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


def sends_fetch_site(headers: HeaderLookup, address: str) -> bool:
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


def is_cross_site(headers: HeaderLookup) -> bool:
    """Return whether another site sent the request, navigation or not. Such a request must not sign a user
    in.
    """
    return headers.get("Sec-Fetch-Site", "") not in _OWN_SITES


def host_name(header: str) -> str:
    """Return the host of a Host header in lower case, without port and brackets; empty if it is malformed."""
    return host_and_port(header)[0]


def host_and_port(header: str) -> tuple[str, int | None]:
    """Return host and port of a Host header, None without a port."""
    host = header.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        if not bracket:
            return "", None
    else:
        name, colon, port = host.partition(":")
        rest = colon + port
    if not rest:
        return name, None
    return (name, int(rest[1:])) if _is_port(rest) else ("", None)


def _is_port(text: str) -> bool:
    return text[:1] == ":" and text[1:].isascii() and text[1:].isdigit() and len(text) <= 6


class AllowedHosts:
    """The accepted hosts. `bound` is the host that the console listens on. If that is every interface, any IP
    address is accepted, since rebinding requires a name.
    """

    __slots__ = ("_any_address", "_names")

    def __init__(self, bound: str, configured: Iterable[str] = ()) -> None:
        self._any_address = bound in EVERYWHERE
        self._names = LOOPBACK | {bound.lower()} | {name.lower() for name in configured}

    def allow(self, header: str) -> bool:
        name = host_name(header)
        if not name:
            return False
        return name in self._names or (self._any_address and is_address(name))


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


_OWN: Final = re.compile(r"weir-([1-9][0-9]{0,4})\.localhost")


class OwnHost:
    """The name of the pages. `public_name` is the host of console.public.url, None without one."""

    __slots__ = ("_has_own", "_public", "public_name")

    def __init__(self, settings: ConsoleConfig) -> None:
        bound = "" if settings.listener is None else settings.listener.host.lower()
        self._public = settings.public_url.rstrip("/")
        self.public_name = urlsplit(self._public).hostname if self._public else None
        self._has_own = not self._public and not settings.is_encrypted and bound in LOOPBACK | EVERYWHERE

    def knows(self, name: str) -> bool:
        """Return whether the host name, in lower case, is one of the pages."""
        return name == self.public_name or (self._has_own and _OWN.fullmatch(name) is not None)

    def redirect_origin(self, scheme: str, header: str) -> str | None:
        """Return the origin to which to redirect a page, or None if this Host header is right."""
        name, port = host_and_port(header)
        if self.public_name is not None:
            other = name in LOOPBACK or is_address(name) or _OWN.fullmatch(name) is not None
            return self._public if other and name != self.public_name else None
        number = port if port is not None else 443 if scheme == "https" else 80
        own = _own(number)
        if self._has_own and name != own and (name in LOOPBACK or _OWN.fullmatch(name)):
            return f"{scheme}://{own}:{number}"
        return None

    def url(self, host: str, port: int, *, is_encrypted: bool) -> str:
        """Return the URL, with a slash, at which browsers on this machine reach a console bound to `host`."""
        if self._public:
            return f"{self._public}/"
        name = _own(port) if self._has_own else url_host(host)
        return f"{'https' if is_encrypted else 'http'}://{name}:{port}/"


def _own(port: int) -> str:
    return f"weir-{port}.localhost"


def url_host(bound: str) -> str:
    """Return a bound address in the form of a URL."""
    host = "127.0.0.1" if bound in EVERYWHERE else bound
    return f"[{host}]" if ":" in host else host
