"""What a socket server is built of. Chosen by `server` when the server is made, and never asked again.

Kafka's own is here; `network.automq.server_mode` has the other one (`socket.server.mode`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.api.callbacks import Callbacks
from broker.network.handling.handler_pool import HandlerPool
from broker.network.handling.request_channel import RequestChannel, Requests
from broker.network.processor import Processor
from broker.network.throttling import Throttling


@dataclass(frozen=True, slots=True)
class ServerMode:
    """`requests` and `callbacks` are called with `queued.max.requests` and the number of handlers; the
    others with what the classes of this package take. `resizable`: whether handlers may become more or fewer
    while it runs.
    """

    requests: Callable[[int, int], Requests]
    callbacks: Callable[[int, int], Callbacks]
    processor: Callable[..., Processor]
    handlers: type[HandlerPool]
    throttling: type[Throttling]
    resizable: bool = True


KAFKA: Final = ServerMode(
    lambda capacity, _handlers: RequestChannel(capacity),
    lambda capacity, _handlers: Callbacks(capacity),
    Processor,
    HandlerPool,
    Throttling,
)
