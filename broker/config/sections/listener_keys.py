"""Where the broker listens, and what each of its listeners is for. The listeners' part of `NetworkConfig`.

(Kafka: SocketServerConfigs, AbstractKafkaConfig.validateValues.) Clients use the data plane. A controller
listener is one for administrators, with queue and handlers of its own (KIP-919); a control plane is the
same for the other brokers of clusters that still had one (KIP-291).
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
    """The keys, and what they come to together."""

    listeners: tuple[Endpoint, ...] = setting(
        "listeners",
        (Endpoint("PLAINTEXT", Address("127.0.0.1", 9092)),),
        LISTENERS,
        "Where the broker listens. An empty host is every interface; port 0 lets the system choose.",
        kafka_default="PLAINTEXT://:9092",
        why="Nothing without a password listens to the outside unless it is told to.",
        dynamic=True,
        per_broker=True,
    )
    advertised_listeners: tuple[Endpoint, ...] = setting(
        "advertised.listeners",
        (),
        ADVERTISED,
        "What clients are told to connect to, by listener name; a listener that is not named here is "
        "advertised as it is bound, which must not be on every interface (0.0.0.0, ::).",
        dynamic=True,
        per_broker=True,
    )
    protocol_map: tuple[tuple[str, SecurityProtocol], ...] = setting(
        "listener.security.protocol.map",
        tuple((protocol.value, protocol) for protocol in SecurityProtocol),
        PROTOCOL_MAP,
        "The security protocol of each listener name. That of a listener that is served cannot change.",
        dynamic=True,
        per_broker=True,
    )
    inter_broker_listener_name: str = setting(
        "inter.broker.listener.name",
        "",
        LISTENER_NAME,
        "The listener for other brokers. max.connections and max.connection.creation.rate do not bind it "
        "while the broker has another listener; a controller's listener is not one of the broker's. Nothing: "
        "the one that is named like security.inter.broker.protocol, if there is one.",
    )
    security_inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        SecurityProtocol.PLAINTEXT.value,
        one_of(*SecurityProtocol),
        "Names the listener for other brokers where inter.broker.listener.name does not.",
    )
    process_roles: tuple[str, ...] = setting(
        "process.roles",
        ("broker",),
        choices_of("broker", "controller"),
        "`broker`, or `broker,controller` to serve the listeners of controller.listener.names too. This "
        "broker keeps its own metadata in either.",
        kafka_default="none",
        why="A broker is what this is.",
    )
    controller_listener_names: tuple[str, ...] = setting(
        "controller.listener.names",
        (),
        LISTENER_NAMES,
        "Listeners for administrators alone, that serve `--bootstrap-controller`; only with the role "
        "`controller`. They have a request queue, handlers, connection quotas and request memory of their "
        "own; every limit on connections and queued.max.request.bytes holds for them and for the other "
        "listeners separately.",
    )
    control_plane_listener_name: str = setting(
        "control.plane.listener.name",
        "",
        LISTENER_NAME,
        "A listener with one processor, one handler and a queue of 20 requests, that the others cannot hold "
        "up. It shares connection quotas and request memory with the broker's other listeners, as in Kafka, "
        "which had it up to 3.9. Nothing: none.",
    )

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener for other brokers, whether there is one now or not."""
        return self.inter_broker_listener_name or self.security_inter_broker_protocol

    @property
    def servers(self) -> tuple[Server, ...]:
        """The socket servers that have a listener; the broker's comes first."""
        served = {self.plane_of(endpoint.name).server for endpoint in self.listeners}
        return tuple(server for server in Server if server in served)

    def plane_of(self, name: str) -> Plane:
        if name == self.control_plane_listener_name:
            return Plane.CONTROL
        return Plane.CONTROLLER if name in self.controller_listener_names else Plane.DATA

    def resolved_listeners(self) -> tuple[Listener, ...]:
        """Each listener with its protocol and its advertised address. Raises ConfigError where they do not
        fit together.
        """
        protocols = dict(self.protocol_map)
        advertised = {endpoint.name: endpoint.address for endpoint in self.advertised_listeners}
        names = [endpoint.name for endpoint in self.listeners]
        if len(set(names)) < len(names):
            raise ConfigError("listeners", ",".join(map(str, self.listeners)), "each listener name once")
        if meeting := _meeting(self.listeners):
            raise ConfigError("listeners", ",".join(map(str, meeting)), "a port of its own for each listener")
        if unknown := sorted(set(advertised) - set(names)):
            raise ConfigError(
                "advertised.listeners", ",".join(unknown), f"only names in listeners: {', '.join(names)}"
            )
        for endpoint in self.listeners:
            told = advertised.get(endpoint.name, endpoint.address)
            if told.host in EVERYWHERE:
                if endpoint.name in advertised:
                    key, value = "advertised.listeners", f"{endpoint.name}://{told}"
                    where = "an address that clients can reach"
                else:
                    key, value = "listeners", str(endpoint)
                    where = (
                        f"with {endpoint.name}://host:port in advertised.listeners, which clients can reach"
                    )
                raise ConfigError(key, value, f"{where}; {told.host} is every interface of this machine")
        if unmapped := sorted(set(names) - set(protocols)):
            raise ConfigError("listeners", ",".join(unmapped), "only names in listener.security.protocol.map")
        for key, value, allowed in self._misfits(names):
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

    def _misfits(self, names: list[str]) -> Iterator[tuple[str, str, str]]:
        """What the roles of listeners have against each other: key, value, what is allowed."""
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
                "none of listeners without process.roles=controller",
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


def _meeting(listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, Endpoint] | None:
    """Two that cannot both be bound: the same port of the same address, or of one and of all."""
    for one, other in combinations(listeners, 2):
        hosts = {one.address.host, other.address.host}
        same_place = len(hosts) == 1 or not hosts.isdisjoint({"", *EVERYWHERE})
        if one.address.port == other.address.port != 0 and same_place:
            return one, other
    return None
