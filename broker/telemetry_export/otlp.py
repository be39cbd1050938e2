"""The receiver that forwards pushes to an OpenTelemetry collector over OTLP/HTTP.
(`telemetry.otlp.endpoint`)

One task sends one request at a time, in a thread. It retries an unavailable or overloaded collector without
limit while further pushes wait in a bounded queue; a permanent refusal drops that batch. The resource's
attributes identify the client. Left out: a collector's message about partially accepted requests.
"""

import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import trio

from broker.config.sections import TelemetryConfig
from broker.telemetry.state import ExportQueue
from broker.version import VERSION

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-otlp"
PATH: Final = "/v1/metrics"
LINGER_SECONDS: Final = 1.0
"""How long pushes are collected before a request."""

FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 30_000

RETRIED: Final = (429, 502, 503, 504)
"""Statuses after which OTLP has a client retry; any other failure drops the batch."""


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
    """Return a sender for HTTP or HTTPS, as the endpoint says."""
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
        "User-Agent": f"weir/{VERSION}",
        **dict(config.otlp_headers),
    }
    send = partial(_send, config.otlp_endpoint, config.otlp_timeout_ms / 1000, headers)

    async def post(body: bytes) -> CollectorResponse:
        return await trio.to_thread.run_sync(send, body, abandon_on_cancel=True)

    return post


def _send(endpoint: str, timeout_s: float, headers: Mapping[str, str], body: bytes) -> CollectorResponse:
    """Send a request; runs in a thread. Opens a new connection each time, as there is at most one request a
    second.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    url = urlsplit(endpoint)
    assert url.hostname is not None
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    path = url.path.rstrip("/")
    connection = kind(url.hostname, url.port, timeout=timeout_s)
    try:
        packed = zlib.compress(body, wbits=31)
        connection.request("POST", path if path.endswith(PATH) else path + PATH, packed, dict(headers))
        response = connection.getresponse()
        response.read(65_536)
        return CollectorResponse(response.status, response.reason, response.getheader("Retry-After"))
    except (OSError, HTTPException) as error:
        return CollectorResponse(0, f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def retry_ms(attempt: int, retry_after: str | None) -> int:
    """Return the delay after attempt number `attempt`, from 1.

    It doubles each time, or is the collector's Retry-After, up to our own maximum.
    """
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]) * 1_000, MAX_RETRY_MS)
    return int(min(FIRST_RETRY_MS * 2 ** min(attempt - 1, 10), MAX_RETRY_MS))
