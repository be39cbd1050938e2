"""One endpoint being served: its port and its processors. (Kafka: DataPlaneAcceptor)

`socket_server` creates it with the port bound and no task running. Its processors run in a nursery of their
own, each in its own cancel scope, so that a processor can retire while the others serve.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator

import trio

from broker.config.listeners import ListenerConfig
from broker.network.acceptor.acceptor import Acceptor
from broker.network.processor import Processor
from broker.network.requests.routes import Routes
from broker.network.supervisor import Supervisor, TaskStarter
from broker.security.tls import Certificates

logger = logging.getLogger(__name__)


class Listener:
    """`processors` take new connections; the acceptor distributes connections over this very list. Those in
    `retiring` only finish their requests, for `drain_seconds` at most. `started` is set once connections are
    accepted, or never will be. `certificates` is set for a TLS listener.
    """

    def __init__(
        self,
        endpoint: ListenerConfig,
        acceptor: Acceptor,
        routes: Routes,
        make_processor: Callable[["Listener"], Processor],
        forget_processor: Callable[[Processor], None],
        drain_seconds: float,
        certificates: Certificates | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.protocol = endpoint.protocol.value
        self.acceptor = acceptor
        self.routes = routes
        self.certificates = certificates
        self.processors: list[Processor] = []
        self.retiring: list[Processor] = []
        self.started = trio.Event()
        self._make_processor = make_processor
        self._forget_processor = forget_processor
        self.drain_seconds = drain_seconds
        self._accepting = trio.CancelScope()
        self._scopes: dict[Processor, trio.CancelScope] = {}
        self._nursery: TaskStarter | None = None
        self._ended = trio.Event()

    @property
    def task_label(self) -> str:
        """The common part of its tasks' names: listener and protocol."""
        return f"{self.name}-{self.protocol}"

    @property
    def acceptor_task(self) -> str:
        """The name of the acceptor task, which is that of Kafka's thread."""
        port = self.acceptor.address[1]
        return f"{self.endpoint.plane}-kafka-socket-acceptor-{self.task_label}-{port}"

    @property
    def ending(self) -> bool:
        """Whether the listener was removed and only finishes its requests."""
        return self._ended.is_set()

    def all_processors(self) -> Iterator[Processor]:
        """Iterate over all processors, including retiring ones, which still have connections."""
        yield from self.processors
        yield from self.retiring

    async def serve(self) -> None:
        """Run the processors until cancelled, or until `end` is called and the last one has ended."""
        logger.debug(f"Starting processors for listener {self.name}")
        async with trio.open_nursery() as nursery:
            self._nursery = Supervisor(nursery)
            for processor in self.processors:
                self._start(self._nursery, processor)
            await self._ended.wait()

    async def accept(self, ready: Callable[[str], Awaitable[None]]) -> None:
        """Accept, once the listener's authorizer is `ready`, until cancelled or `end` is called. Raises what
        `ready` raises, which stops the broker: a listener without a working authorizer must not serve.
        """
        try:
            with self._accepting:
                await ready(self.name)
                logger.debug(f"Starting acceptor thread for listener {self.name}")
                self.started.set()
                await self.acceptor.run(self.processors)
        finally:
            self.started.set()
            self.acceptor.close()

    def resize(self, count: int) -> None:
        """Set the number of processors. A removed processor takes no more connections, answers its requests
        in flight and closes its connections, within `drain_seconds`.
        """
        while len(self.processors) < count:
            processor = self._make_processor(self)
            self.processors.append(processor)
            if self._nursery is not None:
                self._start(self._nursery, processor)
        while len(self.processors) > count:
            self._retire(self.processors.pop())

    def close_port(self) -> None:
        """Accept no more connections."""
        self._accepting.cancel()
        self.acceptor.close()

    def end(self) -> None:
        """Close the port at once, and the connections as `resize` does. `serve` returns after the last."""
        self.close_port()
        self._ended.set()
        self.resize(0)

    def _start(self, nursery: TaskStarter, processor: Processor) -> None:
        self._scopes[processor] = scope = trio.CancelScope()
        nursery.start_soon(self._run, processor, scope, name=processor.name)

    async def _run(self, processor: Processor, scope: trio.CancelScope) -> None:
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    processor.start_expiry(Supervisor(nursery))
                    await processor.run()
        finally:
            del self._scopes[processor]
            self._forget(processor)

    def _retire(self, processor: Processor) -> None:
        if self._nursery is None:
            processor.close()
            self._forget(processor)
            return
        self.retiring.append(processor)
        self._nursery.start_soon(self._finish, processor, name=f"{processor.name}-retirement")

    async def _finish(self, processor: Processor) -> None:
        with trio.move_on_after(self.drain_seconds):
            await processor.drain()
        self._scopes[processor].cancel()

    def _forget(self, processor: Processor) -> None:
        if processor in self.retiring:
            self.retiring.remove(processor)
        self._forget_processor(processor)
