"""Limits on the number and the creation rate of connections: per socket server, listener, address and user.
(Kafka: ConnectionQuotas, KIP-402 and KIP-612)

Called by the acceptors of the network package: `check_address`, then `record` the rates of listener and
broker once, wait until that time is over and `has_slot`, then `enter`. Kafka checks the address last, so that
an address far over its limits makes the whole listener wait; here its refused connections count for no one
else. Counts and verdicts only: the acceptors wait, delay, close and log. Independent of sockets, tasks and
clocks.

The broker's listeners share one ConnectionQuotas and the controller's another, each with the same limits and
its own counts; "broker" below means either. The protected listener, which serves other brokers, has its own
limits and is exempt from the broker's, provided that its server has another listener.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX, Avg, Window
from broker.quotas.connection_rates import (
    ANY_ADDRESS,
    WHOLE_ADDRESS,
    AcceptRate,
    AcceptRates,
    AddressStatsTable,
    IpRates,
    PacedAcceptRate,
    counted_address,
)
from broker.quotas.entity import Default
from broker.quotas.manager import CLIENT_QUOTA_WINDOW
from broker.quotas.shared_connections import ConnectionKey, ConnectionShares, SharedAcceptRate
from broker.quotas.usage import MAX_SENSORS, THROTTLE_TIME_WINDOW

PER_IP: Final = "max.connections.per.ip"
IP_RATE: Final = "connection_creation_rate"
SLOTS: Final = "max.connections"
PROXY_HEADER: Final = "proxy.protocol"
"""How the rules of refused PROXY headers begin; behind it are a point and a `HeaderRefusal`."""
CREATION_RATE: Final = "max.connection.creation.rate"
PER_USER: Final = "max.connections.per.user"
USER_RATE: Final = "max.connection.creation.rate.per.user"


class TooMany(msgspec.Struct, frozen=True):
    """The address already has `maximum` connections. This one is not counted."""

    maximum: int


class Throttled(msgspec.Struct, frozen=True):
    """The address exceeds its connection rate. This connection is not counted."""

    throttle_ms: int
    observed: float
    bound: float


Refusal = TooMany | Throttled


class Limits(msgspec.Struct, frozen=True):
    """The limits of a listener or the broker: `max.connections`, `max.connection.creation.rate`."""

    connections: int = INT_MAX
    creation_rate: int = INT_MAX


class ListenerQuota(msgspec.Struct, eq=False):
    """The connections of one listener, which is exempt from the broker's limits if it is `protected`. Only
    `ConnectionQuotas` changes it.

    `throttle_time` has the milliseconds that connections waited for a rate, over the waits that occurred;
    `ip_throttle_time` those for which connections of addresses over their rate were delayed. `rejected`
    counts connections closed, by the key of the rule.
    """

    name: str
    rate: AcceptRate
    protected: bool = False
    count: int = 0
    max_connections: int = INT_MAX
    throttle_time: Avg = msgspec.field(default_factory=lambda: Avg(THROTTLE_TIME_WINDOW))
    ip_throttle_time: Avg = msgspec.field(default_factory=lambda: Avg(THROTTLE_TIME_WINDOW))
    rejected: dict[str, int] = msgspec.field(default_factory=dict)


class PerIp(msgspec.Struct):
    """`max.connections.per.ip` and its overrides by address."""

    maximum: int = INT_MAX
    overrides: Mapping[str, int] = msgspec.field(default_factory=dict)

    def of(self, address: str) -> int:
        return self.overrides.get(address, self.maximum)


class ConnectionQuotas:
    """All connections of one socket server.

    `window` is quota.window.*; `protected` names the inter-broker listener. `paced` keeps the rates exactly
    (`PacedAcceptRate`); without it all waits are Kafka's. With `broker_wide_ip` every connection also counts
    against the rate of the address 0.0.0.0, if it has one (AutoMQ). IPv6 addresses with the same first
    `ipv6_prefix` bits count as one in `counts`, `per_ip`, `ips` and `addresses`. `shared`: other gateways
    have parts of the limits of addresses and users and of the broker's rate; see `share`.
    """

    def __init__(
        self,
        window: Window = CLIENT_QUOTA_WINDOW,
        *,
        protected: str | None = None,
        paced: bool = False,
        broker_wide_ip: bool = False,
        ipv6_prefix: int = WHOLE_ADDRESS,
        shared: bool = False,
    ) -> None:
        self._build: type[AcceptRate] = PacedAcceptRate if paced else AcceptRate
        build = SharedAcceptRate if shared else self._build
        self._shares: ConnectionShares | None = None
        self.total = 0
        self.counts: dict[str, int] = {}
        self.listeners: dict[str, ListenerQuota] = {}
        self.max_connections = INT_MAX
        self.creation_rate = INT_MAX
        self.rate = build(window, INT_MAX)
        self.ips = IpRates(window, ipv6_prefix=ipv6_prefix, build=build)
        self.ipv6_prefix = ipv6_prefix
        self.addresses = AddressStatsTable(window)
        self.per_ip = PerIp()
        self.users = UserConnections(window, build=build)
        self._window = window
        self.protected: set[str] = set()
        """The name of the protected listener, provided that there are other listeners."""
        self._protected = protected
        self._broker_wide_ip = broker_wide_ip

    # Configuration

    def share(self, shares: ConnectionShares) -> None:
        """Enforce this gateway's parts of the limits from the next connection on."""
        self._shares = self.users.shares = shares
        self.ips.part_of = lambda address: shares.part(ConnectionKey(IP_RATE, address))
        self._set_rate(self.rate.last_record_ms)

    def rebound(self, keys: Iterable[ConnectionKey] | None, now_ms: int) -> Steps[None]:
        """Give the rates of `keys` their present parts from `now_ms` on; None: all rates."""
        if keys is None:
            addresses = [ConnectionKey(IP_RATE, name) for name in self.ips.sensors]
            users = [ConnectionKey(USER_RATE, name) for name in self.users.rates]
            keys = [ConnectionKey(CREATION_RATE, ""), *addresses, *users]
        for limit, name in keys:
            if limit == CREATION_RATE:
                self._set_rate(now_ms)
            elif limit == IP_RATE and name in self.ips.sensors:
                self.ips.sensor(name, now_ms)
            elif limit == USER_RATE and name in self.users.rates:
                self.users.sensor(name, now_ms)
            yield

    def add_listener(self, name: str) -> ListenerQuota:
        """Return the listener's quota, created without limits if it is new."""
        if name not in self.listeners:
            self.listeners[name] = ListenerQuota(name, self._build(self._window, INT_MAX))
            self._protect()
        return self.listeners[name]

    def remove_listener(self, name: str) -> None:
        """Remove a listener. Its connections count for broker and address until they are released."""
        self.listeners.pop(name, None)
        self._protect()

    def set_broker_limits(self, limits: Limits) -> None:
        self.max_connections = limits.connections
        self.creation_rate = limits.creation_rate
        self._set_rate(self.rate.last_record_ms)

    def set_listener_limits(self, name: str, limits: Limits) -> None:
        """Raises KeyError if there is no such listener."""
        listener = self.listeners[name]
        listener.max_connections = limits.connections
        listener.rate.bound = limits.creation_rate

    def set_ip_rate(self, address: str | Default, rate: float | None) -> None:
        """Set `connection_creation_rate` of an address or of all others; None removes it."""
        self.ips.set_rule(address, rate)

    def set_per_ip_overrides(self, overrides: Mapping[str, int]) -> None:
        """Set the maximum by counted address."""
        self.per_ip.overrides = overrides

    def counted(self, address: str) -> str:
        """Return the address under which connections from `address` are counted."""
        return counted_address(address, self.ipv6_prefix)

    def is_protected(self, listener: str) -> bool:
        account = self.listeners.get(listener)
        return account is not None and account.protected

    # Connections

    def check_address(self, listener: ListenerQuota, address: str, now_ms: int) -> Refusal | None:
        """Record a connection for the rate of its address. Return why the address may not have it, or None.

        After `Throttled` the caller delays the connection for that time, and may then check it again
        (KIP-612, "we will check for quota violation again").
        """
        address = self.counted(address)
        if self.ips.active:
            throttled = self._record_address(listener, address, now_ms)
            if throttled is not None:
                self.addresses.delayed(address, now_ms)
                return throttled
        return self._too_many(address)

    def record(self, listener: ListenerQuota, now_ms: int) -> int:
        """Record a connection for the rates of broker and listener. Return the milliseconds to wait, by
        Kafka's rule at most one window. (recordConnectionAndGetThrottleTimeMs)
        """
        wait_ms = 0
        for sensor in self._sensors(listener):
            own_ms = sensor.record(now_ms)
            if own_ms > 0 and sensor is self.rate and self._shares is not None:
                self._shares.refused(ConnectionKey(CREATION_RATE, ""))
            wait_ms = max(wait_ms, own_ms)
        if wait_ms > 0:
            listener.throttle_time.record(wait_ms, now_ms)
        return wait_ms

    def left_ms(self, listener: ListenerQuota, now_ms: int) -> int | None:
        """Return the rest of a wait for the rates of broker and listener, if it can have become shorter."""
        if self._shares is None:
            return None
        left = [sensor.left_ms(now_ms) for sensor in self._sensors(listener)]
        return None if None in left else max(each or 0 for each in left)

    def has_slot(self, listener: ListenerQuota) -> bool:
        """Return whether another connection is within the limits on their number."""
        if listener.count >= listener.max_connections:
            return False
        return self.total < self.max_connections or listener.protected

    def enter(self, listener: ListenerQuota, address: str | None, now_ms: int) -> TooMany | None:
        """Count a connection whose address was checked, that was recorded and has a slot. While it waited,
        its address may have reached its maximum on another listener. With `address` None it counts for no
        address: it is a balancer's own, or its PROXY header, after which `name` follows, has not been read.
        """
        if address is not None:
            address = self.counted(address)
            too_many = self._too_many(address)
            if too_many is not None:
                self._unrecord(listener, now_ms)
                return too_many
            self._count(address, now_ms)
        self.total += 1
        listener.count += 1
        return None

    def name(self, listener: ListenerQuota, address: str, now_ms: int) -> Refusal | None:
        """Check and count the address of a connection that entered without one. Return why the address may
        not have it, which is then no longer counted.
        """
        refusal = self.check_address(listener, address, now_ms)
        if refusal is None:
            self._count(self.counted(address), now_ms)
        else:
            self._unrecord(listener, now_ms)
            self.release(listener.name, None)
        return refusal

    def release(self, listener: str, address: str | None) -> None:
        """Release a closed connection that had entered; None: without an address. Raises ValueError if the
        address has none.
        """
        if address is not None:
            address = self.counted(address)
            count = self.counts.get(address, 0)
            if count <= 0:
                raise ValueError(f"cannot release a connection of {address}: it has none")
            if count == 1:
                del self.counts[address]
            else:
                self.counts[address] = count - 1
        self.total -= 1
        account = self.listeners.get(listener)
        # A listener that was removed and added again has not counted its earlier connections.
        if account is not None and account.count > 0:
            account.count -= 1

    def reject(self, listener: ListenerQuota, address: str, rule: str, now_ms: int) -> None:
        """Count a connection that was closed because of `rule`, for the metrics."""
        listener.rejected[rule] = listener.rejected.get(rule, 0) + 1
        self.addresses.refused(self.counted(address), now_ms)

    @property
    def excess(self) -> int:
        """Return how many connections to close. There can be more than `max.connections` because a protected
        listener accepted some or because the limit was lowered. Protected connections stay open.
        (maxConnectionsExceeded)
        """
        over = self.total - self.max_connections
        if over <= 0:
            return 0
        exempt = sum(each.count for each in self.listeners.values() if each.protected)
        return min(over, self.total - exempt)

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove addresses and users idle for more than an hour and return their number. Broker and listeners
        stay.
        """
        yield from self.addresses.expire(now_ms)
        count = yield from self.ips.sensors.expire(now_ms)
        return count + (yield from self.users.rates.expire(now_ms))

    def _protect(self) -> None:
        for name, listener in self.listeners.items():
            listener.protected = name == self._protected and len(self.listeners) > 1
            (self.protected.add if listener.protected else self.protected.discard)(name)
        self.protected.intersection_update(self.listeners)

    def _sensors(self, listener: ListenerQuota) -> tuple[AcceptRate, ...]:
        return (listener.rate,) if listener.protected else (listener.rate, self.rate)

    def _count(self, address: str, now_ms: int) -> None:
        self.counts[address] = self.counts.get(address, 0) + 1
        self.addresses.accepted(address, now_ms)

    def _unrecord(self, listener: ListenerQuota, now_ms: int) -> None:
        for sensor in self._sensors(listener):
            sensor.unrecord(now_ms)

    def _set_rate(self, now_ms: int) -> None:
        bound: float = self.creation_rate
        if self._shares is not None and bound != INT_MAX:
            bound *= self._shares.part(ConnectionKey(CREATION_RATE, ""))
        self.rate.change_bound(bound, now_ms)

    def _too_many(self, address: str) -> TooMany | None:
        maximum = most = self.per_ip.of(address)
        shares = self._shares
        if shares is not None and maximum != INT_MAX:
            most = shares.most(ConnectionKey(PER_IP, address), maximum)
        if self.counts.get(address, 0) < most:
            return None
        if shares is not None:
            shares.refused(ConnectionKey(PER_IP, address))
        return TooMany(maximum)

    def _record_address(self, listener: ListenerQuota, address: str, now_ms: int) -> Throttled | None:
        """Record a connection for its address unless the address is over its rate.
        (recordIpConnectionMaybeThrottle)
        """
        recorded: list[AcceptRate] = []
        for each in (address, ANY_ADDRESS) if self._broker_wide_ip else (address,):
            sensor = self.ips.sensor(each, now_ms)
            if sensor is None:
                continue
            recorded.append(sensor)
            wait_ms = sensor.record(now_ms)
            if wait_ms > 0:
                verdict = Throttled(wait_ms, sensor.observed(now_ms), self.ips.rate_for(each))
                if self._shares is not None:
                    self._shares.refused(ConnectionKey(IP_RATE, each))
                for taken_back in recorded:
                    taken_back.unrecord(now_ms)
                listener.ip_throttle_time.record(wait_ms, now_ms)
                return verdict
        return None


class TooManyOfUser(msgspec.Struct, frozen=True):
    """The user already has `bound` connections. This one is not counted."""

    bound: float


class TooFastOfUser(msgspec.Struct, frozen=True):
    """The user exceeds `bound` connections per second. This one is not counted."""

    throttle_ms: int
    bound: float


UserRefusal = TooManyOfUser | TooFastOfUser


class UserLimit(msgspec.Struct, frozen=True):
    """One of the two limits, and its overrides by user. INT_MAX is no limit."""

    maximum: float = INT_MAX
    overrides: Mapping[str, float] = msgspec.field(default_factory=dict)

    def of(self, user: str) -> float:
        return self.overrides.get(user, self.maximum)


class UserConnections:
    """Open connections by user (`counts`), limited or not, and the sensors of users with a rate limit
    (`rates`). `window` is quota.window.*.

    Called by the network package's `user_gate` after authentication. Anonymous connections, on listeners
    without authentication, are exempt. Kafka limits addresses only, and one address can serve many users.
    """

    def __init__(
        self, window: Window, max_sensors: int = MAX_SENSORS, build: type[AcceptRate] = AcceptRate
    ) -> None:
        self.count = UserLimit()
        self.rate = UserLimit()
        self.counts: dict[str, int] = {}
        self.rates = AcceptRates(window, max_sensors, build)
        self.shares: ConnectionShares | None = None

    def set_limits(self, count: UserLimit, rate: UserLimit) -> None:
        """Set the limits for new connections. Existing counts are kept."""
        self.count, self.rate = count, rate

    def enter(self, user: str, now_ms: int) -> UserRefusal | None:
        """Count another connection of the user, or return why it is refused."""
        count, shares = self.counts.get(user, 0), self.shares
        maximum = most = self.count.of(user)
        if shares is not None and maximum != INT_MAX:
            most = shares.most(ConnectionKey(PER_USER, user), int(maximum))
        if count >= most:
            if shares is not None:
                shares.refused(ConnectionKey(PER_USER, user))
            return TooManyOfUser(maximum)
        sensor = self.sensor(user, now_ms)
        if sensor is not None:
            wait_ms = sensor.record(now_ms)
            if wait_ms > 0:
                sensor.unrecord(now_ms)
                if shares is not None:
                    shares.refused(ConnectionKey(USER_RATE, user))
                return TooFastOfUser(wait_ms, self.rate.of(user))
        self.counts[user] = count + 1
        return None

    def sensor(self, user: str, now_ms: int) -> AcceptRate | None:
        """Return the sensor of a user, created at first use, or None without a limit on the rate."""
        bound = self.rate.of(user)
        if bound == INT_MAX:
            return None
        if self.shares is not None:
            bound *= self.shares.part(ConnectionKey(USER_RATE, user))
        return self.rates.sensor(user, bound, now_ms)

    def release(self, user: str) -> None:
        """Release a closed connection that had entered. Raises KeyError if the user has none."""
        count = self.counts[user]
        if count == 1:
            del self.counts[user]
        else:
            self.counts[user] = count - 1


BURST_MS: Final = 1_000
MAX_BURSTS: Final = 100
OTHERS: Final = "other addresses"


class Burst(msgspec.Struct):
    """Connections of one address on one listener, refused by the same rule. `bound` is the rule's value."""

    listener: str
    address: str
    rule: str
    bound: float
    due_ms: int
    count: int = 0


class Rejections:
    """The current bursts of refused connections, the oldest first: one log line each.

    A burst is logged with its count `BURST_MS` after its first refusal; later refusals start the next burst.
    Clients choose their addresses, so beyond `MAX_BURSTS` at a time they are counted together.
    """

    def __init__(self) -> None:
        self._bursts: dict[tuple[str, str, str], Burst] = {}

    def note(self, listener: str, address: str, rule: str, bound: float, now_ms: int) -> None:
        """Count a refused connection."""
        burst = self._bursts.get((listener, address, rule))
        if burst is None:
            if len(self._bursts) >= MAX_BURSTS:
                address = OTHERS
            key = (listener, address, rule)
            burst = self._bursts.setdefault(key, Burst(listener, address, rule, bound, now_ms + BURST_MS))
        burst.count += 1

    def next_deadline(self) -> int | None:
        """Return when the first burst is due to be logged."""
        return next((burst.due_ms for burst in self._bursts.values()), None)

    def due(self, now_ms: int) -> list[Burst]:
        """Remove and return the bursts that are due."""
        over = [key for key, burst in self._bursts.items() if burst.due_ms <= now_ms]
        return [self._bursts.pop(key) for key in over]
