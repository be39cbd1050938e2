"""The receiver that forwards pushes to an OpenTelemetry collector over OTLP/HTTP.
(`telemetry.otlp.endpoint`)

One task sends one request at a time. It retries an unavailable or overloaded collector without
limit while further pushes wait in a bounded queue; a permanent refusal drops that batch. The resource's
attributes identify the client. Left out: a collector's message about partially accepted requests.
"""

import logging
import ssl
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import trio

from broker.common.errors import ConfigError
from broker.common.http_requests import retry_ms, root_cause
from broker.common.version import VERSION
from broker.config.sections import TelemetryConfig
from broker.telemetry.state import ExportQueue

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-otlp"
PATH: Final = "/v1/metrics"
LINGER_SECONDS: Final = 1.0
"""How long pushes are collected before a request."""

MAX_BODY_BYTES: Final = 65_536
"""The most that is read of a response's body, which is ignored."""

RETRIED: Final = (429, 502, 503, 504)
"""Statuses after which OTLP has a client retry; any other failure drops the batch."""


T = TypeVar("T")


class CollectorResponse(NamedTuple):
    """The response. With `status` 0 there was none, for this `reason`."""

    status: int
    reason: str
    retry_after: str | None = None


Post = Callable[[bytes], Awaitable[CollectorResponse]]
"""Sends the body of one request. Never raises for network errors."""


class OtlpExporter:
    """Sends the pushes of `queue` until cancelled; waiting ones are then lost."""

    def __init__(self, queue: ExportQueue, post: Post) -> None:
        self._queue = queue
        self._post = post
        self._succeeded = True

    async def run(self) -> None:
        while True:
            await trio.sleep(LINGER_SECONDS)
            while batch := self._queue.take():
                await self._send(batch)

    async def _send(self, batch: list[bytes]) -> None:
        queue, body, attempt = self._queue, b"".join(batch), 0
        while True:
            attempt += 1
            response = await self._post(body)
            if 200 <= response.status < 300:
                queue.sent += len(batch)
                self._log_change(response, succeeded=True)
                return
            self._log_change(response, succeeded=False)
            if response.status and response.status not in RETRIED:
                queue.dropped += len(batch)
                return
            queue.retries += 1
            await trio.sleep(retry_ms(attempt, response.retry_after) / 1000)

    def _log_change(self, response: CollectorResponse, *, succeeded: bool) -> None:
        """Log changes between success and failure, not each attempt."""
        if succeeded is self._succeeded:
            return
        self._succeeded = succeeded
        if succeeded:
            logger.warning("the collector accepts client metrics again")
        else:
            logger.error(
                "forwarding of client metrics to the collector failed",
                extra={"status": response.status or None, "reason": response.reason},
            )


def http_sender(config: TelemetryConfig) -> Post:
    """Return a sender for HTTP or HTTPS, as the endpoint says. Raises ConfigError.

    It opens a new connection for each request, as there is at most one a second, and trusts the machine's
    certificate authorities as they are then. Neither proxies nor passwords of the environment are used.
    """
    # Takes 5 MB and 100 ms, which only brokers with a collector spend.
    import httpx2

    endpoint = urlsplit(config.otlp_endpoint)
    path = endpoint.path.rstrip("/")
    try:
        url = httpx2.URL(
            scheme=endpoint.scheme,
            host=endpoint.hostname,
            port=endpoint.port,
            path=path if path.endswith(PATH) else path + PATH,
        )
    except httpx2.InvalidURL as error:
        raise ConfigError(
            "telemetry.otlp.endpoint", config.otlp_endpoint, f"a valid URL ({error})"
        ) from error
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
        "User-Agent": f"weir/{VERSION}",
        "Accept-Encoding": "identity",
        **dict(config.otlp_headers),
    }
    timeout_s = config.otlp_timeout_ms / 1000
    # For plain HTTP; httpx2 would load certificates for it too.
    no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def post(body: bytes) -> CollectorResponse:
        try:
            packed = await _in_thread(partial(zlib.compress, body, wbits=31))
            context = await _in_thread(ssl.create_default_context) if url.scheme == "https" else no_tls
            fields = httpx2.Headers(headers, encoding="latin-1")
            async with (
                httpx2.AsyncClient(verify=context, trust_env=False, timeout=timeout_s) as client,
                client.stream("POST", url, content=packed, headers=fields) as response,
            ):
                async for _ in response.aiter_raw(MAX_BODY_BYTES):
                    break
                retry_after = response.headers.get("Retry-After")
                return CollectorResponse(response.status_code, response.reason_phrase, retry_after)
        except httpx2.TimeoutException as error:
            return CollectorResponse(0, f"{type(error).__name__}: no response within {timeout_s:g} s")
        except (httpx2.HTTPError, OSError, ValueError) as error:
            return CollectorResponse(0, root_cause(error))

    return post


async def _in_thread(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
