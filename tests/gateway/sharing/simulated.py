"""Gateways with real quotas, their clients, and the log between them, on a simulated clock of milliseconds.

Each gateway has the quota managers of a real one, mutes its clients as the network does, and writes and reads
reports through a log that can be slow, lose what is written, or be out of reach.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

from broker.common.clock import BASE_MS
from broker.common.slices import run_through
from broker.gateway.sharing.member import LEASE_MS, SharingMember
from broker.gateway.sharing.report import LimitKey, Report, read_report, write_report
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.quotas.scene import Connection

ROUND_MS = 1_000
POLL_MS = 20


def produce(user: str) -> LimitKey:
    return LimitKey(QuotaKind.PRODUCE, user, None)


class SimulatedClient:
    """Sends requests of `size` bytes: the next one `think_ms` after the response, or `rate` of them a second,
    whichever were delayed at once when it can. Paused while `gateway` is None.
    """

    def __init__(self, user: str, size: int, think_ms: float = 1.0, rate: float | None = None) -> None:
        self.connection = Connection(principal=user, client_id="app")
        self.user = user
        self.size = size
        self.think_ms = think_ms
        self.rate = rate
        self.gateway: SimulatedGateway | None = None
        self.due_ms = 0.0
        self.turn = 0


class SimulatedGateway:
    """`delay_ms` is the time until it reads what was written, `loses` says whether a report is lost."""

    def __init__(self, name: str, phase_ms: int) -> None:
        self.name = name
        self.quotas = ClientQuotas(shared=True)
        self.member = SharingMember(name, self.quotas)
        self.phase_ms = phase_ms
        self.read = 0
        self.polls: dict[int, int] = {}
        self.noted: dict[LimitKey, int] = {}
        self.delay_ms: Callable[[], int] = lambda: 5
        self.loses: Callable[[], bool] = lambda: False
        self.is_cut_off = False
        self.is_dead = False
        self.wakes_ms: int | None = None


class SimulatedCluster:
    """`passed` counts the bytes by user and second; `highest` has the largest sum of shares in force by key
    since it was last cleared.
    """

    def __init__(self, limits: dict[str, float]) -> None:
        self.now_ms = 0
        self.limits = limits
        self.log: list[Report] = []
        self.gateways: list[SimulatedGateway] = []
        self.passed: Counter[tuple[str, int]] = Counter()
        self.passed_at: Counter[tuple[str, str, int]] = Counter()
        self.highest: Counter[LimitKey] = Counter()
        self.requests = 0
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._in_force: Counter[LimitKey] = Counter()

    def add_gateway(self, phase_ms: int | None = None) -> SimulatedGateway:
        number = len(self.gateways)
        gateway = SimulatedGateway(f"g{number:02}", number * 137 % ROUND_MS if phase_ms is None else phase_ms)
        for user, limit in self.limits.items():
            gateway.quotas.apply(Entity(user), "producer_byte_rate", limit)
        self.gateways.append(gateway)
        self._at(self.now_ms + gateway.phase_ms, lambda: self._report(gateway))
        return gateway

    def connect(self, client: SimulatedClient, gateway: SimulatedGateway | None, after_ms: float = 0) -> None:
        """Move a client to another gateway, or stop it."""
        if client.gateway is not None:
            client.gateway.quotas.forget(client.connection)
        client.gateway = gateway
        client.turn += 1
        if gateway is not None:
            client.due_ms = self.now_ms + after_ms
            self._send_at(client.due_ms, client)

    def die(self, gateway: SimulatedGateway) -> None:
        """Stop a gateway without a farewell."""
        gateway.is_dead = True
        self._note(gateway, {})

    def cut_off(self, gateway: SimulatedGateway) -> None:
        gateway.is_cut_off = True

    def restore(self, gateway: SimulatedGateway) -> None:
        gateway.is_cut_off = False
        self._read_soon(gateway)

    def leave(self, gateway: SimulatedGateway) -> None:
        self._append(gateway, gateway.member.farewell())
        self.die(gateway)

    def run(self, seconds: float) -> None:
        until = self.now_ms + seconds * 1_000
        while self._events and self._events[0][0] < until:
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = int(at_ms)
            action()
        self.now_ms = int(until)

    def rate(self, user: str, begin_s: int, end_s: int) -> float:
        """Return the bytes per second that passed in these whole seconds, as a part of the limit."""
        return (
            sum(self.passed[user, second] for second in range(begin_s, end_s))
            / (end_s - begin_s)
            / self.limits[user]
        )

    def rates(self, user: str, begin_s: int, end_s: int) -> Iterator[float]:
        return (self.rate(user, second, second + 1) for second in range(begin_s, end_s))

    def share(self, gateway: SimulatedGateway, user: str) -> int | None:
        return gateway.member.shares.get(produce(user))

    def shares(self, user: str) -> list[int]:
        return [self.share(each, user) or 0 for each in self.gateways if not each.is_dead]

    def _at(self, at_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(at_ms, self.now_ms), next(self._order), action))

    def _send_at(self, at_ms: float, client: SimulatedClient) -> None:
        turn = client.turn
        self._at(at_ms, lambda: self._send(client) if client.turn == turn else None)

    def _send(self, client: SimulatedClient) -> None:
        gateway = client.gateway
        assert gateway is not None
        if gateway.is_dead:
            return
        now_ms = BASE_MS + self.now_ms
        self.requests += 1
        self.passed[client.user, self.now_ms // 1_000] += client.size
        self.passed_at[gateway.name, client.user, self.now_ms // 1_000] += client.size
        throttle = gateway.quotas.record_produce(client.user, "app", client.size, now_ms)
        if client.rate is not None:
            client.due_ms += 1_000 / client.rate
        if throttle is None:
            self._continue(client)
        else:
            gateway.quotas.throttle(client.connection, (client, client.turn), throttle, now_ms)
            self._wake(gateway)

    def _continue(self, client: SimulatedClient) -> None:
        if client.rate is None:
            client.due_ms = self.now_ms + client.think_ms
        self._send_at(max(client.due_ms, self.now_ms + 0.1), client)

    def _wake(self, gateway: SimulatedGateway) -> None:
        """See to it that throttles end in time."""
        deadline = gateway.quotas.produce.throttled.next_deadline()
        if deadline is None:
            return
        at_ms = max(deadline - BASE_MS, self.now_ms)
        if gateway.wakes_ms is None or at_ms < gateway.wakes_ms:
            gateway.wakes_ms = at_ms
            self._at(at_ms, lambda: self._unmute(gateway, at_ms))

    def _unmute(self, gateway: SimulatedGateway, at_ms: int) -> None:
        if gateway.wakes_ms != at_ms:
            return
        gateway.wakes_ms = None
        for token in gateway.quotas.produce.throttled.expired(BASE_MS + self.now_ms):
            client, turn = token
            if client.turn == turn and not gateway.is_dead:
                self._continue(client)
        self._wake(gateway)

    def _report(self, gateway: SimulatedGateway) -> None:
        if gateway.is_dead:
            return
        report = run_through(gateway.member.report(BASE_MS + self.now_ms))
        self._after_change(gateway)
        self._append(gateway, report)
        self._at(self.now_ms + ROUND_MS, lambda: self._report(gateway))

    def _append(self, gateway: SimulatedGateway, report: Report) -> None:
        if gateway.is_cut_off or gateway.loses():
            return
        self.log.append(run_through(read_report(run_through(write_report(report)))))
        self._at(self.now_ms + LEASE_MS, lambda: self._expire(gateway))
        for each in self.gateways:
            if not each.is_dead:
                self._read_soon(each)

    def _expire(self, gateway: SimulatedGateway) -> None:
        if not gateway.is_dead:
            run_through(gateway.member.enforce(BASE_MS + self.now_ms))
            self._after_change(gateway)

    def _read_soon(self, gateway: SimulatedGateway) -> None:
        """Let the gateway read what the log has now, after its delay, at the next of its polls."""
        at_ms = -(-(self.now_ms + gateway.delay_ms()) // POLL_MS) * POLL_MS
        is_new = at_ms not in gateway.polls
        gateway.polls[at_ms] = len(self.log)
        if is_new:
            self._at(at_ms, lambda: self._read(gateway, gateway.polls.pop(at_ms)))

    def _read(self, gateway: SimulatedGateway, end: int) -> None:
        if gateway.is_cut_off or gateway.is_dead:
            return
        for report in self.log[gateway.read : end]:
            run_through(gateway.member.receive(report))
        gateway.read = max(gateway.read, end)
        run_through(gateway.member.enforce(BASE_MS + self.now_ms))
        self._after_change(gateway)

    def _after_change(self, gateway: SimulatedGateway) -> None:
        self._wake(gateway)
        self._note(gateway, gateway.member.shares)

    def _note(self, gateway: SimulatedGateway, shares: dict[LimitKey, int]) -> None:
        before = gateway.noted
        for key in before.keys() | shares.keys():
            change = shares.get(key, 0) - before.get(key, 0)
            if change:
                self._in_force[key] += change
                if self._in_force[key] > self.highest[key]:
                    self.highest[key] = self._in_force[key]
        gateway.noted = dict(shares)
