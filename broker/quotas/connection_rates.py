"""Connection creation rates of the broker, a listener and an address, and statistics of each address. (Kafka:
the sensors of ConnectionQuotas, KIP-612)

Kept by `connections` and read by its metrics. A sensor records first and checks then, so a connection counts
while it waits. Independent of sockets and clocks.
"""

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from operator import attrgetter
from typing import Final

import msgspec

from broker.common.idle import expired_in_steps, idlest
from broker.common.slices import Steps
from broker.metrics.rate import INT_MAX, Rate, Window, bounded_throttle_time_ms, java_round
from broker.quotas.entity import DEFAULT, Default, Entity
from broker.quotas.usage import IDLE_MS, MAX_SENSORS

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared, not bound
"""The entity whose rate limits the whole broker in AutoMQ. No client connects from this address."""


def canonical_address(text: str) -> str:
    """Return the address in canonical form. An IPv4 address mapped to IPv6 (::ffff:192.0.2.1) becomes the
    IPv4 address, as in Java. Raises ValueError for any other text.
    """
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


WHOLE_ADDRESS: Final = 128


def counted_address(address: str, ipv6_prefix: int = WHOLE_ADDRESS) -> str:
    """Return the canonical address under which a canonical one is counted.

    All IPv6 addresses with the same first `ipv6_prefix` bits count as the first of them (2001:db8::7 as
    2001:db8:: with a prefix of 64). Link-local and loopback addresses are unchanged: a link has many hosts.
    """
    if ipv6_prefix == WHOLE_ADDRESS or ":" not in address:
        return address
    whole = IPv6Address(address)
    if whole.is_link_local or whole.is_loopback:
        return address
    host_bits = WHOLE_ADDRESS - ipv6_prefix
    return str(IPv6Address(int(whole) >> host_bits << host_bits))


class AcceptRate:
    """Connections per second of one entity, and their limit `bound`. INT_MAX means no limit.

    Another `bound` keeps the recorded connections. A wait is at most one window. Without a bound a
    connection costs one addition: connections of the same millisecond are recorded together, before any read.
    """

    __slots__ = ("_longest_ms", "_rate", "_tally", "bound", "last_record_ms")

    def __init__(self, window: Window, bound: float, now_ms: int = 0) -> None:
        self.bound = bound
        self.last_record_ms = now_ms
        self._tally = 0
        self._rate = Rate(window)
        self._longest_ms = window.window_ms

    def record(self, now_ms: int) -> int:
        """Record a connection. Return the milliseconds until the rate is at its bound, 0 within it."""
        self._count(now_ms)
        if self.bound == INT_MAX:
            return 0
        observed = self.observed(now_ms)
        if observed <= self.bound:
            return 0
        window_ms = self._rate.window_size_ms(now_ms)
        return bounded_throttle_time_ms(observed, self.bound, window_ms, self._longest_ms)

    def unrecord(self, now_ms: int) -> None:
        """Subtract a recorded connection that was not accepted."""
        self._settle()
        self._rate.record(-1.0, now_ms)

    def change_bound(self, bound: float, now_ms: int) -> None:
        """Set the limit from `now_ms` on."""
        self.bound = bound

    def left_ms(self, now_ms: int) -> int | None:
        """Return the time until all recorded connections have had their turn at the present bound; None if
        waits keep their initial length.
        """
        return 0 if self.bound == INT_MAX else None

    def recent(self, now_ms: int, span_ms: int) -> tuple[float, int]:
        """Return the connections of the last windows, of `span_ms` and at least two, and the milliseconds
        since the first of them began; see `SampledStat.recent`.
        """
        self._settle()
        windows = max(span_ms // self._rate.window.window_ms, 2)
        total, _, elapsed_ms = self._rate.recent(now_ms, windows)
        return total, elapsed_ms

    def observed(self, now_ms: int) -> float:
        """Return the connections per second over the current windows."""
        self._settle()
        return self._rate.measure(now_ms)

    def peek(self, now_ms: int) -> float:
        """Return the same without a change to the windows; see `Rate.peek`."""
        self._settle()
        return self._rate.peek(now_ms)

    @classmethod
    def longest_wait_ms(cls, observed: float, bound: float, window: Window) -> int:
        """Return the wait of a connection after `observed` connections per second in all whole windows."""
        span_ms = (window.samples - 1) * window.window_ms
        return max(bounded_throttle_time_ms(observed, bound, span_ms, window.window_ms), 0)

    def live(self, now_ms: int) -> list[tuple[int, int, float]]:
        """Return the connections in sight; see `SampledStat.live`."""
        self._settle()
        return self._rate.live(now_ms)

    def spent(self, now_ms: int) -> float | None:
        """Return the connections missing in the full bucket; None if only the windows count."""
        return None

    def resume(self, samples: Sequence[tuple[int, int, float]], spent: float | None, now_ms: int) -> None:
        """Continue with what `live` and `spent` returned before a restart."""
        self._tally = 0
        self._rate.resume(samples)

    def _count(self, now_ms: int) -> None:
        if now_ms != self.last_record_ms:
            self._settle()
            self.last_record_ms = now_ms
        self._tally += 1

    def _settle(self) -> None:
        if self._tally:
            self._rate.record(self._tally, self.last_record_ms)
            self._tally = 0


LEAST_CAPACITY: Final = 2.0
MOST_WAITING: Final = 10
"""Connections that may wait for one rate at once: one for each acceptor that shares it."""


class PacedAcceptRate(AcceptRate):
    """The same limit, kept exactly: each connection beyond it waits for its turn, one every 1 / `bound` s.

    Kafka's rule counts in windows and waits for one window at most. So the rate is never below one connection
    a second, and an acceptor that waits often misses its limit by tens of percent. Here connections are
    spent from a bucket that fills at `bound` per second. At first it has what Kafka's windows let through at
    once, ten seconds' worth by default, and at least one connection. It holds as much, and at least two: with
    one, a client that always comes a little too early would get half of its limit.
    """

    __slots__ = ("_at_ms", "_burst_s", "_spent", "_window_s")

    def __init__(self, window: Window, bound: float, now_ms: int = 0) -> None:
        super().__init__(window, bound, now_ms)
        self._window_s = window.window_ms / 1000.0
        self._burst_s = max(window.samples - 1, 1) * self._window_s
        self._at_ms = now_ms
        self._spent: float | None = None
        """Connections missing in the full bucket at `_at_ms`; None while there is no limit."""

    def record(self, now_ms: int) -> int:
        """Record a connection. Return the milliseconds until its turn, 0 within the limit.

        The time since the last connection fills the bucket at the present bound.
        """
        bound = self.bound
        if bound == INT_MAX or bound <= 0:
            self._spent = None
            return super().record(now_ms)
        burst = max(bound * self._burst_s, LEAST_CAPACITY)
        spent = self._spent_until(now_ms, bound, burst) + 1.0
        self._count(now_ms)
        # However many are recorded at once, an acceptor does not wait for all of them.
        self._spent = spent = min(spent, burst + max(bound * self._window_s, MOST_WAITING))
        return max(java_round((spent - burst) / bound * 1000.0), 0)

    def unrecord(self, now_ms: int) -> None:
        super().unrecord(now_ms)
        if self._spent is not None:
            self._spent = max(self._spent - 1.0, 0.0)

    def left_ms(self, now_ms: int) -> int | None:
        bound = self.bound
        if self._spent is None or bound == INT_MAX or bound <= 0:
            return 0
        spent = self._spent - bound * (now_ms - self._at_ms) / 1000.0
        burst = max(bound * self._burst_s, LEAST_CAPACITY)
        return max(java_round((spent - burst) / bound * 1000.0), 0)

    def spent(self, now_ms: int) -> float | None:
        if self._spent is None:
            return None
        return max(self._spent - self.bound * (now_ms - self._at_ms) / 1000.0, 0.0)

    def resume(self, samples: Sequence[tuple[int, int, float]], spent: float | None, now_ms: int) -> None:
        super().resume(samples, spent, now_ms)
        self._spent = None if spent is None else max(spent, 0.0)
        self._at_ms = now_ms

    @classmethod
    def longest_wait_ms(cls, observed: float, bound: float, window: Window) -> int:
        """An address has at most one connection too many, since those that it waits with are not counted."""
        span_ms = (window.samples - 1) * window.window_ms
        return max(bounded_throttle_time_ms(observed, bound, span_ms, java_round(1000.0 / bound)), 0)

    def _spent_until(self, now_ms: int, bound: float, burst: float) -> float:
        if self._spent is None:
            # The limit is new: it starts with what the windows have seen, and without a debt.
            self._at_ms = now_ms
            self._settle()
            seen = self._rate.measure(now_ms) * self._rate.window_size_ms(now_ms) / 1000.0
            at_first = max(bound * self._burst_s, 1.0)
            return burst - at_first + min(seen, at_first)
        elapsed_ms = now_ms - self._at_ms
        self._at_ms = now_ms
        return max(self._spent - bound * elapsed_ms / 1000.0, 0.0)


class AcceptRates(dict[str, AcceptRate]):
    """The sensors of addresses or users by name. A sensor expires after an idle hour; when there are
    `max_sensors`, some that were idle longest are evicted (`idlest`).
    """

    def __init__(self, window: Window, max_sensors: int, build: type[AcceptRate] = AcceptRate) -> None:
        super().__init__()
        self._window = window
        self._max_sensors = max_sensors
        self._build = build

    def sensor(self, name: str, bound: float, now_ms: int) -> AcceptRate:
        """Return the sensor with the limit `bound`, created at first use."""
        sensor = self.get(name)
        if sensor is None:
            if len(self) >= self._max_sensors:
                self._drop(idlest(self, _last_record_ms))
            sensor = self[name] = self._build(self._window, bound, now_ms)
        elif sensor.bound != bound:
            sensor.change_bound(bound, now_ms)
        return sensor

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove sensors idle for more than an hour and return their number."""
        return expired_in_steps(self, _last_record_ms, now_ms, IDLE_MS, self._drop)

    def _drop(self, names: list[str]) -> int:
        for name in names:
            del self[name]
        return len(names)


class IpRates:
    """`connection_creation_rate` by address: the rules, and a sensor for each address with a rule.

    Methods take counted addresses (`counted_address`), except `set_rule`. An unlimited address has no sensor.
    """

    def __init__(
        self,
        window: Window,
        max_sensors: int = MAX_SENSORS,
        *,
        ipv6_prefix: int = WHOLE_ADDRESS,
        build: type[AcceptRate] = AcceptRate,
    ) -> None:
        self.active = False
        """Whether any rule exists. While it is False callers skip the check."""
        self.sensors = AcceptRates(window, max_sensors, build)
        self.part_of: Callable[[str], float] | None = None
        """Returns this gateway's part of the rate of an address; None: the whole."""
        self._window = window
        self._build = build
        self._default = float(INT_MAX)
        self._ipv6_prefix = ipv6_prefix
        self._rules: dict[str, dict[str, float]] = {}
        """Rules by counted address, then by the address they name: usually one."""

    def set_rule(self, address: str | Default, rate: float | None) -> None:
        """Set the rate of one address or of all others, or remove it (None). Usage is kept. Each sensor gets
        its new bound at its next use, since there may be thousands of rules and sensors.
        """
        bound = float(INT_MAX) if rate is None else rate
        if isinstance(address, Default):
            self._default = bound
        else:
            self._set_rule(canonical_address(address), rate)
        self.active = bool(self._rules) or self._default != INT_MAX

    def rate_for(self, address: str) -> float:
        """Return the connections per second that the address may make, the least of several rules. The
        default applies to clients, so never to 0.0.0.0.
        """
        rules = self._rules.get(address)
        if rules is not None:
            return min(rules.values())
        return float(INT_MAX) if address == ANY_ADDRESS else self._default

    def wait_at(self, observed: float, bound: float) -> int:
        """Return the milliseconds for which a connection is delayed if its address made `observed` per second
        in all whole windows.
        """
        return self._build.longest_wait_ms(observed, bound, self._window)

    def rule_of(self, address: str) -> Entity:
        """Return the entity whose rule applies to an address that has a sensor."""
        rules = self._rules.get(address)
        return Entity(ip=DEFAULT if rules is None else min(rules, key=lambda name: (rules[name], name)))

    def sensor(self, address: str, now_ms: int) -> AcceptRate | None:
        """Return the sensor of an address, created at first use, or None if no rule applies."""
        bound = self.rate_for(address)
        if bound == INT_MAX:
            return None
        if self.part_of is not None:
            bound *= self.part_of(address)
        return self.sensors.sensor(address, bound, now_ms)

    def _set_rule(self, name: str, rate: float | None) -> None:
        address = counted_address(name, self._ipv6_prefix)
        rules = self._rules.setdefault(address, {})
        if rate is None:
            rules.pop(name, None)
        else:
            rules[name] = rate
        if not rules:
            del self._rules[address]


MAX_ADDRESSES: Final = 10_000
"""Addresses kept; one more evicts some that were seen longest ago (`idlest`). Kafka has no such table."""

_last_record_ms: Callable[[AcceptRate], int] = attrgetter("last_record_ms")


class AddressStats(msgspec.Struct):
    """Totals since the address was first seen, or seen again after an hour: connections accepted, `delayed`
    for the address's rate, and refused.
    """

    rate: AcceptRate
    last_ms: int
    accepted: int = 0
    delayed: int = 0
    refused: int = 0


_last_seen_ms: Callable[[AddressStats], int] = attrgetter("last_ms")


class AddressStatsTable:
    """Connection statistics per client address, for the console; no verdict depends on them.

    Kafka has metrics only for addresses with a limit; these also show a connection storm from an address
    without one.
    """

    def __init__(self, window: Window, max_addresses: int = MAX_ADDRESSES) -> None:
        self._max_addresses = max_addresses
        self._seen: dict[str, AddressStats] = {}
        self._window = window

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[tuple[str, AddressStats]]:
        return iter(self._seen.items())

    def get(self, address: str) -> AddressStats | None:
        return self._seen.get(address)

    def accepted(self, address: str, now_ms: int) -> None:
        stats = self._of(address, now_ms)
        stats.accepted += 1
        stats.rate.record(now_ms)

    def delayed(self, address: str, now_ms: int) -> None:
        self._of(address, now_ms).delayed += 1

    def refused(self, address: str, now_ms: int) -> None:
        self._of(address, now_ms).refused += 1

    def expire(self, now_ms: int) -> Steps[int]:
        """Remove addresses that were not seen for an hour and return their number."""
        return expired_in_steps(self._seen, _last_seen_ms, now_ms, IDLE_MS, self._drop)

    def _of(self, address: str, now_ms: int) -> AddressStats:
        stats = self._seen.get(address)
        if stats is None:
            if len(self._seen) >= self._max_addresses:
                self._drop(idlest(self._seen, _last_seen_ms))
            stats = self._seen[address] = AddressStats(AcceptRate(self._window, INT_MAX, now_ms), now_ms)
        stats.last_ms = now_ms
        return stats

    def _drop(self, addresses: list[str]) -> int:
        for address in addresses:
            del self._seen[address]
        return len(addresses)
