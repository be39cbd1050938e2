"""How many connections there may be and how fast they may come. For broker.network's connection gate."""

from dataclasses import dataclass, replace
from typing import Final

from broker.config.kinds import INT_MAX, ConfigType, integer, list_of, one_of
from broker.config.listeners import read_host
from broker.config.setting import ListenerRoom, setting

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


@dataclass(frozen=True, slots=True)
class ConnectionConfig(ListenerRoom):
    """A listener without a value of its own has the broker's, for itself; so does the protected one."""

    max_connections: int = setting(
        "max.connections",
        INT_MAX,
        integer(1),
        "Connections there may be at once. At the limit no more are accepted until one ends; the "
        "inter-broker listener goes on to its own limit, and the least recently used connections of the "
        "others are closed for it.",
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
        "max.connections.per.ip.overrides.",
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
    ip_throttle_mode: str = setting(
        "ip.throttle.mode",
        "kafka",
        one_of("kafka", "kip"),
        "What becomes of a connection that breaks its address's connection_creation_rate, once the time that "
        "repays it is over: `kafka` closes it, as Kafka does; `kip` looks again, as KIP-612 says, and serves "
        "it if the address is within its rate by then.",
        dynamic=True,
        ours=True,
    )
