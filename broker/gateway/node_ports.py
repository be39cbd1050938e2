"""A port for each upstream node on each listener: opened when the node appears, closed when it leaves.

Connections that a node's port has accepted stay open when the port closes; they end with their upstream
connections. A port that is taken is tried again whenever the nodes change, and logged once until it is free.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final

import trio

from broker.common.errors import ConfigError
from broker.config.listeners import Address, ListenerConfig
from broker.config.sections import GatewayConfig, NetworkConfig
from broker.config.sections.gateway import NODE_ID, NodeAddresses, PortRange, range_of
from broker.network.acceptor.acceptor import Acceptor
from broker.network.listener import Listener
from broker.network.server_factory import LOOPBACK, socket_options
from broker.network.socket_server import SocketServer
from broker.network.supervisor import Supervisor, open_supervisor

logger = logging.getLogger(__name__)

MAX_ADVERTISED: Final = 10_000
"""Addresses that are remembered: more than any cluster has nodes, times listeners. Upstream brokers can name
nodes that do not exist.
"""


Elsewhere = Callable[[str, int], Address | None]
"""Takes a listener and a node; returns the node's address at another gateway, None if there is none."""


class NodePort:
    """One open port, whose connections the processors of `listener` serve."""

    def __init__(self, acceptor: Acceptor, listener: Listener) -> None:
        self.acceptor = acceptor
        self.listener = listener
        self.scope = trio.CancelScope()

    def close(self) -> None:
        """Free the port at once: its node or its listener may come back before the task has ended."""
        self.scope.cancel()
        self.acceptor.close()


class NodePorts:
    """`nodes` returns the ids of the present upstream nodes. Call `update` when they change. `on_unknown` is
    called when a response to a client names another node.
    """

    def __init__(
        self,
        config: GatewayConfig,
        network: NetworkConfig,
        server: SocketServer,
        nodes: Callable[[], Collection[int]],
        on_unknown: Callable[[], None],
    ) -> None:
        self._config = config
        self._network = network
        self._server = server
        self._nodes = nodes
        self._on_unknown = on_unknown
        self._ports: dict[tuple[str, int], NodePort] = {}
        self._node_of: dict[int, int] = {}
        self._refused: set[tuple[str, int]] = set()
        self._taken: set[tuple[str, int]] = set()
        self._changed = trio.Event()
        # What `advertised` has returned since the last change of ports, nodes or listeners.
        self._advertised: dict[tuple[str, int], Address | None] = {}
        self._known_settings: dict[str, tuple[ListenerConfig | None, GatewayConfig]] = {}
        self._elsewhere: Elsewhere | None = None
        self._are_closed = False
        self.version = 0
        """Changes with the addresses of nodes."""

    def node_of(self, port: int) -> int | None:
        """Return the node that a local port stands for; None for a bootstrap port."""
        return self._node_of.get(port)

    def node_of_name(self, listener: str, server_name: str) -> int | None:
        """Return the node that a TLS client of a listener asked for; None if the name is not of
        `gateway.sni.pattern`. The node need not exist.
        """
        before, _, behind = self._config.for_listener(listener).sni_pattern.lower().partition(NODE_ID.lower())
        name = server_name.lower()
        digits = name[len(before) : len(name) - len(behind)]
        if not before + behind or not (name.startswith(before) and name.endswith(behind)):
            return None
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None

    def is_open(self, listener: str, node_id: int) -> bool:
        """Return whether a node's port on a listener accepts connections."""
        return (listener, node_id) in self._ports

    def advertised_host(self, listener: str) -> str:
        """Return the advertised host of a listener, without SNI names."""
        endpoint, _ = self._settings(listener)
        return (endpoint is not None and endpoint.advertised_host) or LOOPBACK

    def advertised(self, listener: str, node_id: int) -> Address | None:
        """Return the advertised address of a node on a listener, or None if it has none, or another program
        has its port. From `lead_away` on it is that at another gateway, if there is one.
        """
        key = (listener, node_id)
        try:
            return self._advertised[key]
        except KeyError:
            if node_id not in self._nodes():
                self._on_unknown()
            address = None if self._elsewhere is None else self._elsewhere(listener, node_id)
            if address is None and key not in self._taken:
                address = self.planned(listener, node_id)
            if len(self._advertised) < MAX_ADVERTISED:
                self._advertised[key] = address
            return address

    def planned(self, listener: str, node_id: int) -> Address | None:
        """Return the address that a node has for clients of a listener, or will have when its port is free;
        None if it has none.
        """
        endpoint, own = self._settings(listener)
        if endpoint is None:
            return None
        if own.sni_pattern:
            shared = endpoint.advertised_port or self._bound_port(listener)
            return None if shared is None else Address(own.sni_pattern.replace(NODE_ID, str(node_id)), shared)
        port = own.port_range.port_of(node_id) if own.port_range is not None else None
        return None if port is None else Address(endpoint.advertised_host or LOOPBACK, port)

    def _bound_port(self, listener: str) -> int | None:
        """Return the port of a listener, None if it is not open. One of its name may still be ending."""
        found = (each for each in self._server.listeners if each.name == listener and not each.ending)
        bound = next(found, None)
        return None if bound is None else bound.acceptor.address[1]

    def addresses_of(self, listener: Listener) -> NodeAddresses | None:
        """Return the planned addresses of all nodes for clients of a listener; None if there are none."""
        endpoint, own = self._settings(listener.name)
        if endpoint is None:
            return None
        if own.sni_pattern:
            port = endpoint.advertised_port or listener.acceptor.address[1]
            return NodeAddresses(own.sni_pattern, port, port)
        ports = own.port_range
        return (
            None
            if ports is None
            else NodeAddresses(self.advertised_host(listener.name), ports.first, ports.last)
        )

    def _settings(self, listener: str) -> tuple[ListenerConfig | None, GatewayConfig]:
        """Return the endpoint of a listener, None if it has gone, and its settings."""
        known = self._known_settings.get(listener)
        if known is None:
            endpoints = self._network.resolved_listeners()
            endpoint = next((each for each in endpoints if each.name == listener), None)
            known = self._known_settings[listener] = endpoint, self._config.for_listener(listener)
        return known

    def configure(self, network: NetworkConfig) -> None:
        """Follow a change of listeners or of their advertised addresses."""
        self._network = network
        self.update()

    def close(self) -> None:
        """Close all ports, and open none again."""
        self._are_closed = True
        self.update()

    def lead_away(self, elsewhere: Elsewhere) -> None:
        """Advertise the addresses that `elsewhere` returns; call `update` when they change. Open no port
        again, and close those whose nodes have no other address there.

        Clients that know an old address come back to it: some ask no one else for the new one.
        """
        self._elsewhere = elsewhere
        self.update()

    @property
    def lead_somewhere(self) -> bool:
        """Whether a port stays open after `lead_away`."""
        return any(self._stays(*key) for key in self._ports)

    def _stays(self, listener: str, node_id: int) -> bool:
        """Return whether the port of a node may be open."""
        if self._are_closed or self._elsewhere is None:
            return not self._are_closed
        address = self._elsewhere(listener, node_id)
        return (
            (listener, node_id) in self._ports
            and address is not None
            and address != self.planned(listener, node_id)
        )

    def update(self) -> None:
        """Open and close ports after a change of the nodes or of the listeners."""
        self._forget_addresses()
        self._changed.set()

    def _forget_addresses(self) -> None:
        self.version += 1
        self._advertised.clear()
        self._known_settings.clear()

    async def run(self) -> None:
        """Keep the ports until cancelled."""
        async with open_supervisor() as nursery:
            while True:
                self._changed = trio.Event()
                self._open_and_close(nursery)
                await self._changed.wait()

    def _open_and_close(self, nursery: Supervisor) -> None:
        wanted: dict[tuple[str, int], tuple[Listener, int]] = {}
        for listener in self._server.listeners:
            port_range = range_of(self._config, listener.name)
            if port_range is None or listener.ending:
                continue
            for node_id in self._nodes():
                if not self._stays(listener.name, node_id):
                    continue
                port = port_range.port_of(node_id)
                if port is None:
                    self._refuse(listener.name, node_id, port_range)
                else:
                    wanted[listener.name, node_id] = (listener, port)
        for key, node_port in list(self._ports.items()):
            if key not in wanted or wanted[key][0] is not node_port.listener:
                del self._ports[key]
                node_port.close()
        if not self._taken <= wanted.keys():
            self._taken &= wanted.keys()
            self._forget_addresses()
        for key, (listener, port) in wanted.items():
            if key not in self._ports:
                self._open(nursery, listener, key[1], port)

    def _open(self, nursery: Supervisor, listener: Listener, node_id: int, port: int) -> None:
        options = socket_options(self._network.for_listener(listener.name))
        gate = listener.acceptor.gate.of_another_port()
        try:
            acceptor = Acceptor(listener.name, listener.endpoint.host, port, options, gate)
        except ConfigError as error:
            if (listener.name, node_id) not in self._taken:
                self._taken.add((listener.name, node_id))
                self._forget_addresses()
                logger.error(
                    "cannot open the port of an upstream node",
                    extra={"listener": listener.name, "node": node_id, "port": port, "reason": str(error)},
                )
            return
        if (listener.name, node_id) in self._taken:
            self._taken.remove((listener.name, node_id))
            self._forget_addresses()
        self._node_of[port] = node_id
        node_port = self._ports[listener.name, node_id] = NodePort(acceptor, listener)
        name = f"{listener.endpoint.plane}-kafka-socket-acceptor-{listener.task_label}-{port}"
        nursery.start_soon(self._accept, node_port, listener, name=name)

    async def _accept(self, node_port: NodePort, listener: Listener) -> None:
        try:
            with node_port.scope:
                await node_port.acceptor.run(listener.processors)
        finally:
            node_port.acceptor.close()

    def _refuse(self, listener: str, node_id: int, port_range: PortRange) -> None:
        """Log once that a node has no port."""
        if (listener, node_id) not in self._refused:
            self._refused.add((listener, node_id))
            logger.error(
                "gateway.port.range is too short for an upstream node: clients cannot reach it",
                extra={"listener": listener, "node": node_id, "range": str(port_range)},
            )
