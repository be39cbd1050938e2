"""Requests that a handler of the gateway sends on its client's own upstream connection.

So the upstream cluster sees the client's principal, and its authorization and quotas apply. A handler runs
only while nothing of its client is in flight, and the client is not read until it is answered: the response
to what the handler asks is the only one that can arrive, and it never reaches the client. `renewals` sends
the gateway's own logins in the same way.
"""

from typing import Any, Final

import trio

from broker.api.requests.context import RequestContext
from broker.common.errors import BrokerBug, ProtocolViolation
from broker.common.slice_runner import run_slices
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import AT_ONCE, decoded
from broker.gateway.routes import ForwardedRequest, ForwardRoute, Treatment
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.network.requests.request_channel import Request
from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.dismantle import dismantle

MAX_ASKED_BYTES: Final = 32 * 1024 * 1024
"""The largest response that is asked for: six times the Metadata of 100,000 partitions; ours. Its frame and
what is made of it, or of its request, are in memory at the same time.
"""

LOST: Final = "the client's connections closed before the upstream broker answered"


class AskedRequest(ForwardedRequest):
    """Its response, without the size, is for the handler that waits. `answer` or `lose` is called once."""

    __slots__ = ("_answered", "_response")

    def __init__(
        self,
        channel: GatewayChannel,
        route: ForwardRoute,
        client_id: str | None,
        correlation_id: int,
        size: int,
        received: int,
    ) -> None:
        super().__init__(channel, route, client_id, correlation_id, size, received)
        self._answered = trio.Event()
        self._response: bytes | bytearray | None = None

    def answer(self, response: bytes | bytearray) -> None:
        self._response = response
        self._answered.set()

    def lose(self) -> None:
        """Let the handler know that no response will come."""
        self._answered.set()

    async def wait(self) -> bytes | bytearray:
        """Return the response. Raises UpstreamError if the client's or its upstream connection closes."""
        await self._answered.wait()
        if self._response is None:
            raise UpstreamError(Reason.CLOSED, LOST)
        return self._response


async def ask(context: RequestContext, message: Any, version: int | None = None) -> Any:
    """Send a request of the API that `context` has, in its version or another, and return the response.

    Raises UpstreamError when the connection closes, which closes the client's too, and ProtocolViolation for
    a damaged response. If cancelled, the request may be sent, and its response is discarded; the client is
    not read any more unless it gets a response.
    """
    version = context.api_version if version is None else version
    frame = await ask_whole(context, message, version)
    key = message.API_KEY
    if len(frame) <= AT_ONCE:
        return decoded(frame, key, version)[0]
    _, body = codec.parse_response_header(frame, response_header_version(key, version))
    try:
        return await run_slices(codec.decode_response_in_slices(key, version)(frame, body))
    except ProtocolViolation as violation:
        found = violation
    await run_slices(dismantle(found.take_partial()))
    raise found


async def ask_whole(context: RequestContext, message: Any, version: int | None = None) -> bytes | bytearray:
    """As `ask`, and return the whole response without its size, with the client's correlation id."""
    assert isinstance(context, Request)
    channel = context.channel
    assert isinstance(channel, GatewayChannel)
    if channel.in_flight or channel.is_logging_in:
        raise BrokerBug("a handler asks the upstream broker while it waits for a response")
    if channel.fd < 0:
        raise UpstreamError(Reason.CLOSED, LOST)
    key = message.API_KEY
    version = context.api_version if version is None else version
    if context.size <= AT_ONCE:
        parts = codec.encode_request(key, version)(message, context.correlation_id, context.client_id)
    else:
        encode = codec.encode_request_in_slices(key, version)
        parts = await run_slices(encode(message, context.correlation_id, context.client_id))
    frame = b"".join(parts)  # type: ignore[arg-type] # requests have no file regions
    route = ForwardRoute(key, version, Treatment.FORWARD, context.route.metrics, collects=True)
    route.max_response = min(route.max_response, MAX_ASKED_BYTES)
    asked = AskedRequest(
        channel, route, context.client_id, context.correlation_id, len(frame) - 4, context.received
    )
    channel.client.ask(asked, frame)
    return await asked.wait()
