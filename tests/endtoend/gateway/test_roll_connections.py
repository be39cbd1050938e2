"""Many connections while a gateway that serves them stops and another one is there: they end between two
requests, evenly over gateway.drain.timeout.ms, and requests on those that are busy take little longer.

`WEIR_ROLLED` sets the number of connections: 5,000 need 11,000 open files and a core of their own for each
gateway, and a longer drain.
"""

import os
import resource
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

import pytest
import trio

from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.endtoend.gateway.test_many_connections import open_files
from tests.support import kafka_tools
from tests.support.certificates import certificates
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.wire import WireClient, connect, connect_tls

CONNECTIONS: Final = int(os.environ.get("WEIR_ROLLED", "600"))
ACTIVE: Final = 20
DRAIN_S: Final = 20 if CONNECTIONS <= 1_000 else 45
ASKS_EVERY_S: Final = 0.1
BEFORE_S: Final = 8.0
AT_ONCE: Final = 50
METADATA_VERSION: Final = 9

pytestmark = [
    *kafka_tools.pytestmark,
    pytest.mark.skipif(
        resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * CONNECTIONS + 1_000,
        reason="needs two open files for each connection",
    ),
]


@dataclass
class Seen:
    """What the clients saw: when idle ones were let go, how long requests took, and those without a
    response.
    """

    ended: list[float] = field(default_factory=list)
    resets: int = 0
    latencies: list[float] = field(default_factory=list)
    unanswered: int = 0
    moved: int = 0


def p99(latencies: list[float]) -> float:
    return sorted(latencies)[len(latencies) * 99 // 100]


class Rolled:
    """Clients of the first gateway that go to the second one when they are let go."""

    def __init__(self, gateways: list[GatewayProcess]) -> None:
        self.seen = Seen()
        self._context = certificates().client_context() if gateways[0].listener == "SSL" else None
        self._ports = [int(each.bootstrap.rpartition(":")[2]) for each in gateways]
        self._slots = trio.CapacityLimiter(AT_ONCE)
        self.connected = 0
        self.all_connected = trio.Event()
        self.all_moved = trio.Event()

    async def idle(self) -> None:
        client = await self._connected(0)
        try:
            assert await client.stream.receive_some(1) == b""
        except trio.BrokenResourceError:
            self.seen.resets += 1
        self.seen.ended.append(time.monotonic())
        await trio.aclose_forcefully(client.stream)
        await self._connected(1)
        self.seen.moved += 1
        if self.seen.moved == CONNECTIONS:
            self.all_moved.set()

    async def active(self) -> None:
        """Ask again and again, on another connection after one has ended."""
        client = await self._connected(0)
        while True:
            began = time.monotonic()
            try:
                await self._ask(client)
                self.seen.latencies.append(time.monotonic() - began)
            except (EOFError, trio.BrokenResourceError):
                self.seen.unanswered += 1
                client = await self._again(client)
                continue
            with trio.move_on_after(ASKS_EVERY_S) as pause:
                with suppress(trio.BrokenResourceError):
                    assert await client.stream.receive_some(1) == b""
            if not pause.cancelled_caught:
                client = await self._again(client)

    async def _again(self, client: WireClient) -> WireClient:
        await trio.aclose_forcefully(client.stream)
        return await self._connected(1)

    async def _connected(self, at: int) -> WireClient:
        async with self._slots:
            port = self._ports[at]
            client = await (connect_tls(port, self._context) if self._context else connect(port))
            await self._ask(client)
        self.connected += 1
        if self.connected == CONNECTIONS:
            self.all_connected.set()
        return client

    @staticmethod
    async def _ask(client: WireClient) -> None:
        await client.ask(
            MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")], False), METADATA_VERSION
        )


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
async def test_connections_move_evenly_and_between_two_requests(
    cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory, listener: str
) -> None:
    with open_files(CONNECTIONS + 2_000), ExitStack() as stack:
        gateways = []
        for number in (1, 2):
            settings = [
                "quota.scope=cluster",
                f"node.id={number}",
                f"gateway.drain.timeout.ms={DRAIN_S * 1_000}",
            ]
            if listener == "SSL":
                settings.append(f"ssl.keystore.location={certificates().server.store}")
            process = GatewayProcess(
                tmp_path_factory.mktemp("gateway"),
                cluster.bootstrap(),
                *settings,
                listener=listener,
                nodes=cluster.count,
            )
            gateways.append(stack.enter_context(process))
        rolled = Rolled(gateways)
        seen = rolled.seen
        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS):
                nursery.start_soon(rolled.idle)
            with trio.fail_after(300):
                await rolled.all_connected.wait()
            for _ in range(ACTIVE):
                nursery.start_soon(rolled.active)
            await trio.sleep(2)
            seen.latencies.clear()
            await trio.sleep(BEFORE_S)
            before, seen.latencies = seen.latencies, []
            began = time.monotonic()
            status = await trio.to_thread.run_sync(gateways[0].stop)
            took = time.monotonic() - began
            during = list(seen.latencies)
            with trio.fail_after(60):
                await rolled.all_moved.wait()
            nursery.cancel_scope.cancel()
        a_second = Counter(int(each - began) for each in seen.ended)
        rate = CONNECTIONS / DRAIN_S
        print(
            f"{listener}: {CONNECTIONS} idle and {ACTIVE} active connections, {took:.1f} s; ended a second: "
            f"{sorted(a_second.items())}; resets {seen.resets}, unanswered {seen.unanswered}; "
            f"p99 before {p99(before) * 1e3:.1f} ms, during {p99(during) * 1e3:.1f} ms"
        )
        assert status == 0
        assert seen.resets == 0
        assert len(seen.ended) == CONNECTIONS
        # A little more in the second after one in which the machine was busy with something else.
        assert max(a_second.values()) < 2 * rate
        assert took < DRAIN_S + 4
        # A request that is sent while its connection closes has no response, and was not forwarded.
        assert seen.unanswered < ACTIVE / 2
