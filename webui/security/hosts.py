"""Validation of Host headers, against DNS rebinding.

Called by webui.security.gate before all other checks. A site that points its own name at 127.0.0.1 sends
requests that are same-origin to the browser and under its full control; only their Host header identifies
them.
"""

from collections.abc import Iterable
from ipaddress import ip_address

_ALWAYS = frozenset({"localhost", "127.0.0.1", "::1"})


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
        self._any_address = bound in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
        self._names = _ALWAYS | {bound.lower()} | {name.lower() for name in configured}

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
