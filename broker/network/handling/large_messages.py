"""Decodes large requests and encodes large responses in slices.

Called by `handler_pool`. Not compiled: if a client disconnects, `sliced_requests` frees the local variables
of these generators in slices, and compiled generators have none that it could find.
"""

from collections.abc import Awaitable

from broker.api.requests.outcome import EncodedResponse, Outcome, Response
from broker.common.errors import ProtocolViolation
from broker.common.slices import Slices
from broker.network.connection.receive import Frame
from broker.network.handling.sliced_requests import SlicedRequests
from broker.network.requests.request_channel import Request


def handle_large(
    request: Request, frame: Frame, offset: int, sliced: SlicedRequests
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Decode a request and call its handler, whose outcome may be in slices too.

    `sliced` frees the message once the request has its response.
    """
    route = request.route
    decoding = route.decode_in_slices(frame, offset)
    try:
        next(decoding)
    except StopIteration as end:
        message = end.value
        request.api_key = route.api.key
        request.api_version = route.version
        outcome: Outcome | Awaitable[Outcome] = route.handle(message, request, route.services)
        return outcome
    try:
        yield None
        message = yield from decoding
    except ProtocolViolation as violation:
        sliced.drop(violation.take_partial())
        raise
    request.api_key = route.api.key
    request.api_version = route.version
    sliced.drop_after(request, message)
    outcome = route.handle(message, request, route.services)
    return outcome


def encode_large(
    request: Request, outcome: Response, sliced: SlicedRequests
) -> Slices[Outcome | Awaitable[Outcome]]:
    """Count the errors of a response and encode it. `sliced` frees the reply afterwards."""
    route, reply = request.route, outcome.reply
    try:
        errors = yield from route.count_errors_in_slices(reply)
        if errors:
            route.metrics.count_errors(request, errors)
        parts = yield from route.encode_in_slices(reply, request.correlation_id)
    except ProtocolViolation:  # the client has gone
        sliced.drop(reply)
        raise
    if len(parts) == 1 and isinstance(response := parts[0], bytes):
        frame = request.frame
        if outcome.cacheable and isinstance(frame, bytes) and not (outcome.throttle or errors):
            route.cache_response(frame, request.client_id, response, outcome.update_connection)
        return EncodedResponse(response, None)
    sliced.drop(reply)
    return EncodedResponse(parts, None)
