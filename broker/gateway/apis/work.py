"""Handlers that wait for an upstream broker, each in a task of its own.

The handlers of the pool are few, and an upstream broker may take its time: waiting in one of them would hold
back the requests of other clients.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import EncodedResponse, Hangup, Outcome, Response, Sliced
from broker.common.slice_runner import run_slices
from broker.common.slices import SLICE, Slices
from broker.config.listeners import Address
from broker.gateway.asking import ask_whole
from broker.gateway.responses import rewritten
from broker.gateway.upstream.errors import UpstreamError

Work = Callable[[], Coroutine[Any, Any, Outcome]]

Addresses = Callable[[str, int], Address | None]
"""Takes the name of a listener and the id of a node; returns where its clients reach the node, if they do."""


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


async def forward(context: RequestContext, message: Any) -> Outcome:
    """Ask the upstream broker, and return its response as it came. Raises UpstreamError."""
    frame = await ask_whole(context, message)
    return EncodedResponse(len(frame).to_bytes(4, "big") + frame, None)


async def forward_readdressed(context: RequestContext, message: Any, addresses: Addresses) -> Outcome:
    """As `forward`, for an API whose responses have addresses. Raises ProtocolViolation for a damaged one."""
    frame = await ask_whole(context, message)
    advertised = partial(addresses, context.connection.listener)
    response = rewritten(frame, message.API_KEY, context.api_version, advertised)
    return EncodedResponse(response if isinstance(response, bytes) else await run_slices(response), None)
