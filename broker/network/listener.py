"""One endpoint while it is served: its port, its processors, and how both come and go. (Kafka:
DataPlaneAcceptor)

Made by `socket_server` with the port bound and nothing running. Its processors live in a nursery of its own,
each in a scope of its own, so that any of them can go while the others serve.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator

import trio

from broker.config.listeners import Listener as Endpoint
from broker.network.acceptor.acceptor import Acceptor
from broker.network.handling.routes import Routes
from broker.network.processor import Processor
from broker.network.supervisor import Supervisor, TaskStarter
from broker.security.tls import Certificates

logger = logging.getLogger(__name__)


class Listener:
    """`processors` take new connections; the acceptor deals them out over this very list. Those in
    `retiring` only finish what they have, for `drain_seconds` at most. `started` is set once connections are
    accepted. `certificates` are those of a listener that speaks TLS.
    """

    def __init__(
        self,
        endpoint: Endpoint,
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
        """What its tasks' names have in common: listener and protocol."""
        return f"{self.name}-{self.protocol}"

    @property
    def acceptor_task(self) -> str:
        """The name of the task that accepts, that of Kafka's thread."""
        port = self.acceptor.address[1]
        return f"{self.endpoint.plane}-kafka-socket-acceptor-{self.task_label}-{port}"

    @property
    def ending(self) -> bool:
        """Whether it was removed, and only finishes what it has."""
        return self._ended.is_set()

    def all_processors(self) -> Iterator[Processor]:
        """Those that retire too, for they still have connections."""
        yield from self.processors
        yield from self.retiring

    async def serve(self) -> None:
        """Runs the processors until cancelled, or until `end` has let the last connection go."""
        logger.debug(f"Starting processors for listener {self.name}")
        async with trio.open_nursery() as nursery:
            self._nursery = Supervisor(nursery)
            for processor in self.processors:
                self._start(self._nursery, processor)
            await self._ended.wait()

    async def accept(self, ready: Callable[[str], Awaitable[None]]) -> None:
        """Accepts from when its authorizer is `ready`; until cancelled, or `end`. What `ready` raises goes on
        to whoever runs the broker: a listener that cannot tell who may do what must not serve.
        """
        try:
            with self._accepting:
                await ready(self.name)
                logger.debug(f"Starting acceptor thread for listener {self.name}")
                self.started.set()
                await self.acceptor.run(self.processors)
        finally:
            self.acceptor.close()

    def resize(self, count: int) -> None:
        """Makes it `count` processors. Those that go take no more connections, answer what they have in hand
        and close their connections, within the drain's time.
        """
        while len(self.processors) < count:
            processor = self._make_processor(self)
            self.processors.append(processor)
            if self._nursery is not None:
                self._start(self._nursery, processor)
        while len(self.processors) > count:
            self._retire(self.processors.pop())

    def end(self) -> None:
        """Closes the port at once, and the connections as `resize` does. `serve` returns after the last."""
        self._accepting.cancel()
        self.acceptor.close()
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
