"""The upstream cluster and the gateway in front of it. For broker.gateway.

`weir gateway` reads these keys beside those of the broker; `weir serve` does not use them. `upstream.` keys
are the keys of Kafka's own clients with that prefix.
"""

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from itertools import combinations
from typing import Final

from broker.common.errors import ConfigError
from broker.config.kinds import (
    SECRET,
    TEXT,
    ConfigKind,
    ConfigType,
    choices_of,
    integer,
    list_of,
    long,
    network,
    one_of,
    trimmed,
)
from broker.config.listeners import EVERYWHERE, Address, ListenerConfig, SecurityProtocol, read_address
from broker.config.sections.console import ConsoleConfig
from broker.config.sections.network import NetworkConfig
from broker.config.setting import ListenerSection, Setting

PORT_RANGE_KEY: Final = "gateway.port.range"

PRINCIPAL_KEY: Final = "gateway.upstream.principal"
MAP_KEY: Final = "gateway.upstream.principal.map.location"
OWN: Final = "gateway"
MAP: Final = "map"

NODE_ID: Final = "$(nodeId)"
"""Kafka operators know this form of placeholder from Strimzi and Kroxylicious."""

_RANGE: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})\Z")
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")

MAX_RACK_BYTES: Final = 255
"""The longest rack that clients are given, in UTF-8; ours. Kafka has no limit."""


def _read_bootstrap(text: str) -> Address:
    address = read_address(text)
    if not address.host or not address.port:
        raise ValueError("no host or no port")
    return address


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports of upstream nodes: node `n` has port `first + n`."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def port_of(self, node_id: int) -> int | None:
        """Return the port of a node, or None if the range is too short for it."""
        return self.first + node_id if 0 <= node_id < len(self) else None


def _read_range(text: str) -> PortRange | None:
    if not text:
        return None
    match = _RANGE.match(text)
    if match is None:
        raise ValueError("not a range")
    first, last = int(match[1]), int(match[2])
    if not 1 <= first <= last <= 65_535:
        raise ValueError("out of range")
    return PortRange(first, last)


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """The addresses of upstream nodes for clients of a gateway. A host with NODE_ID has `first` for all of
    them; else node `n` has port `first + n`, as in `gateway.port.range`.
    """

    host: str
    first: int
    last: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.first}" if NODE_ID in self.host else f"{host}:{self.first}-{self.last}"

    def of(self, node_id: int) -> Address | None:
        """Return the address of a node; None if the range is too short for it."""
        if NODE_ID in self.host:
            return Address(self.host.replace(NODE_ID, str(node_id)), self.first)
        port = PortRange(self.first, self.last).port_of(node_id)
        return None if port is None else Address(self.host, port)


def read_node_addresses(text: str) -> NodeAddresses:
    """Parse `host:first-last`, or `pattern:port` with NODE_ID in the pattern. Raises ValueError."""
    host, _, ports = text.rpartition(":")
    if NODE_ID in host:
        address = read_address(f"name:{ports}")
        if not address.port:
            raise ValueError("no port")
        return NodeAddresses(_read_pattern(host), address.port, address.port)
    found = _read_range(ports)
    if found is None:
        raise ValueError("not a range")
    address = read_address(f"{host}:{found.first}")
    if not address.host:
        raise ValueError("no host")
    return NodeAddresses(address.host, found.first, found.last)


def _read_pattern(text: str) -> str:
    if text and (
        text.count(NODE_ID) != 1
        or len(text) > 245
        or not all(map(_LABEL.match, text.replace(NODE_ID, "0").split(".")))
    ):
        raise ValueError("not a host name with one placeholder")
    return text


@dataclass(frozen=True, slots=True)
class RackOf:
    """The rack of the clients of one network."""

    network: IPv4Network | IPv6Network
    rack: str

    def __str__(self) -> str:
        return f"[{self.network}]:{self.rack}" if self.network.version == 6 else f"{self.network}:{self.rack}"


def _read_rack(text: str) -> RackOf:
    """Parse `network:rack` or `[network]:rack`. Raises ValueError."""
    addresses, colon, rack = text.partition("]:") if text.startswith("[") else text.partition(":")
    rack = trimmed(rack)
    found = network(trimmed(addresses.removeprefix("[")))
    if not colon or not rack or len(rack.encode()) > MAX_RACK_BYTES or not rack.isprintable():
        raise ValueError("no rack")
    if text.startswith("[") != (found.version == 6):
        raise ValueError("an IPv6 network needs brackets, an IPv4 network has none")
    return RackOf(found, rack)


_RACKS: Final = list_of(
    _read_rack,
    "a list of network:rack, each network once and an IPv6 network in brackets, such as "
    "10.1.0.0/16:us-east-1a,[2001:db8:1::/48]:us-east-1a; a rack has 1 to "
    f"{MAX_RACK_BYTES} bytes, without commas",
)


def _read_racks(text: str) -> tuple[RackOf, ...]:
    found: tuple[RackOf, ...] = _RACKS.read(text)
    if len({each.network for each in found}) < len(found):
        raise ValueError("a network has two racks")
    return found


RACKS: Final = replace(_RACKS, read=_read_racks)
BOOTSTRAP: Final = list_of(
    _read_bootstrap, "a list of host:port, such as kafka-1.example:9092; a port is from 1 to 65535"
)
PORT_RANGE: Final = ConfigKind(
    ConfigType.STRING,
    "first-last, two ports from 1 to 65535 such as 31000-31099, or nothing at all",
    _read_range,
    lambda value: str(value or ""),
)
NODE_ADDRESSES: Final = list_of(
    read_node_addresses,
    f"a list of host:first-last, such as gateway-2.example:31000-31099, or of host names with {NODE_ID} and "
    f"a port, such as broker-{NODE_ID}.gateway-2.example:9093",
)
SNI_PATTERN: Final = ConfigKind(
    ConfigType.STRING,
    f"a host name that contains {NODE_ID} once, such as broker-{NODE_ID}.kafka.example, or nothing at all",
    _read_pattern,
)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """The connections of the gateway to the upstream cluster."""

    bootstrap_servers: tuple[Address, ...] = Setting(
        "upstream.bootstrap.servers", (), BOOTSTRAP, ours=True
    ).described(
        "The addresses of some brokers of the cluster behind the gateway. `weir gateway` needs at least one."
    )
    security_protocol: SecurityProtocol = Setting(  # noqa: RUF009 - an enumeration
        "upstream.security.protocol",
        SecurityProtocol.PLAINTEXT,
        ConfigKind(ConfigType.STRING, f"one of {', '.join(SecurityProtocol)}", SecurityProtocol),
        ours=True,
    ).described("The protocol of the upstream brokers' listener.")
    sasl_mechanism: str = Setting(
        "upstream.sasl.mechanism",
        "SCRAM-SHA-512",
        one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        ours=True,
        dynamic=True,
        per_broker=True,
    ).described("The SASL mechanism of the gateway's own login at upstream brokers.")
    sasl_jaas_config: str = Setting(
        "upstream.sasl.jaas.config", "", SECRET, ours=True, dynamic=True, per_broker=True
    ).described(
        "The gateway's own credentials at upstream brokers, for its own requests and, with "
        'gateway.authentication=gateway, for its clients\': `<login module> required username="<name>" '
        'password="<password>";`. The login module is Kafka\'s PlainLoginModule or ScramLoginModule. A '
        "dynamic change applies to the next logins; connections that have logged in as another user close "
        "when their logins end."
    )
    sasl_jaas_location: str = Setting("upstream.sasl.jaas.config.location", "", TEXT, ours=True).described(
        "A file with what upstream.sasl.jaas.config would be, instead of it. The gateway reads it again when "
        "it changes, which applies to the next logins as a dynamic change does. Content that cannot be used "
        "is logged, and the credentials before it stay. With quota.scope=cluster, this is how credentials "
        "change without a restart: the log of changes that all gateways share has no passwords."
    )
    ssl_truststore_location: str = Setting("upstream.ssl.truststore.location", "", TEXT, ours=True).described(
        "A PEM file with the CA certificates of the upstream brokers; empty: the system's CA certificates."
    )
    ssl_truststore_certificates: str = Setting(
        "upstream.ssl.truststore.certificates", "", SECRET, ours=True
    ).described("The CA certificates as PEM text, instead of a file.")
    client_keystore_location: str = Setting("upstream.ssl.keystore.location", "", TEXT, ours=True).described(
        "A PEM file with the gateway's private key and certificate chain, for upstream brokers that verify "
        "clients; its own certificate first. For `tls.key`, as for ssl.keystore.location."
    )
    client_key_password: str = Setting("upstream.ssl.key.password", "", SECRET, ours=True).described(
        "The password that decrypts the gateway's private key."
    )
    ssl_endpoint_identification: str = Setting(
        "upstream.ssl.endpoint.identification.algorithm",
        "https",
        ConfigKind(
            ConfigType.STRING,
            "https, or nothing at all",
            one_of("https", "").read,
        ),
        ours=True,
    ).described("Whether the certificate of an upstream broker must name its host; empty: it need not.")
    ssl_enabled_protocols: tuple[str, ...] = Setting(
        "upstream.ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), choices_of("TLSv1.2", "TLSv1.3"), ours=True
    ).described("The enabled versions of TLS.")
    client_id: str = Setting("upstream.client.id", "weir-gateway", TEXT, ours=True).described(
        "The client id of the gateway's own requests."
    )
    cluster_id: str = Setting("upstream.cluster.id", "", TEXT, ours=True).described(
        "The id of the upstream cluster. The gateway forwards nothing to a cluster with another id. Empty: "
        "the id that the first start finds, which later starts then expect."
    )
    metadata_max_age_ms: int = Setting(
        "upstream.metadata.max.age.ms", 5_000, long(100), "ms", ours=True
    ).described(
        "How often the gateway asks for the upstream brokers and their addresses; it asks at once when a "
        "connection fails, or when a response names a node that it does not know."
    )
    request_timeout_ms: int = Setting(
        "upstream.request.timeout.ms", 30_000, integer(1), "ms", ours=True
    ).described("How long the gateway waits for the response to one of its own requests.")
    connection_setup_timeout_ms: int = Setting(
        "upstream.socket.connection.setup.timeout.ms", 10_000, long(1), "ms", ours=True
    ).described(
        "How long the gateway waits until a connection to an upstream broker is open, with its TLS "
        "handshake and login."
    )
    reconnect_backoff_ms: int = Setting(
        "upstream.reconnect.backoff.ms", 50, long(0), "ms", ours=True
    ).described(
        "How long a client's connection stays open after its upstream broker could not be reached, before "
        "the gateway closes it; twice as long after each further failure."
    )
    reconnect_backoff_max_ms: int = Setting(
        "upstream.reconnect.backoff.max.ms", 1_000, long(0), "ms", ours=True
    ).described("The longest such time.")

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        if self.reconnect_backoff_ms > self.reconnect_backoff_max_ms:
            raise ConfigError(
                "upstream.reconnect.backoff.ms",
                self.reconnect_backoff_ms,
                f"at most upstream.reconnect.backoff.max.ms ({self.reconnect_backoff_max_ms})",
            )


@dataclass(frozen=True, slots=True)
class GatewayConfig(ListenerSection):
    """The addresses of upstream nodes for clients of the gateway, and the gateway's own decisions."""

    port_range: PortRange | None = Setting(  # noqa: RUF009 - a PortRange is frozen
        PORT_RANGE_KEY,
        None,
        PORT_RANGE,
        ours=True,
        listener_too=True,
        default_words="no ports for nodes",
    ).described(
        "The ports of the upstream nodes: the listener serves node n at the first port plus n, and "
        "advertises it there. The address in `listeners` is for bootstrapping."
    )
    sni_pattern: str = Setting(
        "gateway.sni.pattern", "", SNI_PATTERN, ours=True, listener_too=True
    ).described(
        f"The host names of the upstream nodes, with {NODE_ID} in place of the id, instead of a port for "
        "each: a TLS client names the node in its handshake, and the listener needs one port only."
    )
    authentication: str = Setting(
        "gateway.authentication", "upstream", one_of("upstream", "gateway"), ours=True, listener_too=True
    ).described(
        "Who logs the clients of SASL listeners in. `upstream`: their SASL messages are forwarded, and the "
        "principal is the one that the upstream broker accepted. `gateway`: the gateway itself, as a broker "
        "does, and it logs in upstream for them, as gateway.upstream.principal says."
    )
    upstream_principal: str = Setting(
        PRINCIPAL_KEY, OWN, one_of(OWN, "delegation-token", MAP), ours=True
    ).described(
        "Who the clients of listeners with gateway.authentication=gateway are at the upstream cluster. "
        "`gateway`: all of them the gateway's own user. `delegation-token`: each its own principal, by a "
        "delegation token that the gateway's user creates for it. `map`: each the user that "
        f"{MAP_KEY} has for its principal. The last two need an upstream listener with SASL "
        "([gateway.md](gateway.md#each-client-as-its-own-principal))."
    )
    upstream_principal_map: str = Setting(MAP_KEY, "", TEXT, ours=True).described(
        f"With {PRINCIPAL_KEY}=map, a file in the form of `server.properties`: on each line the name of a "
        "principal, and its login at the upstream cluster as in upstream.sasl.jaas.config, for "
        "upstream.sasl.mechanism. The gateway reads it again when it changes; content that cannot be used is "
        "logged, and the entries before it stay."
    )
    quotas: str = Setting("gateway.quotas", "local", one_of("local", "upstream"), ours=True).described(
        "Where client quotas and CLIENT_METRICS configurations live. `local`: the gateway answers the APIs "
        "that read and change them. `upstream`: these requests are forwarded, and the gateway follows the "
        "cluster's quotas."
    )
    processes: int = Setting("gateway.processes", 1, integer(1, 256), "processes", ours=True).described(
        "Gateway processes on this machine, which share the ports. Each is a gateway of its own, with its "
        "data in a folder process-<n> of the first of log.dirs; the first one serves the console. More than "
        "one needs fixed ports, and quota.scope=cluster for rules and limits that hold over all of them and "
        "a console that shows all of them."
    )
    cluster_protection: str = Setting(
        "gateway.cluster.protection", "key", one_of("key", "acl"), ours=True
    ).described(
        "With quota.scope=cluster, what keeps others from writing what the gateways believe. `key`: gateways "
        "sign the records of __weir_metadata and __weir_shares with a key that they share, and skip all "
        "others. `acl`: ACLs of the upstream cluster let only the gateways write to these topics and read "
        "them; without such ACLs, whoever can produce to the cluster can become an administrator of all "
        "gateways."
    )
    cluster_keys_location: str = Setting("gateway.cluster.keys.location", "", TEXT, ours=True).described(
        "A file with the keys that all gateways of a cluster share, one on each line, of 32 to 512 printable "
        "characters, such as `openssl rand -hex 32` prints. The first one signs, all of them verify. The "
        "gateway reads the file again when it changes; content that cannot be used is logged, and the keys "
        "before it stay ([gateway.md](gateway.md#the-key-of-the-gateways))."
    )
    cluster_keys: str = Setting("gateway.cluster.keys", "", SECRET, ours=True).described(
        "The same keys with commas between them, instead of a file."
    )
    client_racks: tuple[RackOf, ...] = Setting("gateway.client.racks", (), RACKS, ours=True).described(
        "The racks of clients by their addresses. A consumer that names no rack (client.rack) is given that "
        "of its address, so that it reads from a replica in its own rack if the brokers' "
        "replica.selector.class is RackAwareReplicaSelector. Of several networks that contain an address, "
        "the one with the longest prefix counts. See [gateway.md](gateway.md#racks)."
    )
    client_racks_software: tuple[str, ...] = Setting(
        "gateway.client.racks.software",
        ("apache-kafka-java", "kafka-python", "kgo", "rdkafka", "sarama"),
        list_of(TEXT.read, "a list of names, or * for all clients"),
        ours=True,
    ).described(
        "The clients that gateway.client.racks is for: those whose software name or version (KIP-511) "
        "contains one of these. A client that is told of a replica in its rack and goes on to ask the leader "
        "gets no records, and some go only if they have named a rack themselves, such as aiokafka 0.14. "
        "Clients of these names go: Kafka's own, kafka-python, franz-go, all that are built on librdkafka, "
        "and Sarama."
    )
    drain_timeout_ms: int = Setting(
        "gateway.drain.timeout.ms", 60_000, integer(0), "ms", ours=True
    ).described(
        "The time over which a gateway that stops or is drained closes the connections of its clients, "
        "evenly, if there is another gateway for them; otherwise it closes them at once. Requests that are "
        "still in progress then have shutdown.drain.timeout.ms "
        "([gateway.md](gateway.md#when-a-gateway-stops))."
    )
    drain_to: tuple[NodeAddresses, ...] = Setting(
        "gateway.drain.to", (), NODE_ADDRESSES, ours=True, listener_too=True
    ).described(
        "Where the upstream nodes are at other gateways, or behind a balancer: what clients of a gateway "
        "that is drained are told. With host:first-last node n is at the first port plus n, as with "
        f"gateway.port.range; with {NODE_ID} in the host name, as with gateway.sni.pattern. Addresses where "
        "nothing accepts connections are not named. Gateways with quota.scope=cluster need no such list: "
        "they know each other."
    )
    max_in_flight: int = Setting(
        "gateway.max.in.flight.requests.per.connection", 64, integer(1), "requests", ours=True
    ).described(
        "Forwarded requests of one connection that can wait for their responses; at this limit, the "
        "connection is not read."
    )
    splice_min_bytes: int = Setting(
        "gateway.splice.min.bytes", 65_536, integer(0), "bytes", ours=True
    ).described(
        "Frames of at least this size move from socket to socket inside the kernel if both sides are "
        "without TLS; 0: never."
    )
    views_max_age_ms: int = Setting(
        "gateway.upstream.views.max.age.ms", 10_000, long(1_000), "ms", ours=True
    ).described(
        "How old what the console, REST and lag alerts show of the upstream cluster becomes before the "
        "gateway reads it again, while somebody looks. What takes long to read is read at most a tenth of "
        "the time."
    )
    views_requests_per_second: int = Setting(
        "gateway.upstream.views.requests.per.second", 20, integer(1), "requests/s", ours=True
    ).described(
        "The most requests that this gateway sends to the upstream cluster in a second for its console, REST "
        "and lag alerts. A process without a console sends none."
    )

    def check(self, upstream: UpstreamConfig, scope: str) -> None:
        """Check the rules between keys; `scope` is quota.scope. Raises ConfigError."""
        if not upstream.bootstrap_servers:
            raise ConfigError("upstream.bootstrap.servers", "", f"{BOOTSTRAP.allowed}, for `weir gateway`")
        self._check_principal(upstream)
        location = "gateway.cluster.keys.location"
        has_keys = bool(self.cluster_keys_location or self.cluster_keys)
        if self.cluster_keys_location and self.cluster_keys:
            raise ConfigError(location, self.cluster_keys_location, "not together with gateway.cluster.keys")
        if self.cluster_protection == "acl" and has_keys:
            allowed = "`key`, as gateway.cluster.keys or gateway.cluster.keys.location is set"
            raise ConfigError("gateway.cluster.protection", "acl", allowed)
        if scope == "cluster" and self.cluster_protection == "key" and not has_keys:
            allowed = (
                "a file with the key that all gateways share, as quota.scope=cluster is set: `openssl rand "
                "-hex 32` prints one. gateway.cluster.protection=acl says that the upstream cluster's ACLs "
                "protect __weir_metadata and __weir_shares instead"
            )
            raise ConfigError(location, "", allowed)

    def _check_principal(self, upstream: UpstreamConfig) -> None:
        value, location = self.upstream_principal, self.upstream_principal_map
        if value == MAP and not location:
            raise ConfigError(
                MAP_KEY, "", f"a file with the credentials of principals, as {PRINCIPAL_KEY}=map is set"
            )
        if location and value != MAP:
            raise ConfigError(MAP_KEY, location, f"only with {PRINCIPAL_KEY}=map")
        if value == OWN:
            return
        of_listeners = [each for _, field, each in self.overrides if field == "authentication"]
        if OWN not in (self.authentication, *of_listeners):
            allowed = f"{OWN}, as no listener has gateway.authentication=gateway: clients log in upstream"
            raise ConfigError(PRINCIPAL_KEY, value, allowed)
        protocol = upstream.security_protocol
        if not protocol.has_login:
            allowed = (
                f"{OWN}, as upstream.security.protocol={protocol} has no logins: {value} needs "
                "SASL_PLAINTEXT or SASL_SSL"
            )
            raise ConfigError(PRINCIPAL_KEY, value, allowed)
        if not (upstream.sasl_jaas_config or upstream.sasl_jaas_location):
            allowed = f"{OWN} without upstream.sasl.jaas.config: the gateway itself has to log in"
            raise ConfigError(PRINCIPAL_KEY, value, allowed)


def check_node_ports(gateway: GatewayConfig, network: NetworkConfig, console: ConsoleConfig) -> None:
    """Check that the ranges of ports overlap neither each other nor another port of the gateway.

    Listeners on different addresses of the machine may have the same range. Called before the gateway starts
    and before listeners change: a node whose port is taken has no address, and clients that follow another
    listener's address to it would reach the wrong node. Raises ConfigError.
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
                f"(listener.name.{second.name.lower()}.{PORT_RANGE_KEY} is for {second.name} alone)"
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
    return host == other or any(each in ("", *EVERYWHERE) for each in (host, other))


def _refused(
    gateway: GatewayConfig, listener: ListenerConfig, ports: PortRange, required: str
) -> ConfigError:
    is_own = any(name == listener.name and field == "port_range" for name, field, _ in gateway.overrides)
    key = f"listener.name.{listener.name.lower()}.{PORT_RANGE_KEY}" if is_own else PORT_RANGE_KEY
    return ConfigError(key, ports, f"a range that {required}")
