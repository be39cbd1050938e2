"""Decides to which addresses the broker may send requests that an administrator of the console asked for.

broker.controller.alerts checks a URL when it is stored, broker.monitoring.alerts.sender each address when it
connects. A name is resolved once and the connection goes to the checked address, so that a name that changes
in between (DNS rebinding) leads nowhere else. Pure.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import msgspec

from broker.config.host_patterns import PUBLIC, HostPattern

LONGEST_URL: Final = 2_048

HTTP: Final = ("https", "http")
SMTP: Final = ("smtp", "smtps", "smtp+plain")
"""Mail submission with STARTTLS, over TLS (RFC 8314), and without encryption."""

PORTS: Final = {"https": 443, "http": 80, "smtp": 587, "smtps": 465, "smtp+plain": 25}
ENCRYPTED: Final = frozenset({"https", "smtp", "smtps"})
"""Schemes whose servers prove by a certificate that they have the name."""

_NAT64: Final = IPv6Network("64:ff9b::/96")

_SPECIAL: Final = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # IETF protocol assignments (RFC 6890)
            "192.88.99.0/24",  # anycast of 6to4 relays (RFC 7526)
            "64:ff9b:1::/48",  # NAT64 of a local network (RFC 8215)
            "3fff::/20",  # documentation (RFC 9637)
            "5f00::/16",  # segment routing (RFC 9602)
            "fec0::/10",  # site-local (RFC 3879)
        ),
    )
)
"""Networks that are none of the Internet, and that not every version of `ipaddress` knows."""
Address = IPv4Address | IPv6Address


class Endpoint(msgspec.Struct, frozen=True):
    """A URL in parts. `host` is without brackets, `target` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")


class Egress:
    """The allow list."""

    def __init__(self, patterns: Sequence[HostPattern]) -> None:
        self._patterns = tuple(patterns)

    def check(self, url: str, schemes: Sequence[str] = HTTP) -> Endpoint:
        """Return the parts of a URL. Raises ValueError with the reason, for people, if no address of its host
        can be allowed.
        """
        endpoint = read_url(url, schemes)
        try:
            address = ip_address(endpoint.host)
        except ValueError:
            is_possible = self._names(endpoint.host, endpoint.port) or any(
                each.network is not None or (each == PUBLIC and endpoint.scheme in ENCRYPTED)
                for each in self._patterns
            )
        else:
            is_possible = self.allows(endpoint, address)
        if not is_possible:
            raise ValueError(self._refusal(endpoint))
        return endpoint

    def allows(self, endpoint: Endpoint, address: Address) -> bool:
        """Whether requests to this URL may be sent to this address of its host."""
        if self._names(endpoint.host, endpoint.port):
            return True
        meant = _embedded(address)
        if any(each.network is not None and meant in each.network for each in self._patterns):
            return True
        return PUBLIC in self._patterns and endpoint.scheme in ENCRYPTED and is_public(address)

    def _names(self, host: str, port: int) -> bool:
        return any(
            each.host is not None
            and each.port in (None, port)
            and (host == each.host or (each.host.startswith("*.") and host.endswith(each.host[1:])))
            for each in self._patterns
        )

    def _refusal(self, endpoint: Endpoint) -> str:
        if endpoint.scheme not in ENCRYPTED and PUBLIC in self._patterns:
            instead = "https" if endpoint.scheme == "http" else "smtp or smtps"
            needed = f"{endpoint.host} in alerts.destination.hosts"
            return f"{endpoint.scheme} needs {needed}; otherwise use {instead}"
        return f"{endpoint.host} is not in alerts.destination.hosts"

    def refusal_of(self, endpoint: Endpoint, address: Address) -> str:
        return f"{endpoint.host} has the address {address}, which is not in alerts.destination.hosts"


def read_url(url: str, schemes: Sequence[str] = HTTP) -> Endpoint:
    """Return the parts of a URL with one of these schemes. Raises ValueError with the reason, for people."""
    if len(url) > LONGEST_URL:
        raise ValueError(f"the URL is longer than {LONGEST_URL} characters")
    if not url.isascii() or any(character <= " " or character in '<>"\\^`{|}\x7f' for character in url):
        raise ValueError("the URL has a character that must be escaped")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the URL's port or host is invalid") from None
    if parts.scheme not in schemes:
        *first, last = (f"{each}://" for each in schemes)
        raise ValueError(f"the URL must begin with {', '.join(first)} or {last}")
    if "@" in parts.netloc:
        instead = "a header" if parts.scheme in HTTP else "their fields"
        raise ValueError(f"the URL must not contain a user or a password; use {instead}")
    if not parts.hostname or parts.netloc.endswith(":") or "%" in parts.hostname or port == 0:
        raise ValueError("the URL has no valid host")
    if "#" in url:
        raise ValueError("the URL must not have a fragment")
    if parts.scheme in SMTP and (parts.path not in ("", "/") or parts.query):
        raise ValueError("the URL of a mail server has a host and a port only")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(parts.scheme, parts.hostname, port or PORTS[parts.scheme], target)


def is_public(address: Address) -> bool:
    """Whether the address is one of the Internet, also if it is written as an IPv6 address."""
    meant = _embedded(address)
    if any(meant in network for network in _SPECIAL):
        return False
    return meant.is_global and not meant.is_multicast and not meant.is_reserved


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address leads to, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
