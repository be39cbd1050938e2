"""An allow list of hosts: `public`, networks, and hosts with an optional port.

Read by broker.config.sections.broker, applied by broker.security.egress.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple, Self

from broker.config.listeners import read_host


class HostPattern(NamedTuple):
    """One entry; `text` is as written in lower case. All None: `public`. Otherwise either `network` or `host`
    is set; the host can be `*.domain`, and without `port` all ports are meant.
    """

    text: str
    network: IPv4Network | IPv6Network | None = None
    host: str | None = None
    port: int | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValueError."""
        lower = text.lower()
        if lower == "public":
            return cls(lower)
        if "/" in lower:
            return cls(lower, network=ip_network(lower))
        host, port = _split_port(lower)
        if not host.startswith("*."):
            try:
                # An address is a network of one, so that it matches however it is written.
                return (
                    cls(lower, network=ip_network(host)) if port is None else cls(lower, host=host, port=port)
                )
            except ValueError:
                pass
        read_host(host.removeprefix("*."))
        return cls(lower, host=host, port=port)

    def __str__(self) -> str:
        return self.text


PUBLIC: Final = HostPattern("public")
ALLOWED: Final = "a list of public, host, host:port, *.domain, an address, or a network such as 10.1.0.0/16"


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError("no closing bracket")
        return host, _port(rest[1:]) if rest else None
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, _port(port)
    return text, None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65_536):
        raise ValueError("not a port")
    return int(text)
