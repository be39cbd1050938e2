"""Applies the connection quotas to accepted connections: admits, delays, throttles or refuses them. (Kafka:
the waiting half of ConnectionQuotas, Acceptor.accept, throttledSockets, AcceptorBlockedPercent)

A socket server has one `ConnectionGate`, an acceptor one `ListenerGate`. A wait for a slot ends when a
connection is released, a limit rises, or a listener is added or removed; a wait for a rate keeps its initial
length. An address is checked before its connection can make the listener wait, so one that exceeds its own
limits blocks no acceptor: its connection is closed or becomes a throttled socket. Throttled sockets are
ordered by the end of their wait, earliest first; Kafka's heap has the latest first, so that a short wait
lasts as long as the longest there.

Behind a balancer, the address is that of the PROXY header, which the accepting loop does not wait for: such a
connection enters without an address, waits for a slot and the rates of listener and broker, and is checked
again when its header names its client.

`ExcessConnections` closes connections beyond `max.connections`: first those whose peer is gone and whose
requests are still served, then the least recently used. (Kafka: Processor.closeExcessConnections,
Selector.lowestPriorityChannel) One task serves all processors of a socket server. It sleeps until the gate
reports an excess, so it costs requests nothing; it never closes a connection of the protected listener.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from heapq import heappop, heappush, nsmallest
from operator import itemgetter
from types import TracebackType
from typing import Final, Self

import msgspec
import trio

from broker.common.clock import Clock
from broker.common.proxy_headers import ProxyHeaders
from broker.common.proxy_protocol import HeaderRefusal
from broker.config.listeners import Address
from broker.config.sections import ConnectionConfig
from broker.metrics.rate import Rate, Window
from broker.network.acceptor.override_hosts import OverrideHosts
from broker.network.clock import TrioClock
from broker.network.connection.channel import Channel
from broker.network.failures import FailedStep, Failures
from broker.network.observers import ConnectionObservers
from broker.network.processor import Accepted
from broker.network.reaper import Reaper
from broker.network.selector import UNWATCHED, Selector
from broker.network.supervisor import Supervisor
from broker.quotas.connections import (
    BURST_MS,
    IP_RATE,
    PER_IP,
    PER_USER,
    PROXY_HEADER,
    SLOTS,
    USER_RATE,
    ConnectionQuotas,
    Limits,
    ListenerQuota,
    Refusal,
    Rejections,
    Throttled,
    TooMany,
    UserLimit,
)
from broker.quotas.unauthenticated import BYTE_RATE, FRAME_RATE, UnauthenticatedLimits, UnauthenticatedQuotas
from broker.quotas.unauthenticated import CONNECTIONS as UNAUTHENTICATED

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.3
"""Pause before the next attempt while excess connections have not reached a processor. (Kafka's poll timeout)
"""


class ExcessConnections:
    """`selectors` returns (listener name, selector) pairs."""

    def __init__(
        self, quotas: ConnectionQuotas, selectors: Callable[[], Iterable[tuple[str, Selector]]]
    ) -> None:
        self._quotas = quotas
        self._selectors = selectors
        self._wake = trio.Event()

    def poke(self) -> None:
        """Check for an excess."""
        self._wake.set()

    async def run(self) -> None:
        """Close excess connections until cancelled, one per turn so that others are served in between."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while excess := self._quotas.excess:
                for selector, channel in self._lowest_priority(excess):
                    if not self._quotas.excess:
                        break
                    reason = "closing" if is_closing(channel) else "least recently used"
                    selector.close_channel(channel, f"{reason}, beyond max.connections", logging.INFO)
                    await trio.lowlevel.checkpoint()
                if self._quotas.excess:
                    await trio.sleep(RETRY_SECONDS)

    def _lowest_priority(self, count: int) -> list[tuple[Selector, Channel]]:
        open_channels = (
            (selector, channel)
            for listener, selector in self._selectors()
            if not self._quotas.is_protected(listener)
            for channel in selector
        )
        return nsmallest(count, open_channels, key=lambda pair: _priority(pair[1]))


def is_closing(channel: Channel) -> bool:
    """Return whether the peer is gone and received requests are still served. (Kafka: closingChannels)"""
    return channel.interest == UNWATCHED


def _priority(channel: Channel) -> tuple[bool, int, int]:
    """Sort key: among connections that were active in the same millisecond, one that waits for a response
    closes last.
    """
    return not is_closing(channel), channel.last_active_ms, channel.requests_in_flight


LEAST_NS: Final = 1_000_000
"""Shorter times accumulate until they reach this: in a storm every other hand-off waits a few microseconds.
"""


class BlockedTime:
    """A reentrant context manager around every such wait. Readings include a wait in progress."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rate = Rate(Window(), unit_ms=1.0)
        self._total_ns = 0
        self._metered_ns = 0
        self._depth = 0
        self._since = 0

    def __enter__(self) -> Self:
        if not self._depth:
            self._since = self._clock.ns()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._update()
        self._depth -= 1

    def total_ns(self) -> int:
        """Return the total since the start."""
        self._update()
        return self._total_ns

    def share(self) -> float:
        """Return the blocked share of about the last minute, from 0 to 1."""
        self._update()
        return min(self._rate.measure(self._clock.ms()), 1.0)

    def _update(self) -> None:
        if self._depth:
            now = self._clock.ns()
            self._total_ns += now - self._since
            self._since = now
            unmetered = self._total_ns - self._metered_ns
            if unmetered >= LEAST_NS:
                self._rate.record(unmetered / 1e6, self._clock.ms())
                self._metered_ns = self._total_ns


class ThrottledSocket(msgspec.Struct, frozen=True):
    """`sock` is accepted but not read for `throttle_ms`. `bound` is the rate that its address exceeded. For
    `proxy` see `Accepted`.
    """

    sock: socket.socket
    peer: tuple[str, int]
    end_ms: int
    bound: float
    throttle_ms: int
    proxy: str = ""


class ThrottledSockets:
    """A heap of throttled sockets. The caller that pops one must close or serve it."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ThrottledSocket]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[ThrottledSocket]:
        """Iterate over the sockets, those whose wait ends last at the end."""
        return (throttled for *_, throttled in sorted(self._heap, key=itemgetter(0, 1)))

    def add(self, throttled: ThrottledSocket, most: int) -> list[ThrottledSocket]:
        """Add a socket. Returns the earliest ones, removed so that at most `most` remain."""
        heappush(self._heap, (throttled.end_ms, self._next, throttled))
        self._next += 1
        return [heappop(self._heap)[2] for _ in range(len(self._heap) - most)]

    def next_deadline(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> ThrottledSocket | None:
        """Return the earliest socket whose wait is over, or None."""
        if self._heap and self._heap[0][0] <= now_ms:
            return heappop(self._heap)[2]
        return None

    def close(self) -> None:
        """Close all sockets."""
        while self._heap:
            heappop(self._heap)[2].sock.close()


HEADER_REASONS: Final = {
    HeaderRefusal.UNTRUSTED: "which is not in proxy.protocol.trusted.addresses",
    HeaderRefusal.MISSING: "which sent no PROXY header",
    HeaderRefusal.MALFORMED: "whose PROXY header is malformed",
    HeaderRefusal.TOO_LONG: "whose PROXY header is too long",
    HeaderRefusal.CHECKSUM: "whose PROXY header has a wrong checksum",
    HeaderRefusal.CUT: "which ended within its PROXY header",
    HeaderRefusal.TIMEOUT: "whose PROXY header was not complete in time",
    HeaderRefusal.TOO_MANY: "whose PROXY header was outstanding while too many others were",
}

REASONS: Final = {
    **{f"{PROXY_HEADER}.{refusal}": reason for refusal, reason in HEADER_REASONS.items()},
    PER_IP: "address already has the configured maximum of {:.0f} connections",
    SLOTS: "the broker or the listener already has the configured maximum of {:.0f} connections",
    IP_RATE: "address makes more than the configured maximum of {:.15g} connections per second",
    PER_USER: "which already has the configured maximum of {:.0f} connections",
    USER_RATE: "which makes more than the configured maximum of {:.15g} connections per second",
    UNAUTHENTICATED: "address already has the configured maximum of {:.0f} connections without a login",
    BYTE_RATE: "address sends more than the configured maximum of {:.0f} bytes per second before a login",
    FRAME_RATE: "address sends more than the configured maximum of {:.0f} requests per second before a login",
}


class ConnectionGate:
    """State that all listeners of a socket server share: the quotas, the waiting acceptors, and the log of
    refusals. `task_name_prefix` prefixes the names of its tasks.
    """

    def __init__(
        self,
        quotas: ConnectionQuotas,
        clock: TrioClock,
        selectors: Callable[[], Iterable[tuple[str, Selector]]],
        observers: ConnectionObservers,
        failures: Failures,
        task_name_prefix: str = "",
    ) -> None:
        self.quotas = quotas
        self.unauthenticated = UnauthenticatedQuotas()
        self.failures = failures
        self.clock = clock
        self.observers = observers
        self.rechecks = True
        """ip.throttle.mode=kip: check a throttled socket again after its wait instead of closing it."""
        self.max_throttled = 0
        """max.throttled.connections"""
        self.excess = ExcessConnections(quotas, selectors)
        self._config = ConnectionConfig()
        self._hosts = OverrideHosts(quotas.set_per_ip_overrides, quotas.counted)
        self._waiting = trio.lowlevel.ParkingLot()
        self._rejections = Rejections()
        self._task = f"{task_name_prefix}connection-quota"
        self._rejection_reaper = Reaper(
            f"{self._task}-rejections", self._rejections.next_deadline, self._log_rejections, clock
        )

    def add_listener(self, name: str, proxy_headers: ProxyHeaders | None = None) -> "ListenerGate":
        """Create the gate of a listener and apply the current limits."""
        quota = self.quotas.add_listener(name)
        self._apply_limits()
        return ListenerGate(self, quota, proxy_headers)

    def remove_listener(self, name: str) -> None:
        """Remove a listener whose acceptor has stopped, which may change the limits of the others."""
        self.quotas.remove_listener(name)
        self._apply_limits()

    def configure(self, config: ConnectionConfig) -> None:
        """Apply the limits immediately; `run` resolves host names later."""
        self._config = config
        self.rechecks = config.ip_throttle_mode == "kip"
        self.max_throttled = config.max_throttled_connections
        self.quotas.per_ip.maximum = config.max_connections_per_ip
        self._hosts.set_overrides(config.max_connections_per_ip_overrides)
        self.quotas.users.set_limits(
            UserLimit(config.max_connections_per_user, dict(config.max_connections_per_user_overrides)),
            UserLimit(config.max_creation_rate_per_user, dict(config.max_creation_rate_per_user_overrides)),
        )
        self.unauthenticated.limits = UnauthenticatedLimits(
            config.max_unauthenticated_connections_per_ip,
            config.max_unauthenticated_byte_rate_per_ip,
            config.max_unauthenticated_frame_rate_per_ip,
        )
        self._apply_limits()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the gate's tasks. Reports started once the hosts of the overrides are resolved."""
        async with trio.open_nursery() as nursery:
            tasks = Supervisor(nursery)
            await tasks.start(self._hosts.run, name=f"{self._task}-hosts")
            tasks.start_soon(self._rejection_reaper.run, name=self._rejection_reaper.name)
            tasks.start_soon(self.excess.run, name=f"{self._task}-excess")
            task_status.started()

    async def wait(self, listener: ListenerQuota, until_ms: int) -> None:
        """Wait until `until_ms`, and until a slot is free; shorter if the share of a rate has grown.
        (waitForConnectionSlot)
        """
        while True:
            now_ms = self.clock.ms()
            remaining_ms = until_ms - now_ms
            if remaining_ms > 0 and (left_ms := self.quotas.left_ms(listener, now_ms)) is not None:
                remaining_ms = min(remaining_ms, left_ms)
            if remaining_ms <= 0 and self.quotas.has_slot(listener):
                return
            with trio.move_on_after(remaining_ms / 1000 if remaining_ms > 0 else float("inf")):
                await self._waiting.park()

    def release(self, listener: str, address: str | None) -> None:
        """Release an admitted connection that has closed; None: it counts for no address."""
        self.quotas.release(listener, address)
        self.poke()

    def poke(self) -> None:
        """Let the waiting acceptors check whether a slot is free."""
        if self._waiting:
            self._waiting.unpark_all()

    def reject(
        self,
        listener: ListenerQuota,
        address: str,
        rule: str,
        bound: float,
        *,
        reported_as: str | None = None,
    ) -> None:
        """Count a refusal and log it with its burst, under this address or under `reported_as`."""
        now_ms = self.clock.ms()
        self.quotas.reject(listener, address, rule, now_ms)
        for observer in self.observers:
            observer.refused(listener.name, address, rule, bound)
        self._rejections.note(listener.name, reported_as or self.quotas.counted(address), rule, bound, now_ms)
        self._rejection_reaper.wake_by(now_ms + BURST_MS)

    def reject_on(self, listener: str, address: str, rule: str, bound: float) -> None:
        """Count a refusal by the name of a listener, which may have been removed."""
        quota = self.quotas.listeners.get(listener)
        if quota is not None:
            self.reject(quota, address, rule, bound)

    def _apply_limits(self) -> None:
        config = self._config
        self.quotas.set_broker_limits(Limits(config.max_connections, config.max_creation_rate))
        for name in self.quotas.listeners:
            own = config.for_listener(name)
            self.quotas.set_listener_limits(name, Limits(own.max_connections, own.max_creation_rate))
        self._waiting.unpark_all()
        self.excess.poke()

    def _log_rejections(self, now_ms: int) -> None:
        for burst in self._rejections.due(now_ms):
            logger.info(
                f"Rejected connection from {burst.address}, {REASONS[burst.rule].format(burst.bound)}",
                extra={"listener": burst.listener, "rule": burst.rule, "connections": burst.count},
            )


class ListenerGate:
    """The gate of one acceptor. `blocked` measures the time during which the acceptor was blocked, `quota`
    counts the connections of its listener. `proxy_headers` reads their PROXY headers, None if there are none.
    """

    def __init__(
        self, gate: ConnectionGate, quota: ListenerQuota, proxy_headers: ProxyHeaders | None = None
    ) -> None:
        self.name = quota.name
        self.proxy_headers = proxy_headers
        self.failures = gate.failures
        self.blocked = BlockedTime(gate.clock)
        self.throttled_sockets = ThrottledSockets()
        self._gate = gate
        self.quota = quota
        self._wake = trio.Event()

    @property
    def quotas(self) -> ConnectionQuotas:
        return self._gate.quotas

    def of_another_port(self) -> "ListenerGate":
        """Return the gate of a further port of the same listener, with the same quotas."""
        return ListenerGate(self._gate, self.quota, self.proxy_headers)

    async def admits(self, accepted: Accepted) -> bool:
        """Return whether a connection may be served; it then counts until it is released. Otherwise it is
        already closed or throttled. If cancelled, closes the connection.
        """
        now_ms = self._gate.clock.ms()
        refusal = self._gate.quotas.check_address(self.quota, accepted.peer[0], now_ms)
        if refusal is None:
            return await self._enters(accepted, self.blocked)
        self._refuse(accepted, refusal, now_ms)
        return False

    async def admits_unnamed(self, accepted: Accepted) -> bool:
        """As `admits`, for a connection with the balancer's own address: it counts for no address, and may
        be named later.
        """
        return await self._enters(accepted, self.blocked)

    def names(self, named: Accepted) -> bool:
        """Return whether an unnamed connection may be served now that its header has named its client; it
        then counts for that address. Otherwise it is already closed or throttled, and no longer counts.
        """
        if named.counted is None:
            return True
        now_ms = self._gate.clock.ms()
        refusal = self._gate.quotas.name(self.quota, named.counted, now_ms)
        if refusal is None:
            return True
        self._gate.poke()
        if not self.failures.attempt(
            FailedStep.ACCEPT, str(Address(*named.peer)), self._refuse, named, refusal, now_ms
        ):
            named.sock.close()
        return False

    def refuse_header(self, accepted: Accepted, reason: HeaderRefusal) -> None:
        """Count and log a connection that closes for its PROXY header, and report an unexpected exception.
        The caller closes it.
        """
        self.failures.attempt(
            FailedStep.ACCEPT,
            str(Address(*accepted.peer)),
            self._gate.reject,
            self.quota,
            accepted.peer[0],
            f"{PROXY_HEADER}.{reason}",
            0.0,
        )

    def release(self, accepted: Accepted) -> None:
        """Release an admitted connection that closes before a processor takes it."""
        accepted.sock.close()
        self._gate.release(self.name, accepted.counted)

    def attempt_release(self, accepted: Accepted) -> None:
        """As `release`, and report an unexpected exception."""
        connection = str(Address(*accepted.peer))
        self.failures.attempt(FailedStep.ACCEPT, connection, self.release, accepted)

    def report(self, error: Exception, accepted: Accepted) -> None:
        """Report an unexpected exception, after which the caller closes the connection."""
        connection = str(Address(*accepted.peer))
        self.failures.report(FailedStep.ACCEPT, error, listener=self.name, connection=connection)

    async def run(self, serve: Callable[[Accepted], Awaitable[None]]) -> None:
        """Handle throttled sockets when their wait is over: close them or, in KIP-612 mode, serve those whose
        address is within its rate by then. If cancelled, closes all of them.
        """
        throttled, clock = self.throttled_sockets, self._gate.clock
        try:
            while True:
                while (due := throttled.pop_due(clock.ms())) is not None:
                    try:
                        is_admitted = await self._admits_after_wait(due)
                    except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
                        connection = f"{due.peer[0]}:{due.peer[1]}"
                        self.failures.report(FailedStep.THROTTLED_SOCKET, error, connection=connection)
                        due.sock.close()
                        continue
                    if is_admitted:
                        await serve(Accepted(due.sock, due.peer, due.proxy))
                    else:
                        await trio.lowlevel.checkpoint()
                self._wake = trio.Event()
                deadline = throttled.next_deadline()
                remaining = float("inf") if deadline is None else max(deadline - clock.ms(), 0) / 1000
                with trio.move_on_after(remaining):
                    await self._wake.wait()
        finally:
            throttled.close()

    async def _enters(self, accepted: Accepted, blocked: AbstractContextManager[object]) -> bool:
        """Return whether a connection whose address was checked may be served, after its wait for the rates
        and the numbers of broker and listener. `blocked` surrounds the wait.
        """
        gate, quota = self._gate, self.quota
        quotas = gate.quotas
        now_ms = gate.clock.ms()
        wait_ms = quotas.record(quota, now_ms)
        if wait_ms or not quotas.has_slot(quota):
            try:
                with blocked:
                    await gate.wait(quota, now_ms + wait_ms)
            except trio.Cancelled:
                accepted.sock.close()
                raise
            now_ms = gate.clock.ms()
        too_many = quotas.enter(quota, accepted.counted, now_ms)
        if too_many is not None:
            self._refuse(accepted, too_many, now_ms)
            return False
        if quotas.total > quotas.max_connections:
            gate.excess.poke()
        return True

    def _refuse(self, accepted: Accepted, refusal: Refusal, now_ms: int) -> None:
        sock, peer, proxy = accepted
        match refusal:
            case TooMany(maximum):
                self._close(sock, peer, PER_IP, maximum)
            case Throttled(throttle_ms=throttle_ms, bound=bound):
                for observer in self._gate.observers:
                    observer.delayed(self.name, peer[0], throttle_ms, bound)
                throttled = ThrottledSocket(sock, peer, now_ms + throttle_ms, bound, throttle_ms, proxy)
                for evicted in self.throttled_sockets.add(throttled, self._gate.max_throttled):
                    self._close(evicted.sock, evicted.peer, IP_RATE, evicted.bound)
                self._wake.set()

    async def _admits_after_wait(self, due: ThrottledSocket) -> bool:
        """Return whether to serve a connection whose wait is over; otherwise it is closed."""
        sock, peer = due.sock, due.peer
        quotas, quota = self._gate.quotas, self.quota
        if not self._gate.rechecks:
            self._close(sock, peer, IP_RATE, due.bound)
            return False
        if _is_closed_by_peer(sock):
            sock.close()
            return False
        if not quotas.has_slot(quota):
            self._close(sock, peer, SLOTS, min(quotas.max_connections, quota.max_connections))
            return False
        match quotas.check_address(quota, peer[0], self._gate.clock.ms()):
            case None:
                return await self._enters(Accepted(sock, peer, due.proxy), nullcontext())
            case TooMany(maximum):
                self._close(sock, peer, PER_IP, maximum)
            case Throttled(bound=bound):
                self._close(sock, peer, IP_RATE, bound)
        return False

    def _close(self, sock: socket.socket, peer: tuple[str, int], rule: str, bound: float) -> None:
        sock.close()
        self._gate.reject(self.quota, peer[0], rule, bound)


def _is_closed_by_peer(sock: socket.socket) -> bool:
    """Return whether the peer has closed the connection."""
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
