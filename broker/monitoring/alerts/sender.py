"""Sends notifications over HTTP, to addresses that the allow list permits only.

The name of a destination is resolved once for each connection, each of its addresses is checked, and the
connection goes to a checked one (`broker.security.egress`). Redirects are not followed, and neither proxies
nor passwords of the environment are used. A response is read to at most MAX_BODY_BYTES. It opens a new
connection for each request and trusts the machine's certificate authorities as they are then.
"""

import socket
import ssl
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import trio

from broker.common.version import VERSION
from broker.monitoring.alerts.outbox import SendResult
from broker.security.egress import Egress, Endpoint

if TYPE_CHECKING:
    import httpcore2

MAX_BODY_BYTES: Final = 65_536


class NotAllowed(Exception):  # noqa: N818 - says what the address is
    """No address of the host is in the allow list. The message says so to people."""


async def allowed_addresses(egress: Egress, endpoint: Endpoint) -> list[str]:
    """Resolve the host and return those of its addresses that the list allows. Raises NotAllowed, OSError."""
    found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # An IPv6 address can end in a zone, such as %eth0.
    addresses = list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in found))
    allowed = [each for each in addresses if egress.allows(endpoint, ip_address(each))]
    if not allowed:
        raise NotAllowed(egress.refusal_of(endpoint, ip_address(addresses[0])))
    return allowed


async def post(
    endpoint: Endpoint, body: bytes, headers: Sequence[tuple[str, str]], egress: Egress, timeout_s: float
) -> SendResult:
    """Send one request. Never raises for network errors. `timeout_s` covers all of it."""
    with trio.move_on_after(timeout_s):
        try:
            return await _post(endpoint, body, headers, egress)
        except NotAllowed as error:
            return SendResult(0, str(error), is_final=True)
        except (OSError, ValueError) as error:
            return SendResult(0, described(error))
        except Exception as error:
            import httpcore2

            known = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)
            if not isinstance(error, known):
                raise
            return SendResult(0, described(error))
    return SendResult(0, f"no response within {timeout_s:g} s")


async def _post(
    endpoint: Endpoint, body: bytes, headers: Sequence[tuple[str, str]], egress: Egress
) -> SendResult:
    # Takes 3 MB and some tens of milliseconds, which only brokers with a destination spend.
    import httpcore2

    addresses = await allowed_addresses(egress, endpoint)
    context = None
    if endpoint.scheme == "https":
        context = await trio.to_thread.run_sync(ssl.create_default_context, abandon_on_cancel=True)
    fields = [
        ("Host", endpoint.origin.partition("://")[2]),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("User-Agent", f"weir/{VERSION}"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    given = {name.lower() for name, _ in headers}
    fields = [field for field in fields if field[0].lower() not in given] + list(headers)
    url = httpcore2.URL(
        scheme=endpoint.scheme.encode(),
        host=endpoint.host.encode(),
        port=endpoint.port,
        target=endpoint.target.encode(),
    )
    async with (
        httpcore2.AsyncConnectionPool(
            ssl_context=context, network_backend=_checked_backend(addresses)
        ) as pool,
        pool.stream(
            "POST", url, headers=[(name.encode(), value.encode()) for name, value in fields], content=body
        ) as response,
    ):
        chunks: Any = response.aiter_stream()
        async with aclosing(chunks):
            read = 0
            async for chunk in chunks:
                read += len(chunk)
                if read > MAX_BODY_BYTES:
                    break
        reason = bytes(response.extensions.get("reason_phrase", b"")).decode("latin-1")
        return SendResult(response.status, shown(reason), _header(response.headers, b"retry-after"))


def _checked_backend(addresses: Sequence[str]) -> "httpcore2.AsyncNetworkBackend":
    """Return a backend that connects to these addresses, whatever host is asked for."""
    import httpcore2

    class CheckedBackend(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
            local_address: str | None = None,
            socket_options: Any = None,
        ) -> httpcore2.AsyncNetworkStream:
            backend = httpcore2.TrioBackend()
            for address in addresses[:-1]:
                try:
                    return await backend.connect_tcp(
                        address, port, timeout, local_address, socket_options or ()
                    )
                except httpcore2.ConnectError:
                    continue
            return await backend.connect_tcp(
                addresses[-1], port, timeout, local_address, socket_options or ()
            )

    return CheckedBackend()


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), None)


def shown(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:100]


def described(error: BaseException) -> str:
    """Describe the system's error, which Trio and httpcore wrap in errors of their own."""
    first: BaseException | None = error
    while first is not None and not (isinstance(first, OSError) and first.errno):
        first = first.__cause__ or first.__context__
        if isinstance(first, BaseExceptionGroup):
            first = first.exceptions[-1]
    cause = first or error
    return f"{type(cause).__name__}: {shown(str(cause))}" if str(cause) else type(cause).__name__
