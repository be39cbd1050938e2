"""Parses listener strings: `NAME://host:port`, the protocol map, and `host:port` of the console.

Used by broker.config.sections.network and .console. Resolves no names.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final

from broker.config.kinds import ConfigType, Kind, list_of

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
class Listener:
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


_ENDPOINT_FORM: Final = (
    "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092; a port is from 0 to 65535"
)
LISTENERS: Final = list_of(_read_endpoint, _ENDPOINT_FORM, least=1)
ADVERTISED: Final = list_of(_read_endpoint, _ENDPOINT_FORM)
PROTOCOL_MAP: Final = list_of(
    _read_protocol,
    f"a list of NAME:protocol, protocol one of {', '.join(SecurityProtocol)}",
    write_item=lambda pair: f"{pair[0]}:{pair[1]}",
)
LISTENER_NAME: Final = Kind(ConfigType.STRING, "a listener name, or nothing at all", _read_name)
LISTENER_NAMES: Final = list_of(_read_name, "a list of listener names")
OPTIONAL_ADDRESS: Final = Kind(
    ConfigType.STRING,
    "host:port with a port from 0 to 65535, or nothing at all",
    _read_optional_address,
    lambda address: str(address or ""),
)
