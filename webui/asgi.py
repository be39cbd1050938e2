"""The request task that does not leak its connection.

Set as `asgi_http_class` of the app by webui.app. When an answer is complete, hypercorn recycles or closes the
connection inside the app's own `send`, and tells the task that reads messages; that one, in quart-trio,
cancels the nursery in which `send` is still at work. The close is then cut off half way: the socket stays
open, and so does the task that reads it. A shielded `send` lets the close finish; its time limit is for a
peer that does not read.
"""

import trio
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, ASGISendEvent
from quart_trio.asgi import TrioASGIHTTPConnection

SEND_LIMIT_S = 15.0


class WholeSendConnection(TrioASGIHTTPConnection):
    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def send_whole(message: ASGISendEvent) -> None:
            with trio.fail_after(SEND_LIMIT_S, shield=True):
                await send(message)

        await super().__call__(receive, send_whole)
