"""The host name of the console's pages, distinct so that no other service receives their cookies.

Cookies ignore ports: a session of http://127.0.0.1:8080 is sent to every other service on 127.0.0.1. So the
pages are served at `weir-<port>.localhost`, which browsers resolve to this machine, or at console.public.url.
Used by webui.pages for each page, by webui.security.hosts, and by broker.web for the printed link. Programs
send no cookies and may use any allowed name.

Over TLS, or bound to one address of the network, the console has another name only by console.public.url: no
certificate is valid for `weir-<port>.localhost`.
"""

import re
from typing import Final
from urllib.parse import urlsplit

from webui.backend import ConsoleSettings
from webui.security.hosts import host_and_port, is_address

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound

_OWN: Final = re.compile(r"weir-([1-9][0-9]{0,4})\.localhost")


class OwnHost:
    """The name of the pages. `public_name` is the host of console.public.url, None without one."""

    __slots__ = ("_has_own", "_public", "public_name")

    def __init__(self, settings: ConsoleSettings) -> None:
        bound = "" if settings.listener is None else settings.listener.host.lower()
        self._public = settings.public_url.rstrip("/")
        self.public_name = urlsplit(self._public).hostname if self._public else None
        self._has_own = not self._public and not settings.is_encrypted and bound in LOOPBACK | EVERYWHERE

    def knows(self, name: str) -> bool:
        """Return whether the host name, in lower case, is one of the pages."""
        return name == self.public_name or (self._has_own and _OWN.fullmatch(name) is not None)

    def elsewhere(self, scheme: str, header: str) -> str | None:
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
        name = _own(port) if self._has_own else shown_host(host)
        return f"{'https' if is_encrypted else 'http'}://{name}:{port}/"


def _own(port: int) -> str:
    return f"weir-{port}.localhost"


def shown_host(bound: str) -> str:
    """Return a bound address in the form of a URL."""
    host = "127.0.0.1" if bound in EVERYWHERE else bound
    return f"[{host}]" if ":" in host else host
