"""Clients that send one small Produce after the other, what was acknowledged to them, and their waits.

Used by tests/endtoend beside faults of which these clients must notice nothing: each has one connection,
which must not close.
"""

import threading
import time
from types import TracebackType
from typing import Final, Self

import trio

from tests.support.broker_process import within
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.wire import WireClient

PAUSE_S: Final = 0.002
ENDED_WITHIN_S: Final = 60.0

P99_MS: Final = 50.0
"""The goal, of clients whose upstream broker is healthy."""


class SmallRequests:
    """`waits_ms` has the waits, `acknowledged` offsets and values, `failures` what ended a client."""

    def __init__(self, address: str, topic: str, partition: int = 0, *, clients: int = 4) -> None:
        """`address` is the leader's; `topic` exists."""
        self.topic = topic
        self.partition = partition
        self.waits_ms: list[float] = []
        self.acknowledged: list[tuple[int, bytes]] = []
        self.failures: list[BaseException | int] = []
        self._address = address
        self._clients = clients
        self._numbers = iter(range(1 << 60))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_more(self._clients * 5)
        self.waits_ms.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(ENDED_WITHIN_S)

    @property
    def p99_ms(self) -> float:
        return sorted(self.waits_ms)[len(self.waits_ms) * 99 // 100]

    def wait_for_more(self, count: int) -> None:
        """Return when so many more requests have been answered."""
        wanted = len(self.acknowledged) + count
        within(30, lambda: len(self.acknowledged) >= wanted, f"{count} more answers")

    def check(self, stored: dict[tuple[int, int], bytes], *, disturbed: int = 0) -> None:
        """Fails if another number of clients was disturbed, or if something acknowledged is not stored:
        `stored` has values by partition and offset.
        """
        assert not self._thread.is_alive()
        assert len(self.failures) == disturbed, self.failures
        lost = [each for each in self.acknowledged if stored.get((self.partition, each[0])) != each[1]]
        assert lost == [], f"{len(lost)} of {len(self.acknowledged)} are not where they were acknowledged"

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(self._clients):
                nursery.start_soon(self._client)

    async def _client(self) -> None:
        try:
            host, _, port = self._address.rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                client = WireClient(stream, "small")
                while not self._stopped.is_set():
                    await self._ask(client)
                    await trio.sleep(PAUSE_S)
        except (OSError, EOFError, trio.BrokenResourceError) as error:
            self.failures.append(error)

    async def _ask(self, client: WireClient) -> None:
        value = b"small %d" % next(self._numbers)
        # Of now: the retention of an old record deletes it, half a minute after the start of its broker.
        batch = batch_of(value, timestamp=int(time.time() * 1_000))
        request = produce_request(batch, self.topic, self.partition)
        began = time.perf_counter()
        answer = await client.ask(request, PRODUCE_VERSION)
        self.waits_ms.append((time.perf_counter() - began) * 1_000)
        (partition,) = answer.responses[0].partition_responses
        if partition.error_code:
            self.failures.append(int(partition.error_code))
        else:
            self.acknowledged.append((partition.base_offset, value))
