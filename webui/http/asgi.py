"""The request task: waits for its turn before the framework sees the request, and closes its connection.

Set as `asgi_http_class` of the app by webui.http.app.

When a response is complete, hypercorn recycles or closes the connection inside the app's own `send`, and
notifies the task that reads messages. In quart-trio that task then cancels the nursery in which `send` is
still running. The close would be interrupted and leave the socket and its reading task behind. A shielded
`send` lets the close finish; its time limit is for a peer that does not read.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, ASGISendEvent, HTTPScope
from quart_trio.asgi import TrioASGIHTTPConnection

from webui.http.fair_queue import FairQueue, Kind
from webui.http.request import address_of, counted_as_idle
from webui.rest.problem import PROBLEM_TYPE, Problem
from webui.security import headers
from webui.tables.json_output import encode

log = logging.getLogger(__name__)

SEND_LIMIT_S = 15.0
MAX_SEND_BYTES: Final = 131_072
"""Bytes of a body per send."""

MAX_RECEIVED: Final = 8
"""Messages kept for a waiting request. A closed connection is not detected after more messages than that."""

OVERLOADED: Final = Problem(503, "The console is overloaded.", headers={"Retry-After": "5"})


class WholeSendConnection(TrioASGIHTTPConnection):
    """A request whose response is sent in shielded parts. `on_response_start` is called when the response
    begins.
    """

    async def handle(
        self, receive: ASGIReceiveCallable, send: ASGISendCallable, on_response_start: Callable[[], None]
    ) -> None:
        async def send_whole(message: ASGISendEvent) -> None:
            if message["type"] == "http.response.start":
                on_response_start()
            for part in _parts(message):
                with trio.fail_after(SEND_LIMIT_S, shield=True):
                    await send(part)

        await super().__call__(receive, send_whole)


def paced_connection(
    fair_queue: FairQueue,
    queue_of: Callable[[HTTPScope], tuple[str, Kind]],
    refusal_of: Callable[[HTTPScope], Problem | None],
) -> type[TrioASGIHTTPConnection]:
    """Return a class of requests that wait for a turn of the kind and in the queue that `queue_of` returns.

    Requests that `refusal_of` refuses wait too, and do not reach the framework.
    """
    refused = RefusalLog(log, "console refused requests")
    turn_of = {
        Kind.PAGE: fair_queue.turn,
        Kind.CHANGE: fair_queue.turn_for_change,
        Kind.HEALTH: fair_queue.turn_for_health,
    }

    class PacedConnection(WholeSendConnection):
        async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
            identity, kind = queue_of(self.scope)
            turn = turn_of[kind](identity)
            try:
                if turn.wait_s > 0:
                    received: list[ASGIReceiveEvent] = []
                    with counted_as_idle(self.scope):
                        is_connected = await wait_for_turn(turn.wait_s, receive, received)
                    if not is_connected:
                        return
                    receive = _replayed(received, receive)
                if not turn.granted:
                    await _refuse(send, OVERLOADED)
                elif (problem := refusal_of(self.scope)) is not None:
                    refused.note(address_of(self.scope))
                    await _refuse(send, problem)
                else:
                    await self.handle(receive, send, turn.done)
            finally:
                turn.done()

    return PacedConnection


def _parts(message: ASGISendEvent) -> Iterator[ASGISendEvent]:
    """Yield a long body in parts, since each part is copied and encrypted in one step."""
    if message["type"] != "http.response.body" or len(message["body"]) <= MAX_SEND_BYTES:
        yield message
        return
    body = memoryview(message["body"])
    for at in range(0, len(body), MAX_SEND_BYTES):
        more = message["more_body"] or at + MAX_SEND_BYTES < len(body)
        part = bytes(body[at : at + MAX_SEND_BYTES])
        yield {"type": "http.response.body", "body": part, "more_body": more}


async def wait_for_turn(
    wait_s: float, receive: ASGIReceiveCallable, received: list[ASGIReceiveEvent]
) -> bool:
    """Wait for `wait_s`, adding messages to `received`. Return False once the peer disconnects."""
    gone = False

    async def receive_messages() -> None:
        nonlocal gone
        while len(received) < MAX_RECEIVED:
            message = await receive()
            received.append(message)
            if message["type"] == "http.disconnect":
                gone = True
                waiting.cancel()
                return

    async with trio.open_nursery() as nursery:
        waiting = nursery.cancel_scope
        nursery.start_soon(receive_messages)
        await trio.sleep(wait_s)
        waiting.cancel()
    return not gone


def _replayed(received: list[ASGIReceiveEvent], receive: ASGIReceiveCallable) -> ASGIReceiveCallable:
    async def receive_on() -> ASGIReceiveEvent:
        return received.pop(0) if received else await receive()

    return receive_on


async def _refuse(send: ASGISendCallable, problem: Problem) -> None:
    fields = headers.SECURITY_HEADERS | problem.headers | {"Content-Type": PROBLEM_TYPE}
    body = encode(problem.document())
    fields |= {"Cache-Control": headers.NO_STORE, "Content-Length": str(len(body))}
    sent = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    with trio.move_on_after(SEND_LIMIT_S, shield=True):
        await send(
            {"type": "http.response.start", "status": problem.status, "headers": sent, "trailers": False}
        )
        await send({"type": "http.response.body", "body": body, "more_body": False})


LOG_EVERY_S: Final = 1.0


class RefusalLog:
    """Logs `message` with the number of refusals since the last line as `refused`."""

    __slots__ = ("_count", "_log", "_message", "_next_at")

    def __init__(self, log: logging.Logger, message: str) -> None:
        self._count = 0
        self._log = log
        self._next_at = 0.0
        self._message = message

    def note(self, address: str) -> None:
        """Count a refusal of `address`."""
        self._count += 1
        now = trio.current_time()
        if now >= self._next_at:
            self._log.info(self._message, extra={"address": address, "refused": self._count})
            self._count = 0
            self._next_at = now + LOG_EVERY_S
