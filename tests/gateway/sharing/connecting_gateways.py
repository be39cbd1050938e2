"""Gateways that share limits on connections, with clients that connect, on a mock clock with a topic in
memory.

Each gateway has real quotas and the task of a real one. What a client does is what the acceptor does for it.
"""

from collections import Counter

import trio

from broker.gateway.sharing.connections import SharedConnections
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.report import Line
from broker.gateway.sharing.signing import Records
from broker.gateway.sharing.task import SharingTask
from broker.metrics.rate import Window
from broker.network.clock import TrioClock
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connections import ConnectionQuotas, Limits, Throttled, UserLimit
from broker.quotas.entity import Entity
from broker.quotas.shared_connections import ConnectionKey
from tests.quotas.scene import Connection
from tests.support.connecting import connect_from
from tests.support.memory_log import MemoryLog, MemoryTopic

ADDRESS = "10.0.0.7"
SETTLED_S = 3.5
"""After this, gateways that start together know each other."""


class Gateway:
    """One gateway. `pokes` counts the times that waiting acceptors look again."""

    def __init__(self, name: str, topic: MemoryTopic) -> None:
        self.clock = TrioClock()
        self.quotas = ConnectionQuotas(Window(11, 1_000), paced=True, shared=True)
        self.listener = self.quotas.add_listener("PLAINTEXT")
        self.pokes = 0
        self.connections = SharedConnections(self.quotas, self._poke)
        self.clients = ClientQuotas(shared=True)
        self.member = SharingMember(name, self.clients, self.connections)
        self.log = MemoryLog(topic, append_s=0.01, read_s=0.005)
        self.task = SharingTask(self.member, self.log, self.clock, Records())
        self.announced = self.task.announced
        self.scope = trio.CancelScope()
        self.accepted: Counter[int] = Counter()
        """Connections, or requests, by the second in which they were accepted."""

    def _poke(self) -> None:
        self.pokes += 1

    async def run(self) -> None:
        with self.scope:
            await self.task.run()

    def die(self) -> None:
        """Stop without a farewell: its connections are closed, and nothing of it is written any more."""
        self.log.is_away = True
        self.scope.cancel()
        self.quotas.counts.clear()
        self.quotas.users.counts.clear()

    def connect(self, count: int = 1, address: str = ADDRESS) -> int:
        """Connect so many times from an address. Return how many were accepted."""
        refusals = [connect_from(self.quotas, self.listener, address, self.clock.ms()) for _ in range(count)]
        return refusals.count(None)

    def close(self, count: int = 1, address: str = ADDRESS) -> None:
        for _ in range(count):
            self.quotas.release("PLAINTEXT", address)

    def log_in(self, count: int = 1, user: str = "alice") -> int:
        """Log in so many times. Return how many were accepted."""
        return [self.quotas.users.enter(user, self.clock.ms()) for _ in range(count)].count(None)

    def opened(self, address: str = ADDRESS) -> int:
        return self.quotas.counts.get(address, 0)

    def line(self, limit: str, name: str) -> Line | None:
        """Return this gateway's last line of a limit, as this gateway knows it."""
        division = self.member.table.divisions.get(ConnectionKey(limit, name))
        return None if division is None else division.lines.get(self.member.gateway)

    async def keep_connecting(self, every_s: float, address: str = ADDRESS) -> None:
        """Connect from an address for ever, and once more after the delay of its rate, as in KIP-612."""
        while True:
            verdict = self.quotas.check_address(self.listener, address, self.clock.ms())
            if isinstance(verdict, Throttled):
                await trio.sleep(verdict.throttle_ms / 1_000)
                verdict = self.quotas.check_address(self.listener, address, self.clock.ms())
            if verdict is None:
                self.accepted[int(trio.current_time())] += 1
            await trio.sleep(every_s)

    async def keep_logging_in(self, every_s: float, user: str = "alice") -> None:
        """Log in for ever, each time after the one before it has closed."""
        while True:
            if self.quotas.users.enter(user, self.clock.ms()) is None:
                self.accepted[int(trio.current_time())] += 1
                self.quotas.users.release(user)
            await trio.sleep(every_s)

    async def keep_accepting(self) -> None:
        """Accept connections that are always there, each in its turn."""
        while True:
            until_ms = self.clock.ms() + self.quotas.record(self.listener, self.clock.ms())
            while (now_ms := self.clock.ms()) < until_ms:
                left_ms = self.quotas.left_ms(self.listener, now_ms)
                assert left_ms is not None
                if left_ms <= 0:
                    break
                await trio.sleep(min(until_ms - now_ms, left_ms, 50) / 1_000)
            self.accepted[int(trio.current_time())] += 1
            await trio.lowlevel.checkpoint()

    async def keep_asking(self, ns: int) -> None:
        """Send requests of alice that take so long, each after the response to the one before it."""
        connection = Connection(principal="alice", client_id="app")
        throttled = self.clients.request.throttled
        while True:
            throttle = self.clients.request.record_handled("alice", "app", ns, self.clock.ms())
            self.accepted[int(trio.current_time())] += 1
            if throttle is not None:
                self.clients.throttle(connection, connection, throttle, self.clock.ms())
                while connection in [each.channel for each in throttled.all()]:
                    await trio.sleep(0.05)
                    throttled.expired(self.clock.ms())
            await trio.sleep(ns / 1e9)

    def rate(self, begin_s: int, end_s: int) -> float:
        """Return the connections per second accepted in these whole seconds."""
        return sum(self.accepted[second] for second in range(begin_s, end_s)) / (end_s - begin_s)


class Gateways:
    """Gateways of one cluster with the same limits."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.topic = MemoryTopic()
        self.per_ip = 2**31 - 1
        self.overrides: dict[str, int] = {}
        self.users = UserLimit()
        self.user_rate = UserLimit()
        self.ip_rate: float | None = None
        self.limits = Limits()
        self.percent: float | None = None
        self._nursery = nursery

    def start(self, name: str) -> Gateway:
        gateway = Gateway(name, self.topic)
        quotas = gateway.quotas
        quotas.per_ip.maximum = self.per_ip
        quotas.set_per_ip_overrides(self.overrides)
        quotas.users.set_limits(self.users, self.user_rate)
        quotas.set_broker_limits(self.limits)
        if self.ip_rate is not None:
            quotas.set_ip_rate(ADDRESS, self.ip_rate)
        if self.percent is not None:
            gateway.clients.apply(Entity("alice"), "request_percentage", self.percent, gateway.clock.ms())
        self._nursery.start_soon(gateway.run)
        return gateway

    async def started(self, count: int) -> list[Gateway]:
        """Start gateways, and wait until they know each other."""
        found = []
        for number in range(count):
            found.append(self.start(f"g{number}"))
            await trio.sleep(0.3)
        await trio.sleep(SETTLED_S)
        return found
