"""The upstream cluster and the gateway in front of it. For broker.gateway.

`weir gateway` reads these keys beside those of the broker; `weir serve` does not use them. `upstream.` keys
are the keys of Kafka's own clients with that prefix.
"""

import re
from dataclasses import dataclass
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
    one_of,
)
from broker.config.listeners import Address, SecurityProtocol, read_address
from broker.config.setting import ListenerSection, setting

NODE_ID: Final = "$(nodeId)"
"""Kafka operators know this form of placeholder from Strimzi and Kroxylicious."""

_RANGE: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,5})\Z")
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")


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


def _read_pattern(text: str) -> str:
    if text and (
        text.count(NODE_ID) != 1
        or len(text) > 245
        or not all(map(_LABEL.match, text.replace(NODE_ID, "0").split(".")))
    ):
        raise ValueError("not a host name with one placeholder")
    return text


BOOTSTRAP: Final = list_of(
    _read_bootstrap, "a list of host:port, such as kafka-1.example:9092; a port is from 1 to 65535"
)
PORT_RANGE: Final = ConfigKind(
    ConfigType.STRING,
    "first-last, two ports from 1 to 65535 such as 31000-31099, or nothing at all",
    _read_range,
    lambda value: str(value or ""),
)
SNI_PATTERN: Final = ConfigKind(
    ConfigType.STRING,
    f"a host name that contains {NODE_ID} once, such as broker-{NODE_ID}.kafka.example, or nothing at all",
    _read_pattern,
)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """The connections of the gateway to the upstream cluster."""

    bootstrap_servers: tuple[Address, ...] = setting(
        "upstream.bootstrap.servers",
        (),
        BOOTSTRAP,
        "The addresses of some brokers of the cluster behind the gateway. `weir gateway` needs at least one.",
        ours=True,
    )
    security_protocol: SecurityProtocol = setting(  # noqa: RUF009 - an enumeration
        "upstream.security.protocol",
        SecurityProtocol.PLAINTEXT,
        ConfigKind(ConfigType.STRING, f"one of {', '.join(SecurityProtocol)}", SecurityProtocol),
        "The protocol of the upstream brokers' listener.",
        ours=True,
    )
    sasl_mechanism: str = setting(
        "upstream.sasl.mechanism",
        "SCRAM-SHA-512",
        one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The SASL mechanism of the gateway's own login at upstream brokers.",
        ours=True,
        dynamic=True,
        per_broker=True,
    )
    sasl_jaas_config: str = setting(
        "upstream.sasl.jaas.config",
        "",
        SECRET,
        "The gateway's own credentials at upstream brokers, for its own requests and, with "
        'gateway.authentication=gateway, for its clients\': `<login module> required username="<name>" '
        'password="<password>";`. The login module is Kafka\'s PlainLoginModule or ScramLoginModule. A '
        "dynamic change applies to the next logins; connections that have logged in as another user close "
        "when their logins end.",
        ours=True,
        dynamic=True,
        per_broker=True,
    )
    sasl_jaas_location: str = setting(
        "upstream.sasl.jaas.config.location",
        "",
        TEXT,
        "A file with what upstream.sasl.jaas.config would be, instead of it. The gateway reads it again when "
        "it changes, which applies to the next logins as a dynamic change does. Content that cannot be used "
        "is logged, and the credentials before it stay. With quota.scope=cluster, this is how credentials "
        "change without a restart: the log of changes that all gateways share has no passwords.",
        ours=True,
    )
    ssl_truststore_location: str = setting(
        "upstream.ssl.truststore.location",
        "",
        TEXT,
        "A PEM file with the CA certificates of the upstream brokers; empty: the system's CA certificates.",
        ours=True,
    )
    ssl_truststore_certificates: str = setting(
        "upstream.ssl.truststore.certificates",
        "",
        SECRET,
        "The CA certificates as PEM text, instead of a file.",
        ours=True,
    )
    client_keystore_location: str = setting(
        "upstream.ssl.keystore.location",
        "",
        TEXT,
        "A PEM file with the gateway's private key and certificate chain, for upstream brokers that verify "
        "clients; its own certificate first.",
        ours=True,
    )
    client_key_password: str = setting(
        "upstream.ssl.key.password",
        "",
        SECRET,
        "The password that decrypts the gateway's private key.",
        ours=True,
    )
    ssl_endpoint_identification: str = setting(
        "upstream.ssl.endpoint.identification.algorithm",
        "https",
        ConfigKind(
            ConfigType.STRING,
            "https, or nothing at all",
            one_of("https", "").read,
        ),
        "Whether the certificate of an upstream broker must name its host; empty: it need not.",
        ours=True,
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "upstream.ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        choices_of("TLSv1.2", "TLSv1.3"),
        "The enabled versions of TLS.",
        ours=True,
    )
    client_id: str = setting(
        "upstream.client.id",
        "weir-gateway",
        TEXT,
        "The client id of the gateway's own requests.",
        ours=True,
    )
    cluster_id: str = setting(
        "upstream.cluster.id",
        "",
        TEXT,
        "The id of the upstream cluster. The gateway forwards nothing to a cluster with another id. Empty: "
        "the id that the first start finds, which later starts then expect.",
        ours=True,
    )
    metadata_max_age_ms: int = setting(
        "upstream.metadata.max.age.ms",
        5_000,
        long(100),
        "How often the gateway asks for the upstream brokers and their addresses; it asks at once when a "
        "connection fails, or when a response names a node that it does not know.",
        unit="ms",
        ours=True,
    )
    request_timeout_ms: int = setting(
        "upstream.request.timeout.ms",
        30_000,
        integer(1),
        "How long the gateway waits for the response to one of its own requests.",
        unit="ms",
        ours=True,
    )
    connection_setup_timeout_ms: int = setting(
        "upstream.socket.connection.setup.timeout.ms",
        10_000,
        long(1),
        "How long the gateway waits until a connection to an upstream broker is open, with its TLS "
        "handshake and login.",
        unit="ms",
        ours=True,
    )
    reconnect_backoff_ms: int = setting(
        "upstream.reconnect.backoff.ms",
        50,
        long(0),
        "How long a client's connection stays open after its upstream broker could not be reached, before "
        "the gateway closes it; twice as long after each further failure.",
        unit="ms",
        ours=True,
    )
    reconnect_backoff_max_ms: int = setting(
        "upstream.reconnect.backoff.max.ms",
        1_000,
        long(0),
        "The longest such time.",
        unit="ms",
        ours=True,
    )

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

    port_range: PortRange | None = setting(  # noqa: RUF009 - a PortRange is frozen
        "gateway.port.range",
        None,
        PORT_RANGE,
        "The ports of the upstream nodes: the listener serves node n at the first port plus n, and "
        "advertises it there. The address in `listeners` is for bootstrapping.",
        ours=True,
        listener_too=True,
        default_words="no ports for nodes",
    )
    sni_pattern: str = setting(
        "gateway.sni.pattern",
        "",
        SNI_PATTERN,
        f"The host names of the upstream nodes, with {NODE_ID} in place of the id, instead of a port for "
        "each: a TLS client names the node in its handshake, and the listener needs one port only.",
        ours=True,
        listener_too=True,
    )
    authentication: str = setting(
        "gateway.authentication",
        "upstream",
        one_of("upstream", "gateway"),
        "Who logs the clients of SASL listeners in. `upstream`: their SASL messages are forwarded, and the "
        "principal is the one that the upstream broker accepted. `gateway`: the gateway itself, as a broker "
        "does, and it uses its own credentials upstream.",
        ours=True,
        listener_too=True,
    )
    quotas: str = setting(
        "gateway.quotas",
        "local",
        one_of("local", "upstream"),
        "Where client quotas and CLIENT_METRICS configurations live. `local`: the gateway answers the APIs "
        "that read and change them. `upstream`: these requests are forwarded, and the gateway follows the "
        "cluster's quotas.",
        ours=True,
    )
    processes: int = setting(
        "gateway.processes",
        1,
        integer(1, 256),
        "Gateway processes on this machine, which share the ports. Each is a gateway of its own, with its "
        "data in a folder process-<n> of the first of log.dirs; the first one serves the console. More than "
        "one needs fixed ports, and quota.scope=cluster for rules and limits that hold over all of them and "
        "a console that shows all of them.",
        unit="processes",
        ours=True,
    )
    cluster_protection: str = setting(
        "gateway.cluster.protection",
        "key",
        one_of("key", "acl"),
        "With quota.scope=cluster, what keeps others from writing what the gateways believe. `key`: gateways "
        "sign the records of __weir_metadata and __weir_shares with a key that they share, and skip all "
        "others. `acl`: ACLs of the upstream cluster let only the gateways write to these topics and read "
        "them; without such ACLs, whoever can produce to the cluster can become an administrator of all "
        "gateways.",
        ours=True,
    )
    cluster_keys_location: str = setting(
        "gateway.cluster.keys.location",
        "",
        TEXT,
        "A file with the keys that all gateways of a cluster share, one on each line, of 32 to 512 printable "
        "characters, such as `openssl rand -hex 32` prints. The first one signs, all of them verify. The "
        "gateway reads the file again when it changes; content that cannot be used is logged, and the keys "
        "before it stay ([gateway.md](gateway.md#the-key-of-the-gateways)).",
        ours=True,
    )
    cluster_keys: str = setting(
        "gateway.cluster.keys",
        "",
        SECRET,
        "The same keys with commas between them, instead of a file.",
        ours=True,
    )
    max_in_flight: int = setting(
        "gateway.max.in.flight.requests.per.connection",
        64,
        integer(1),
        "Forwarded requests of one connection that can wait for their responses; at this limit, the "
        "connection is not read.",
        unit="requests",
        ours=True,
    )
    splice_min_bytes: int = setting(
        "gateway.splice.min.bytes",
        65_536,
        integer(0),
        "Frames of at least this size move from socket to socket inside the kernel if both sides are "
        "without TLS; 0: never.",
        unit="bytes",
        ours=True,
    )

    def check(self, upstream: UpstreamConfig, scope: str) -> None:
        """Check the rules between keys; `scope` is quota.scope. Raises ConfigError."""
        if not upstream.bootstrap_servers:
            raise ConfigError("upstream.bootstrap.servers", "", f"{BOOTSTRAP.allowed}, for `weir gateway`")
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
