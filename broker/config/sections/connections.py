"""Limits on the number and the rate of connections. For broker.network's connection gate."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from broker.common.errors import ConfigError
from broker.config.kinds import (
    INT_MAX,
    READ_ONCE,
    ConfigKind,
    ConfigType,
    decimal,
    integer,
    list_of,
    one_of,
    trimmed,
)
from broker.config.listeners import read_host
from broker.config.setting import ListenerSection, Setting

_COUNT: Final = integer(0)


def _read_override(text: str) -> tuple[str, int]:
    """Parse `host:count`, which may have spaces around the colon; raise ValueError."""
    host, colon, count = text.rpartition(":")
    if not colon:
        raise ValueError("no count")
    return read_host(host.rstrip().removeprefix("[").removesuffix("]")), _COUNT.read(count.lstrip())


def _write_override(override: tuple[str, int]) -> str:
    return f"{override[0]}:{override[1]}"


OVERRIDES: Final = replace(
    list_of(_read_override, "a list of host:count or address:count", write_item=_write_override),
    type=ConfigType.STRING,
)


def _read_rate(text: str) -> float:
    rate: float = _RATE.read(text)
    return int(rate) if rate.is_integer() else rate


_RATE: Final = decimal(0.01, INT_MAX)
RATE: Final = replace(
    _RATE, allowed=f"a number from 0.01 to {INT_MAX}", read=_read_rate, write=lambda rate: f"{rate:.15g}"
)
"""Connections per second; 0.1 is six a minute."""

_DIGITS: Final = frozenset("0123456789.")


def _reader_of_users(number: ConfigKind) -> Callable[[str], tuple[tuple[str, float], ...]]:
    @lru_cache(maxsize=READ_ONCE)
    def read(text: str) -> tuple[tuple[str, float], ...]:
        found: list[tuple[str, float]] = []
        name: list[str] = []
        for part in text.split(",") if text else ():
            last, colon, digits = part.rpartition(":")
            digits = trimmed(digits)
            if not (colon and digits and _DIGITS.issuperset(digits)):
                name.append(part)  # the comma is the user's
                continue
            user = trimmed(",".join((*name, last)))
            if not user or "\n" in user:
                raise ValueError("no user")
            found.append((user, number.read(digits)))
            name.clear()
        if name:
            raise ValueError("no number")
        if len(dict(found)) < len(found):
            raise ValueError("a user is named twice")
        return tuple(found)

    return read


def users_with(number: ConfigKind) -> ConfigKind:
    """Return the kind of `user:number,...`. Users can contain commas and colons, as in certificates."""
    least = number.allowed.removeprefix("a number ").removeprefix("a whole number ")
    return ConfigKind(
        ConfigType.STRING,
        f"a list of user:number, the numbers {least}",
        _reader_of_users(number),
        lambda users: ",".join(f"{user}:{number.write(value)}" for user, value in users),
        separator=",",
    )


@dataclass(frozen=True, slots=True)
class ConnectionConfig(ListenerSection):
    """A listener without its own value uses the broker's value; so does the inter-broker listener."""

    max_connections: int = Setting(
        "max.connections", INT_MAX, integer(1), "connections", dynamic=True, listener_too=True
    ).described(
        "Maximum number of open connections. At the limit, accepting stops until a connection closes. The "
        "inter-broker listener accepts up to its own limit; for each such connection, another listener's "
        "connection is closed: one whose peer is gone, else the least recently used. The controller's "
        "listeners are counted separately under the same limit."
    )
    max_creation_rate: int = Setting(
        "max.connection.creation.rate", INT_MAX, integer(1), "connections/s", dynamic=True, listener_too=True
    ).described(
        "Maximum rate of accepted connections per second. Ten seconds' worth (quota.window.*) may arrive at "
        "once; beyond that, accepting pauses until it is the next connection's turn, or with "
        "quota.bandwidth.algorithm=rate for at most one window. Only its own limit applies to the "
        "inter-broker listener."
    )
    max_connections_per_ip: int = Setting(
        "max.connections.per.ip", INT_MAX, integer(0), "connections", dynamic=True
    ).described(
        "Maximum number of connections per address; further ones are closed. 0 allows only the addresses "
        "of max.connections.per.ip.overrides, and is invalid if that key is empty."
    )
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = Setting(
        "max.connections.per.ip.overrides", (), OVERRIDES, dynamic=True
    ).described(
        "The same for particular addresses or hosts: `10.0.0.7:100,bastion:5`. A host name is resolved "
        "when the key is set and covers all of its addresses."
    )
    ipv6_prefix_length: int = Setting(
        "connection.address.ipv6.prefix.length", 128, integer(16, 128), "bits", ours=True
    ).described(
        "Prefix length that groups IPv6 addresses for max.connections.per.ip, its overrides and the quota "
        "connection_creation_rate. With 64, all addresses of a /64, the usual allocation of a host, count "
        "as one address. Link-local addresses count individually; IPv4 addresses are not affected."
    )
    max_connections_per_user: int = Setting(
        "max.connections.per.user", INT_MAX, integer(0), "connections", dynamic=True, ours=True
    ).described(
        "Maximum number of connections per user (from SASL or the client certificate) on all listeners of "
        "the broker together, and as many on the controller's; further ones are refused. 0 allows only the "
        "users of max.connections.per.user.overrides. Unauthenticated connections are not counted."
    )
    max_connections_per_user_overrides: tuple[tuple[str, int], ...] = Setting(
        "max.connections.per.user.overrides", (), users_with(integer(0)), dynamic=True, ours=True
    ).described("The same for particular users: `alice:100,bob:5`.")
    max_creation_rate_per_user: float = Setting(
        "max.connection.creation.rate.per.user", INT_MAX, RATE, "connections/s", dynamic=True, ours=True
    ).described(
        "Maximum rate of connections per user and second; 0.1 is six a minute. A connection above the rate "
        "is delayed until it is its turn, or with quota.bandwidth.algorithm=rate for at most one window, and "
        "refused if the user still exceeds the rate."
    )
    max_creation_rate_per_user_overrides: tuple[tuple[str, float], ...] = Setting(
        "max.connection.creation.rate.per.user.overrides", (), users_with(RATE), dynamic=True, ours=True
    ).described("The same for particular users: `alice:20,bob:0.1`.")
    ip_throttle_mode: str = Setting(
        "ip.throttle.mode", "kip", one_of("kafka", "kip"), dynamic=True, ours=True
    ).described(
        "Treatment of a connection above its address's connection_creation_rate after its throttle time: "
        "`kafka` closes it, as Kafka does; `kip` checks again, as KIP-612 says, and serves it if the "
        "address is within its rate."
    )

    max_throttled_connections: int = Setting(
        "max.throttled.connections", 1_000, integer(0), "connections", dynamic=True, ours=True
    ).described(
        "Maximum number of connections that are throttled at once because their address (on each listener) "
        "or their user (on all listeners together) exceeds its rate. For a further one, the broker closes "
        "the throttled connection of an address with the earliest deadline, and refuses a login. 0: "
        "connections are not throttled but closed."
    )

    max_unauthenticated_connections_per_ip: int = Setting(
        "max.unauthenticated.connections.per.ip", 1_000, integer(1), "connections", dynamic=True, ours=True
    ).described(
        "Maximum number of connections per address, on all listeners, with an unfinished TLS handshake or "
        "SASL login. For a further one, the broker closes the oldest one that waits for its client; if "
        "none does, the new one."
    )
    max_unauthenticated_byte_rate_per_ip: int = Setting(
        "max.unauthenticated.byte.rate.per.ip", 2_097_152, integer(1_024), "bytes/s", dynamic=True, ours=True
    ).described(
        "Bytes per second that one address can send before login, on listeners with SASL or TLS. Unused "
        "bytes accumulate for ten seconds, so that many clients behind one address can log in at once. A "
        "connection above the limit is closed."
    )
    max_unauthenticated_frame_rate_per_ip: int = Setting(
        "max.unauthenticated.frame.rate.per.ip", 1_000, integer(1), "requests/s", dynamic=True, ours=True
    ).described(
        "The same for requests; a TLS handshake counts as 4. A login needs three or four; one that has "
        "started can finish."
    )

    def check(self) -> None:
        """Check the rule between keys. Raises ConfigError. (Kafka: KafkaConfig.validateValues)"""
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ConfigError(
                "max.connections.per.ip",
                self.max_connections_per_ip,
                "0 only if max.connections.per.ip.overrides is set, else at least 1",
            )
