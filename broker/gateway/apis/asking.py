"""Handlers that ask the upstream broker: which requests they answer, and how they wait for it.

Their requests go out on the client's own upstream connection, so the upstream cluster sees the client's
principal, and its authorization and quotas apply. A handler runs only while nothing of its client is in
flight, and the client is not read until it is answered: the response to what the handler asks is the only one
that can arrive, and it never reaches the client.

Each waits in a task of its own. The handlers of the pool are few, and an upstream broker may take its time:
waiting in one of them would hold back the requests of other clients.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import EncodedResponse, Hangup, Outcome, Response, Sliced
from broker.common.errors import BrokerBug, ProtocolViolation
from broker.common.slice_runner import run_slices
from broker.common.slices import SLICE, Slices
from broker.config.listeners import Address
from broker.gateway.channel import GatewayChannel
from broker.gateway.responses import AT_ONCE, plain_ending, rewriter, rewritten
from broker.gateway.routes import LOST, Answers, AskedRequest, ForwardRoute, Treatment
from broker.gateway.throttle_time import throttle_place
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import decoded
from broker.metadata.image import OUR_TOPICS
from broker.network.connection.channel import Channel
from broker.network.requests.request_channel import Request
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, request_header_version, response_header_version
from broker.protocol.client_id import client_id_and_body

MAX_ASKED_BYTES: Final = 32 * 1024 * 1024
"""The largest response that is asked for: six times the Metadata of 100,000 partitions; ours. Its frame and
what is made of it, or of its request, are in memory at the same time.
"""

RESERVED: Final = OUR_TOPICS.strip("_").encode()
"""In every name for which `is_reserved` is true."""

MayBe = Answers
"""Returns, without reading the message, whether the gateway may have to answer a request."""

Handle = Callable[[Any, RequestContext, Any], Outcome | Awaitable[Outcome]]

Work = Callable[[], Coroutine[Any, Any, Outcome]]

Addresses = Callable[[str, int], Address | None]
"""Takes the name of a listener and the id of a node; returns where its clients reach the node, if they do."""


def decides(key: ApiKey, version: int, is_ours: Callable[[Any, Channel], bool], may_be: MayBe) -> Answers:
    """Return the answer for a version of an API: of the requests that may be the gateway's, it answers those
    of which `is_ours` says so, large ones, and damaged ones, whose connections close.
    """
    flexible = request_header_version(key, version) == 2
    decode = codec.decode_request(key, version)

    def answers(frame: memoryview | None, channel: Channel) -> bool:
        if not may_be(frame, channel):
            return False
        if frame is None:
            return True
        try:
            _, body = client_id_and_body(frame, flexible)
            message = decode(frame, body)
        except ProtocolViolation:
            return True
        return is_ours(message, channel)

    return answers


def may_name_reserved(frame: memoryview | None) -> bool:
    """Return whether a request could name a topic that only Weir creates."""
    return frame is None or RESERVED in bytes(frame)


async def ask(context: RequestContext, message: Any, version: int | None = None) -> Any:
    """Send a request of the API that `context` has, in its version or another, and return the response.

    Raises UpstreamError when the connection closes, which closes the client's too, and ProtocolViolation for
    a damaged response. If cancelled, the request may be sent, and its response is discarded; the client is
    not read any more unless it gets a response.
    """
    version = context.api_version if version is None else version
    frame = await ask_whole(context, message, version)
    key = message.API_KEY
    _, body = codec.parse_response_header(frame, response_header_version(key, version))
    return await decoded(frame, body, key, version)


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
    route.plain_ending = None  # also a response without addresses is the handler's
    asked = AskedRequest(
        channel, route, context.client_id, context.correlation_id, len(frame) - 4, context.received
    )
    channel.client.ask(asked, frame)
    return await asked.wait()


def in_own_task(work: Work) -> Sliced:
    """Return the outcome of a handler that waits. If it raises UpstreamError, the client's connection closes.

    The pool runs it in a task of its own, because it follows a slice.
    """
    return Sliced(_begin(work), None)


def _begin(work: Work) -> Slices[Outcome | Awaitable[Outcome]]:
    yield from ()
    return _finish(work)


async def _finish(work: Work) -> Outcome:
    try:
        return await work()
    except UpstreamError as error:
        return Hangup(str(error))


async def reply_of(outcome: Outcome | Awaitable[Outcome]) -> Any:
    """Return the reply of a handler of `broker.api` that answers every request."""
    while True:
        if isinstance(outcome, Response):
            return outcome.reply
        if isinstance(outcome, Sliced):
            outcome = await _last(outcome)
            continue
        assert isinstance(outcome, Awaitable), f"unexpected outcome {outcome}"
        outcome = await outcome


async def _last(sliced: Sliced) -> Outcome | Awaitable[Outcome]:
    last = await run_slices(sliced.slices)
    return last if sliced.then is None else sliced.then(last)


def encoded(response: Response, elements: int) -> Outcome:
    """Return a response with `elements` results: in a slice if they are many, as upstream brokers choose."""
    return in_slices_too(response) if elements > SLICE else response


def in_slices_too(response: Response) -> Sliced:
    """Return a response in a slice, so that it is encoded in slices, whatever the size of its request."""
    return Sliced(_last_of(response), None)


def _last_of(response: Response) -> Slices[Outcome | Awaitable[Outcome]]:
    yield from ()
    return response


async def forward(context: RequestContext, message: Any) -> EncodedResponse:
    """Ask the upstream broker, and return its response as it came. Raises UpstreamError."""
    return _as_it_came(await ask_whole(context, message), message.API_KEY, context.api_version)


async def forward_readdressed(context: RequestContext, message: Any, addresses: Addresses) -> EncodedResponse:
    """As `forward`, for an API whose responses have addresses. Raises ProtocolViolation for a damaged one."""
    frame = await ask_whole(context, message)
    key, version = message.API_KEY, context.api_version
    ending = plain_ending(key, version)
    if rewriter(key, version) is None or (ending is not None and frame.endswith(ending)):
        return _as_it_came(frame, key, version)
    response = rewritten(frame, key, version, partial(addresses, context.connection.listener))
    whole = response if isinstance(response, bytes) else await run_slices(response)
    return EncodedResponse(whole, None, throttle_place(memoryview(whole)[4:], key, version))


def _as_it_came(frame: bytes | bytearray, key: int, version: int) -> EncodedResponse:
    whole = len(frame).to_bytes(4, "big") + frame
    return EncodedResponse(whole, None, throttle_place(frame, key, version))
