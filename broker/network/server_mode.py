"""The classes that a socket server is built of. `server` chooses a mode when it creates the server.

Kafka's mode is here; `network.automq.server_mode` has the other one (`socket.server.mode`).
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
    """`requests` and `callbacks` take `queued.max.requests` and the number of handlers; the other fields take
    the arguments of the classes in this package. `resizable` says whether the number of handlers may change
    at run time.
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
