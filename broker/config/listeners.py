"""Listeners: their addresses, protocols and roles, and the keys that define them.

Used by broker.config.sections.network and .console. Resolves no names. Clients use the data plane. Controller
listeners are for administrators, with their own queue and handlers (KIP-919); the control plane is the same
for other brokers, in clusters that still have one (KIP-291). (Kafka: SocketServerConfigs,
AbstractKafkaConfig.validateValues)
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from broker.common.errors import ConfigError
from broker.config.kinds import ConfigKind, ConfigType, choices_of, list_of, one_of
from broker.config.setting import ListenerSection, Setting

_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_HOST = re.compile(r"[A-Za-z0-9._:%-]+\Z")


class SecurityProtocol(StrEnum):
    """The protocol of a listener: with or without TLS, with or without SASL. (Kafka: SecurityProtocol)"""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        return self.endswith("SSL")

    @property
    def has_login(self) -> bool:
        """Whether clients log in by SASL."""
        return self.startswith("SASL_")


class Server(StrEnum):
    """The socket server of a listener. Each has its own connection quotas and request memory. (Kafka: the
    SocketServer of BrokerServer, that of ControllerServer)
    """

    BROKER = "broker"
    CONTROLLER = "controller"


class Plane(StrEnum):
    """The queue and handlers that serve a listener; task names start with the value."""

    DATA = "data-plane"
    CONTROL = "control-plane"
    CONTROLLER = "controller"

    @property
    def server(self) -> Server:
        """The control plane belongs to the broker's server. (KIP-291)"""
        return Server.CONTROLLER if self is Plane.CONTROLLER else Server.BROKER


@dataclass(frozen=True, slots=True)
class Address:
    """`host` has no brackets; empty means all interfaces. `port` 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One entry of `listeners` or `advertised.listeners`; the name is in upper case."""

    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """The bound and the advertised address of one listener. An advertised port of 0 means the bound port."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    plane: Plane = Plane.DATA

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return Address(self.host, self.port).is_loopback

    @property
    def is_local(self) -> bool:
        """Whether it is on loopback, without TLS and without SASL."""
        return self.is_loopback and self.protocol is SecurityProtocol.PLAINTEXT


def read_address(text: str) -> Address:
    """Parse `host:port`, `[v6]:port` or `:port`; raise ValueError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("an IPv6 address needs brackets")
    # At most five ASCII digits: int() also accepts digits of other scripts.
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ValueError("no port from 0 to 65535")
    return Address(read_host(host) if host else "", int(port))


def read_host(text: str) -> str:
    """Parse a host name or an address without brackets; raise ValueError."""
    if not _HOST.match(text):
        raise ValueError("not a host name or address")
    return text


def _read_endpoint(text: str) -> Endpoint:
    name, separator, rest = text.partition("://")
    if not separator or not _NAME.match(name):
        raise ValueError("no listener name")
    return Endpoint(name.upper(), read_address(rest))


def _read_protocol(text: str) -> tuple[str, SecurityProtocol]:
    name, separator, protocol = text.partition(":")
    if not separator or not _NAME.match(name):
        raise ValueError("no listener name")
    return name.upper(), SecurityProtocol(protocol.strip())


def _read_name(text: str) -> str:
    if text and not _NAME.match(text):
        raise ValueError("not a listener name")
    return text.upper()


def _read_optional_address(text: str) -> Address | None:
    return read_address(text) if text else None


MAX_LISTENERS: Final = 64
"""Ours; each has an acceptor and processors of its own, and its keys are read at every change."""

_ENDPOINT_FORM: Final = (
    "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092; a port is from 0 to 65535; at most "
    f"{MAX_LISTENERS} listeners"
)
LISTENERS: Final = list_of(_read_endpoint, _ENDPOINT_FORM, least=1, most=MAX_LISTENERS)
ADVERTISED: Final = list_of(_read_endpoint, _ENDPOINT_FORM, most=MAX_LISTENERS)
PROTOCOL_MAP: Final = list_of(
    _read_protocol,
    f"a list of NAME:protocol, protocol one of {', '.join(SecurityProtocol)}",
    write_item=lambda pair: f"{pair[0]}:{pair[1]}",
    type_=ConfigType.STRING,
)
LISTENER_NAME: Final = ConfigKind(ConfigType.STRING, "a listener name, or nothing at all", _read_name)
LISTENER_NAMES: Final = list_of(_read_name, "a list of listener names")
OPTIONAL_ADDRESS: Final = ConfigKind(
    ConfigType.STRING,
    "host:port with a port from 0 to 65535, or nothing at all",
    _read_optional_address,
    lambda address: str(address or ""),
)

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class ListenerKeys(ListenerSection):
    """The listeners' part of `NetworkConfig`."""

    listeners: tuple[Endpoint, ...] = Setting(
        "listeners",
        (Endpoint("PLAINTEXT", Address("127.0.0.1", 9092)),),
        LISTENERS,
        dynamic=True,
        per_broker=True,
    ).described(
        "The addresses that the broker listens on. An empty host means all interfaces; port 0 lets the "
        "system choose.",
        kafka_default="PLAINTEXT://:9092",
        why="Without authentication, the broker does not listen on external interfaces by default.",
    )
    advertised_listeners: tuple[Endpoint, ...] = Setting(
        "advertised.listeners", (), ADVERTISED, null_default=True
    ).described(
        "The addresses that clients connect to, by listener name. A listener that is not listed here "
        "advertises its bound address, which must not be a wildcard (0.0.0.0, ::)."
    )
    protocol_map: tuple[tuple[str, SecurityProtocol], ...] = Setting(
        "listener.security.protocol.map",
        tuple((protocol.value, protocol) for protocol in SecurityProtocol),
        PROTOCOL_MAP,
        dynamic=True,
        per_broker=True,
    ).described("The security protocol of each listener name. It cannot change while the listener is open.")
    inter_broker_listener_name: str = Setting(
        "inter.broker.listener.name", "", LISTENER_NAME, null_default=True
    ).described(
        "The listener for other brokers. max.connections and max.connection.creation.rate do not limit it "
        "while the broker has another listener (controller listeners do not count). Empty: the listener "
        "named like security.inter.broker.protocol, if it exists."
    )
    security_inter_broker_protocol: str = Setting(
        "security.inter.broker.protocol", SecurityProtocol.PLAINTEXT.value, one_of(*SecurityProtocol)
    ).described("Names the listener for other brokers if inter.broker.listener.name is not set.")
    process_roles: tuple[str, ...] = Setting(
        "process.roles", ("broker",), choices_of("broker", "controller")
    ).described(
        "`broker`, or `broker,controller` to also serve the listeners of controller.listener.names. The "
        "broker stores its own metadata either way.",
        kafka_default="none",
        why="Weir is a broker.",
    )
    controller_listener_names: tuple[str, ...] = Setting(
        "controller.listener.names", (), LISTENER_NAMES, null_default=True
    ).described(
        "Listeners for administrators, which serve `--bootstrap-controller`; valid only with the role "
        "`controller`. They have their own request queue, handlers, connection quotas and request memory; "
        "all limits on connections and queued.max.request.bytes apply to them separately."
    )
    control_plane_listener_name: str = Setting("control.plane.listener.name", "", LISTENER_NAME).described(
        "A listener with its own processor, handler and queue of 20 requests, which the load of other "
        "listeners does not delay. It shares connection quotas and request memory with the broker's other "
        "listeners, as in Kafka up to 3.9. Empty: none."
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

    def resolved_listeners(self) -> tuple[ListenerConfig, ...]:
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
            ListenerConfig(
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
    bound: dict[int, dict[str, Endpoint]] = {}
    for each in listeners:
        host, port = each.address.host, each.address.port
        if not port:
            continue
        by_host = bound.setdefault(port, {})
        everywhere = ("", *EVERYWHERE)
        wanted = tuple(by_host) if host in everywhere else (host, *everywhere)
        for other in wanted:
            if other in by_host:
                return by_host[other], each
        by_host[host] = each
    return None
