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
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import trio

from broker.config.sections import TelemetryConfig
from broker.telemetry.effective import uuid_text
from broker.telemetry.forwarding import RETRIED, Forwarding, retry_ms
from broker.telemetry.push import Push
from broker.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-otlp"
PATH: Final = "/v1/metrics"
LINGER_SECONDS: Final = 1.0
"""How long pushes are collected before a request."""


class Answered(NamedTuple):
    """The response. With `status` 0 there was none, for this `reason`."""

    status: int
    reason: str
    retry_after: str | None = None


Post = Callable[[bytes], Awaitable[Answered]]
"""Sends the body of one request. Never raises for network errors."""


class Forwarder:
    """Sends the pushes of `forwarding` until cancelled; waiting ones are then lost."""

    def __init__(self, forwarding: Forwarding, post: Post) -> None:
        self._forwarding = forwarding
        self._post = post
        self._succeeded = True

    async def run(self) -> None:
        while True:
            await trio.sleep(LINGER_SECONDS)
            while batch := self._forwarding.take():
                await self._send(batch)

    async def _send(self, batch: list[bytes]) -> None:
        forwarding, body, attempt = self._forwarding, b"".join(batch), 0
        while True:
            attempt += 1
            answer = await self._post(body)
            if 200 <= answer.status < 300:
                forwarding.sent += len(batch)
                self._log_change(answer, succeeded=True)
                return
            self._log_change(answer, succeeded=False)
            if answer.status and answer.status not in RETRIED:
                forwarding.dropped += len(batch)
                return
            forwarding.retries += 1
            await trio.sleep(retry_ms(attempt, answer.retry_after) / 1000)

    def _log_change(self, answer: Answered, *, succeeded: bool) -> None:
        """Log changes between success and failure, not each attempt."""
        if succeeded is self._succeeded:
            return
        self._succeeded = succeeded
        if succeeded:
            logger.warning("the collector accepts client metrics again")
        else:
            logger.error(
                "forwarding of client metrics to the collector failed",
                extra={"status": answer.status or None, "reason": answer.reason},
            )


def poster(config: TelemetryConfig) -> Post:
    """Return a sender for HTTP or HTTPS, as the endpoint says."""
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "gzip",
        "User-Agent": f"weir/{VERSION}",
        **dict(config.otlp_headers),
    }
    send = partial(_send, config.otlp_endpoint, config.otlp_timeout_ms / 1000, headers)

    async def post(body: bytes) -> Answered:
        return await trio.to_thread.run_sync(send, body, abandon_on_cancel=True)

    return post


def _send(endpoint: str, timeout_s: float, headers: Mapping[str, str], body: bytes) -> Answered:
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
        answer = connection.getresponse()
        answer.read(65_536)
        return Answered(answer.status, answer.reason, answer.getheader("Retry-After"))
    except (OSError, HTTPException) as error:
        return Answered(0, f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def body_of(push: Push, data: "MetricsData") -> bytes:
    """Return the push for the collector, with the attributes that KIP-714 has a broker add.

    They replace the client's own attributes of the same names.
    """
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    client = push.client
    added = {
        "client_instance_id": uuid_text(push.instance.id),
        "client_id": client.client_id or "",
        "client_software_name": client.software_name,
        "client_software_version": client.software_version,
        "client_source_address": client.address,
        "client_source_port": str(client.port),
        "principal": client.principal,
    }
    forwarded = MetricsData()
    forwarded.CopyFrom(data)
    for metrics in forwarded.resource_metrics:
        own = [each for each in metrics.resource.attributes if each.key not in added]
        metrics.resource.ClearField("attributes")
        metrics.resource.attributes.extend(own)
        metrics.resource.attributes.extend(
            KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in added.items()
        )
    return bytes(forwarded.SerializeToString())
