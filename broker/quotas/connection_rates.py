"""How fast connections are made: all of the broker's, a listener's, one address's. (Kafka: the sensors of
ConnectionQuotas, KIP-612)

Kept by `connections`, read by its figures. A sensor counts first and judges then, so that a connection which
has to wait is counted while it waits. Knows no socket and no clock.
"""

from collections.abc import Iterable
from heapq import nsmallest
from ipaddress import IPv6Address, ip_address
from typing import Final

from broker.metrics.quota import INT_MAX, bounded_throttle_time_ms
from broker.metrics.rate import Rate
from broker.metrics.window import Window
from broker.quotas.entity import DEFAULT, Default, Entity
from broker.quotas.usage import IDLE_MS, MAX_SENSORS

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared, not bound
"""The entity whose rate is the whole broker's in AutoMQ. No client connects from it."""


def canonical_address(text: str) -> str:
    """An address in the one form under which it is counted: an IPv4 address that came over an IPv6 socket
    (::ffff:192.0.2.1) is that IPv4 address, as in Java. ValueError for anything else than an address.
    """
    address = ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


WHOLE_ADDRESS: Final = 128


def counted_address(address: str, ipv6_prefix: int = WHOLE_ADDRESS) -> str:
    """The canonical address under which a canonical one is counted: an IPv6 address is one with all that
    share its first `ipv6_prefix` bits, and named after the first of them (2001:db8::7 is 2001:db8:: with a
    prefix of 64). Link-local addresses and the loopback stay as they are: those of a link are many hosts.
    """
    if ipv6_prefix == WHOLE_ADDRESS or ":" not in address:
        return address
    whole = IPv6Address(address)
    if whole.is_link_local or whole.is_loopback:
        return address
    kept = WHOLE_ADDRESS - ipv6_prefix
    return str(IPv6Address(int(whole) >> kept << kept))


class AcceptRate:
    """Connections per second of one entity, and the most that it may make. `bound` INT_MAX is no limit.

    Replacing `bound` leaves what was counted alone. A wait is never longer than one window. Without a bound a
    connection costs an addition: those of one millisecond are recorded together, before anybody looks.
    """

    __slots__ = ("_longest_ms", "_rate", "_tally", "bound", "last_record_ms")

    def __init__(self, window: Window, bound: float, now_ms: int = 0) -> None:
        self.bound = bound
        self.last_record_ms = now_ms
        self._tally = 0
        self._rate = Rate(window)
        self._longest_ms = window.window_ms

    def record(self, now_ms: int) -> int:
        """Counts a connection; the milliseconds that bring the rate down to its bound, 0 within it."""
        if now_ms != self.last_record_ms:
            self._settle()
            self.last_record_ms = now_ms
        self._tally += 1
        if self.bound == INT_MAX:
            return 0
        observed = self.observed(now_ms)
        if observed <= self.bound:
            return 0
        window_ms = self._rate.window_size_ms(now_ms)
        return bounded_throttle_time_ms(observed, self.bound, window_ms, self._longest_ms)

    def unrecord(self, now_ms: int) -> None:
        """Takes a connection back that is not accepted after all."""
        self._settle()
        self._rate.record(-1.0, now_ms)

    def observed(self, now_ms: int) -> float:
        """Connections per second over the windows in sight."""
        self._settle()
        return self._rate.measure(now_ms)

    def peek(self, now_ms: int) -> float:
        """The same for those who only look; see `Rate.peek`."""
        self._settle()
        return self._rate.peek(now_ms)

    def _settle(self) -> None:
        if self._tally:
            self._rate.record(self._tally, self.last_record_ms)
            self._tally = 0


class IpRates:
    """`connection_creation_rate` by address: the rules, and a sensor for each address that one governs.

    Addresses are those that are counted (`counted_address`), but for those of `set_rule`. One that may
    connect as it likes has no sensor. One that was idle for an hour loses it, and when
    there are `max_sensors`, so does the eighth of them that was idle longest.
    """

    __slots__ = (
        "_default",
        "_ipv6_prefix",
        "_max_sensors",
        "_rules",
        "_window",
        "active",
        "sensors",
    )

    def __init__(
        self, window: Window, max_sensors: int = MAX_SENSORS, *, ipv6_prefix: int = WHOLE_ADDRESS
    ) -> None:
        self.active = False
        """Whether any rule exists; while it is False callers need not ask."""
        self.sensors: dict[str, AcceptRate] = {}
        self._window = window
        self._max_sensors = max_sensors
        self._default = float(INT_MAX)
        self._ipv6_prefix = ipv6_prefix
        self._rules: dict[str, dict[str, float]] = {}
        """By the address that is counted, those of the addresses that it stands for: one, as a rule."""

    def set_rule(self, address: str | Default, rate: float | None) -> None:
        """Sets the rate of one address or of every other one, or removes it (None). Usage is kept, and each
        sensor has its new bound when it is next asked for: there may be thousands of both.
        """
        bound = float(INT_MAX) if rate is None else rate
        if isinstance(address, Default):
            self._default = bound
        else:
            self._set_rule(canonical_address(address), rate)
        self.active = bool(self._rules) or self._default != INT_MAX

    def rate_for(self, address: str) -> float:
        """What the address may make in a second; where several rules are for it, the least. The default is
        for clients, and so never for 0.0.0.0.
        """
        rules = self._rules.get(address)
        if rules is not None:
            return min(rules.values())
        return float(INT_MAX) if address == ANY_ADDRESS else self._default

    def wait_at(self, observed: float, bound: float) -> int:
        """For how long a connection is held whose address has made `observed` per second for all whole
        windows.
        """
        window = self._window
        span_ms = (window.samples - 1) * window.window_ms
        return max(bounded_throttle_time_ms(observed, bound, span_ms, window.window_ms), 0)

    def rule_of(self, address: str) -> Entity:
        """The entity whose rule governs an address that has a sensor."""
        rules = self._rules.get(address)
        return Entity(ip=DEFAULT if rules is None else min(rules, key=lambda name: (rules[name], name)))

    def sensor(self, address: str, now_ms: int) -> AcceptRate | None:
        """The sensor of an address, made on first use; None where no rule governs it."""
        bound = self.rate_for(address)
        if bound == INT_MAX:
            return None
        sensor = self.sensors.get(address)
        if sensor is None:
            if len(self.sensors) >= self._max_sensors:
                self._drop(nsmallest(max(1, self._max_sensors // 8), self.sensors, key=self._last_use))
            sensor = self.sensors[address] = AcceptRate(self._window, bound, now_ms)
        sensor.bound = bound
        return sensor

    def expire(self, now_ms: int) -> int:
        """Forgets sensors that were idle for more than an hour; how many."""
        return self._drop([ip for ip in self.sensors if now_ms - self._last_use(ip) > IDLE_MS])

    def _set_rule(self, name: str, rate: float | None) -> None:
        address = counted_address(name, self._ipv6_prefix)
        rules = self._rules.setdefault(address, {})
        if rate is None:
            rules.pop(name, None)
        else:
            rules[name] = rate
        if not rules:
            del self._rules[address]

    def _last_use(self, address: str) -> int:
        return self.sensors[address].last_record_ms

    def _drop(self, addresses: Iterable[str]) -> int:
        gone = list(addresses)
        for address in gone:
            del self.sensors[address]
        return len(gone)
