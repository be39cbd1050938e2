"""Whether the ports of upstream nodes are free: no two listeners may need the same one.

Called by `weir gateway` before it starts, and before listeners change. A node whose port is taken has no
address, and clients that follow another listener's address to it would reach the wrong node.
"""

from itertools import combinations

from broker.common.errors import ConfigError
from broker.config.listeners import Address, ListenerConfig
from broker.config.sections.console import ConsoleConfig
from broker.config.sections.gateway import GatewayConfig, PortRange
from broker.config.sections.network import NetworkConfig

KEY = "gateway.port.range"
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


def check_node_ports(gateway: GatewayConfig, network: NetworkConfig, console: ConsoleConfig) -> None:
    """Check that the ranges of ports overlap neither each other nor another port of the gateway.

    Listeners on different addresses of the machine may have the same range. Raises ConfigError.
    """
    listeners = network.resolved_listeners()
    ranges = [(each, found) for each in listeners if (found := range_of(gateway, each.name)) is not None]
    for listener, own in ranges:
        for other in listeners:
            if _contains(own, listener.host, Address(other.host, other.port)):
                raise _refused(
                    gateway,
                    listener,
                    own,
                    f"does not contain the port of the listener {other.name}, {other.port}",
                )
        address = console.listener
        if address is not None and _contains(own, listener.host, address):
            raise _refused(
                gateway, listener, own, f"does not contain the port of console.listener, {address.port}"
            )
    for (first, one), (second, two) in combinations(ranges, 2):
        if two.last < one.first or one.last < two.first:
            continue
        if one != two or _meet(first.host, second.host):
            allowed = (
                f"does not overlap that of the listener {first.name}, {one} "
                f"(listener.name.{second.name.lower()}.{KEY} is for {second.name} alone)"
            )
            raise _refused(gateway, second, two, allowed)


def range_of(gateway: GatewayConfig, listener: str) -> PortRange | None:
    """Return the ports of upstream nodes on a listener; None if it names them by SNI, or not at all."""
    own = gateway.for_listener(listener)
    return None if own.sni_pattern else own.port_range


def _contains(ports: PortRange, host: str, address: Address) -> bool:
    return ports.first <= address.port <= ports.last and _meet(host, address.host)


def _meet(host: str, other: str) -> bool:
    """Return whether a port cannot be bound at both hosts."""
    return host == other or host in EVERYWHERE or other in EVERYWHERE


def _refused(
    gateway: GatewayConfig, listener: ListenerConfig, ports: PortRange, required: str
) -> ConfigError:
    is_own = any(name == listener.name and field == "port_range" for name, field, _ in gateway.overrides)
    key = f"listener.name.{listener.name.lower()}.{KEY}" if is_own else KEY
    return ConfigError(key, ports, f"a range that {required}")
