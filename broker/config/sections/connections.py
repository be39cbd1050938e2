"""How many connections there may be and how fast they may come. For broker.network's connection gate."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from broker.config.kinds import INT_MAX, ConfigType, Kind, integer, list_of, one_of
from broker.config.listeners import read_host
from broker.config.setting import ListenerSection, setting
from broker.errors import ConfigError

_COUNT: Final = integer(0)


def _read_override(text: str) -> tuple[str, int]:
    """`host:count`; raises ValueError."""
    host, colon, count = text.rpartition(":")
    if not colon:
        raise ValueError("no count")
    return read_host(host.removeprefix("[").removesuffix("]")), _COUNT.read(count)


def _write_override(override: tuple[str, int]) -> str:
    return f"{override[0]}:{override[1]}"


OVERRIDES: Final = replace(
    list_of(_read_override, "a list of host:count or address:count", write_item=_write_override),
    type=ConfigType.STRING,
)


_USER_OVERRIDE: Final = re.compile(r"\s*(.+?)\s*:\s*([0-9]+)\s*(?:,|\Z)")


def _reader_of_users(least: int) -> Callable[[str], tuple[tuple[str, int], ...]]:
    number = integer(least)

    def read(text: str) -> tuple[tuple[str, int], ...]:
        found: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            item = _USER_OVERRIDE.match(text, at)
            if item is None:
                raise ValueError("no number")
            found.append((item[1], number.read(item[2])))
            at = item.end()
        if text.endswith(",") or len(dict(found)) < len(found):
            raise ValueError("an item is missing, or a user is named twice")
        return tuple(found)

    return read


def users_with(least: int) -> Kind:
    """`user:number,...`. A user's name may have commas and colons in it, as those of certificates have."""
    return Kind(
        ConfigType.STRING,
        f"a list of user:number, the numbers from {least} to 2147483647",
        _reader_of_users(least),
        lambda users: ",".join(map(_write_override, users)),
    )


@dataclass(frozen=True, slots=True)
class ConnectionConfig(ListenerSection):
    """A listener without a value of its own has the broker's, for itself; so does the protected one."""

    max_connections: int = setting(
        "max.connections",
        INT_MAX,
        integer(1),
        "Connections there may be at once. At the limit no more are accepted until one ends; the "
        "inter-broker listener goes on to its own limit, and connections of the others are closed for it: "
        "those whose peer is gone, then the least recently used. The controller's listeners are counted "
        "by themselves, under the same limit.",
        unit="connections",
        dynamic=True,
        listener_too=True,
    )
    max_creation_rate: int = setting(
        "max.connection.creation.rate",
        INT_MAX,
        integer(1),
        "Connections accepted in a second, over quota.window.*. Beyond it accepting waits, one window at "
        "most; the inter-broker listener is bound by its own limit only.",
        unit="connections/s",
        dynamic=True,
        listener_too=True,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        INT_MAX,
        integer(0),
        "Connections of one address at once; one more is closed. 0 leaves only the addresses of "
        "max.connections.per.ip.overrides, and is refused where that key is empty.",
        unit="connections",
        dynamic=True,
    )
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = setting(
        "max.connections.per.ip.overrides",
        (),
        OVERRIDES,
        "The same for particular addresses, or hosts, whose names are looked up when the key is set and "
        "stand for all of their addresses: `10.0.0.7:100,bastion:5`.",
        dynamic=True,
    )
    ipv6_prefix_length: int = setting(
        "connection.address.ipv6.prefix.length",
        128,
        integer(16, 128),
        "How many bits of an IPv6 address say whose it is, for max.connections.per.ip, its overrides and the "
        "quota connection_creation_rate: with 64, all addresses of a /64, which is what one host is usually "
        "given, are one. Link-local addresses are each their own, and IPv4 addresses are not concerned.",
        unit="bits",
        ours=True,
    )
    max_connections_per_user: int = setting(
        "max.connections.per.user",
        INT_MAX,
        integer(0),
        "Connections of one user, as SASL or a client's certificate says, at once on all of the broker's "
        "listeners, and as many on the controller's; one more is refused. 0 leaves only the users of "
        "max.connections.per.user.overrides. Connections without authentication are nobody's and not "
        "counted.",
        unit="connections",
        dynamic=True,
        ours=True,
    )
    max_connections_per_user_overrides: tuple[tuple[str, int], ...] = setting(
        "max.connections.per.user.overrides",
        (),
        users_with(0),
        "The same for particular users: `alice:100,bob:5`.",
        dynamic=True,
        ours=True,
    )
    max_creation_rate_per_user: int = setting(
        "max.connection.creation.rate.per.user",
        INT_MAX,
        integer(1),
        "Connections of one user in a second, over quota.window.*. One that comes too fast is held, one "
        "window at most, and refused if its user is not within the rate by then.",
        unit="connections/s",
        dynamic=True,
        ours=True,
    )
    max_creation_rate_per_user_overrides: tuple[tuple[str, int], ...] = setting(
        "max.connection.creation.rate.per.user.overrides",
        (),
        users_with(1),
        "The same for particular users: `alice:20,bob:1`.",
        dynamic=True,
        ours=True,
    )
    ip_throttle_mode: str = setting(
        "ip.throttle.mode",
        "kip",
        one_of("kafka", "kip"),
        "What becomes of a connection that breaks its address's connection_creation_rate, once the time that "
        "repays it is over: `kafka` closes it, as Kafka does; `kip` looks again, as KIP-612 says, and serves "
        "it if the address is within its rate by then.",
        dynamic=True,
        ours=True,
    )

    max_throttled_connections: int = setting(
        "max.throttled.connections",
        1_000,
        integer(0),
        "Connections that may be held at once because their address (on each listener) or their user (on all "
        "listeners together) connects too fast. For one more, the held one of an address whose time ends "
        "first is closed, and a login is refused. 0 holds none.",
        unit="connections",
        dynamic=True,
        ours=True,
    )

    max_unauthenticated_connections_per_ip: int = setting(
        "max.unauthenticated.connections.per.ip",
        1_000,
        integer(1),
        "Connections of one address at once whose TLS handshake or SASL login is not done, on all listeners. "
        "For one more, the eldest is closed for which the broker has nothing to do before its client says "
        "more; where there is none, the new one.",
        unit="connections",
        dynamic=True,
        ours=True,
    )
    max_unauthenticated_byte_rate_per_ip: int = setting(
        "max.unauthenticated.byte.rate.per.ip",
        2_097_152,
        integer(1_024),
        "Bytes in a second that one address may send before it has logged in, on listeners with SASL or TLS. "
        "What it does not use is kept for ten seconds, so that many clients behind one address may log in at "
        "once. A connection beyond it is closed.",
        unit="bytes/s",
        dynamic=True,
        ours=True,
    )
    max_unauthenticated_frame_rate_per_ip: int = setting(
        "max.unauthenticated.frame.rate.per.ip",
        1_000,
        integer(1),
        "The same for requests; a TLS handshake counts for 4. A login takes three or four, and one that has "
        "begun may end.",
        unit="requests/s",
        dynamic=True,
        ours=True,
    )

    def check(self) -> None:
        """The rule between keys. Raises ConfigError. (Kafka: KafkaConfig.validateValues)"""
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ConfigError(
                "max.connections.per.ip",
                self.max_connections_per_ip,
                "0 only if max.connections.per.ip.overrides is set, else at least 1",
            )
