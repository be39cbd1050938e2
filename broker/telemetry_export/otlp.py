"""The receiver that passes pushes on to an OpenTelemetry collector, over OTLP/HTTP.
(`telemetry.otlp.endpoint`)

One task, one request at a time, in a thread. A collector that is away or overwhelmed is tried again for as
long as it takes, while what comes meanwhile waits, bounded; one that refuses a batch for good costs that
batch. Who a client is stands in the resource's attributes.
Left out: what a collector says of records that it has taken in part.
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
"""How long pushes are gathered before they are sent."""


class Answered(NamedTuple):
    """`status` 0: there was no answer, for this `reason`."""

    status: int
    reason: str
    retry_after: str | None = None


Post = Callable[[bytes], Awaitable[Answered]]
"""Sends one request's body, and never raises for what the network does."""


class Forwarder:
    """Sends what `forwarding` has, until cancelled; what waits then is lost."""

    def __init__(self, forwarding: Forwarding, post: Post) -> None:
        self._forwarding = forwarding
        self._post = post
        self._is_well = True

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
                self._tell(answer, is_well=True)
                return
            self._tell(answer, is_well=False)
            if answer.status and answer.status not in RETRIED:
                forwarding.dropped += len(batch)
                return
            forwarding.retries += 1
            await trio.sleep(retry_ms(attempt, answer.retry_after) / 1000)

    def _tell(self, answer: Answered, *, is_well: bool) -> None:
        """Two lines for each time of trouble, not one for each attempt."""
        if is_well is self._is_well:
            return
        self._is_well = is_well
        if is_well:
            logger.warning("the collector takes client metrics again")
        else:
            logger.error(
                "client metrics cannot be passed on",
                extra={"status": answer.status or None, "reason": answer.reason},
            )


def poster(config: TelemetryConfig) -> Post:
    """Over HTTP or HTTPS, as the endpoint says."""
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
    """In a thread. The connection is made anew each time: there is one request a second at most."""
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
    """The push as a collector gets it: what KIP-714 has a broker add stands among the resource's attributes,
    over whatever the client itself said there.
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
    told = MetricsData()
    told.CopyFrom(data)
    for metrics in told.resource_metrics:
        own = [each for each in metrics.resource.attributes if each.key not in added]
        metrics.resource.ClearField("attributes")
        metrics.resource.attributes.extend(own)
        metrics.resource.attributes.extend(
            KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in added.items()
        )
    return bytes(told.SerializeToString())
