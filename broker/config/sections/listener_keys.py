"""Listener addresses and roles: the listeners' part of `NetworkConfig`.

(Kafka: SocketServerConfigs, AbstractKafkaConfig.validateValues.) Clients use the data plane. Controller
listeners are for administrators, with their own queue and handlers (KIP-919); the control plane is the same
for other brokers, in clusters that still have one (KIP-291).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from broker.config.kinds import choices_of, one_of
from broker.config.listeners import (
    ADVERTISED,
    LISTENER_NAME,
    LISTENER_NAMES,
    LISTENERS,
    PROTOCOL_MAP,
    Address,
    Endpoint,
    Listener,
    Plane,
    SecurityProtocol,
    Server,
)
from broker.config.setting import ListenerSection, setting
from broker.errors import ConfigError

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class ListenerKeys(ListenerSection):
    """The keys, and the listeners they define."""

    listeners: tuple[Endpoint, ...] = setting(
        "listeners",
        (Endpoint("PLAINTEXT", Address("127.0.0.1", 9092)),),
        LISTENERS,
        "The addresses that the broker listens on. An empty host means all interfaces; port 0 lets the "
        "system choose.",
        kafka_default="PLAINTEXT://:9092",
        why="Without authentication, the broker does not listen on external interfaces by default.",
        dynamic=True,
        per_broker=True,
    )
    advertised_listeners: tuple[Endpoint, ...] = setting(
        "advertised.listeners",
        (),
        ADVERTISED,
        "The addresses that clients connect to, by listener name. A listener that is not listed here "
        "advertises its bound address, which must not be a wildcard (0.0.0.0, ::).",
        dynamic=True,
        per_broker=True,
    )
    protocol_map: tuple[tuple[str, SecurityProtocol], ...] = setting(
        "listener.security.protocol.map",
        tuple((protocol.value, protocol) for protocol in SecurityProtocol),
        PROTOCOL_MAP,
        "The security protocol of each listener name. It cannot change while the listener is open.",
        dynamic=True,
        per_broker=True,
    )
    inter_broker_listener_name: str = setting(
        "inter.broker.listener.name",
        "",
        LISTENER_NAME,
        "The listener for other brokers. max.connections and max.connection.creation.rate do not limit it "
        "while the broker has another listener (controller listeners do not count). Empty: the listener "
        "named like security.inter.broker.protocol, if it exists.",
    )
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        SecurityProtocol.PLAINTEXT.value,
        one_of(*SecurityProtocol),
        "Names the listener for other brokers if inter.broker.listener.name is not set.",
    )
    process_roles: tuple[str, ...] = setting(
        "process.roles",
        ("broker",),
        choices_of("broker", "controller"),
        "`broker`, or `broker,controller` to also serve the listeners of controller.listener.names. The "
        "broker stores its own metadata either way.",
        kafka_default="none",
        why="Weir is a broker.",
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        (),
        LISTENER_NAMES,
        "Listeners for administrators, which serve `--bootstrap-controller`; valid only with the role "
        "`controller`. They have their own request queue, handlers, connection quotas and request memory; "
        "all limits on connections and queued.max.request.bytes apply to them separately.",
    )
    control_plane_listener_name: str = setting(
        "control.plane.listener.name",
        "",
        LISTENER_NAME,
        "A listener with its own processor, handler and queue of 20 requests, which the load of other "
        "listeners does not delay. It shares connection quotas and request memory with the broker's other "
        "listeners, as in Kafka up to 3.9. Empty: none.",
    )

    @property
    def inter_broker_listener(self) -> str:
        """Return the name of the listener for other brokers; the listener need not exist."""
        return self.inter_broker_listener_name or self.security_inter_broker_protocol

    @property
    def servers(self) -> tuple[Server, ...]:
        """Return the socket servers that have a listener, the broker's first."""
        served = {self.plane_of(endpoint.name).server for endpoint in self.listeners}
        return tuple(server for server in Server if server in served)

    def plane_of(self, name: str) -> Plane:
        if name == self.control_plane_listener_name:
            return Plane.CONTROL
        return Plane.CONTROLLER if name in self.controller_listener_names else Plane.DATA

    def resolved_listeners(self) -> tuple[Listener, ...]:
        """Return each listener with its protocol and advertised address. Raises ConfigError for conflicts."""
        protocols = dict(self.protocol_map)
        advertised = {endpoint.name: endpoint.address for endpoint in self.advertised_listeners}
        names = [endpoint.name for endpoint in self.listeners]
        if len(set(names)) < len(names):
            raise ConfigError("listeners", ",".join(map(str, self.listeners)), "each listener name once")
        if conflicting := _conflicting(self.listeners):
            raise ConfigError(
                "listeners", ",".join(map(str, conflicting)), "a separate port for each listener"
            )
        if unknown := sorted(set(advertised) - set(names)):
            raise ConfigError(
                "advertised.listeners", ",".join(unknown), f"only names in listeners: {', '.join(names)}"
            )
        for endpoint in self.listeners:
            address = advertised.get(endpoint.name, endpoint.address)
            if address.host in EVERYWHERE:
                if endpoint.name in advertised:
                    key, value = "advertised.listeners", f"{endpoint.name}://{address}"
                    where = "expected an address that clients can reach"
                else:
                    key, value = "listeners", str(endpoint)
                    where = f"set {endpoint.name}://host:port in advertised.listeners to a reachable address"
                raise ConfigError(key, value, f"{where}; {address.host} means every interface")
        if unmapped := sorted(set(names) - set(protocols)):
            raise ConfigError("listeners", ",".join(unmapped), "only names in listener.security.protocol.map")
        for key, value, allowed in self._role_conflicts(names):
            raise ConfigError(key, value, allowed)
        return tuple(
            Listener(
                endpoint.name,
                protocols[endpoint.name],
                endpoint.address.host,
                endpoint.address.port,
                advertised.get(endpoint.name, endpoint.address).host,
                advertised.get(endpoint.name, endpoint.address).port,
                self.plane_of(endpoint.name),
            )
            for endpoint in self.listeners
        )

    def _role_conflicts(self, names: list[str]) -> Iterator[tuple[str, str, str]]:
        """Yield conflicts between listener roles: key, value, what is allowed."""
        controllers = ",".join(self.controller_listener_names)
        served = [name for name in self.controller_listener_names if name in names]
        if "broker" not in self.process_roles:
            yield "process.roles", ",".join(self.process_roles), "broker, or broker,controller"
        if "controller" in self.process_roles and not served:
            yield "controller.listener.names", controllers, f"at least one of listeners: {', '.join(names)}"
        if "controller" not in self.process_roles and served:
            yield (
                "controller.listener.names",
                controllers,
                "process.roles=controller is required for names in listeners",
            )
        for_brokers = [name for name in names if self.plane_of(name) is not Plane.CONTROLLER]
        if not any(self.plane_of(name) is Plane.DATA for name in names):
            yield "listeners", ",".join(names), "at least one listener for clients"
        others = f"a name in listeners that is not a controller's: {', '.join(for_brokers)}"
        if self.inter_broker_listener_name and self.inter_broker_listener_name not in for_brokers:
            yield "inter.broker.listener.name", self.inter_broker_listener_name, others
        control = self.control_plane_listener_name
        if control and (control not in for_brokers or control == self.inter_broker_listener):
            yield "control.plane.listener.name", control, f"{others}, nor inter.broker.listener.name"


def _conflicting(listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, Endpoint] | None:
    """Return two listeners that cannot both be bound: the same port on the same or a wildcard address."""
    for one, other in combinations(listeners, 2):
        hosts = {one.address.host, other.address.host}
        same_place = len(hosts) == 1 or not hosts.isdisjoint({"", *EVERYWHERE})
        if one.address.port == other.address.port != 0 and same_place:
            return one, other
    return None
