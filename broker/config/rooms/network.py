"""Listeners, buffers, threads and queues. For broker.network."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, long
from broker.config.listeners import (
    ADVERTISED,
    LISTENERS,
    PROTOCOL_MAP,
    Address,
    Endpoint,
    Listener,
    SecurityProtocol,
)
from broker.config.setting import setting
from broker.errors import ConfigError

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    listeners: tuple[Endpoint, ...] = setting(
        "listeners",
        (Endpoint("PLAINTEXT", Address("127.0.0.1", 9092)),),
        LISTENERS,
        "Where the broker listens. An empty host is every interface; port 0 lets the system choose.",
        kafka_default="PLAINTEXT://:9092",
        why="Nothing without a password listens to the outside unless it is told to.",
    )
    advertised_listeners: tuple[Endpoint, ...] = setting(
        "advertised.listeners",
        (),
        ADVERTISED,
        "What clients are told to connect to, by listener name; a listener that is not named here is "
        "advertised as it is bound, which must not be on every interface (0.0.0.0, ::).",
    )
    protocol_map: tuple[tuple[str, SecurityProtocol], ...] = setting(
        "listener.security.protocol.map",
        tuple((protocol.value, protocol) for protocol in SecurityProtocol),
        PROTOCOL_MAP,
        "The security protocol of each listener name.",
    )
    num_network_threads: int = setting(
        "num.network.threads",
        1,
        integer(1, 64),
        "Processors of each listener; each serves its share of the connections.",
        kafka_default="3",
        why="Processors are tasks of one thread: one that sees all ready connections wastes no wake-up.",
    )
    num_io_threads: int = setting(
        "num.io.threads",
        8,
        integer(1, 256),
        "Request handlers.",
    )
    queued_max_requests: int = setting(
        "queued.max.requests",
        500,
        integer(1),
        "Requests that may wait for a handler; when they are that many, no more are read.",
        unit="requests",
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        -1,
        long(-1),
        "Memory for requests that are read and not answered; -1: no bound. Used up, none is read.",
        unit="bytes",
    )
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes",
        104_857_600,
        integer(1),
        "The largest request; the connection of a larger one is closed.",
        unit="bytes",
    )
    socket_send_buffer_bytes: int = setting(
        "socket.send.buffer.bytes",
        -1,
        integer(-1),
        "SO_SNDBUF of each connection; -1: the system's.",
        unit="bytes",
        kafka_default="102400",
        why="The system grows a buffer with what its connection can use, and a fetch of 1 MB is one write.",
    )
    socket_receive_buffer_bytes: int = setting(
        "socket.receive.buffer.bytes",
        -1,
        integer(-1),
        "SO_RCVBUF of each connection; -1: the system's.",
        unit="bytes",
        kafka_default="102400",
        why="The system grows a buffer with what its connection can use.",
    )
    socket_listen_backlog_size: int = setting(
        "socket.listen.backlog.size",
        1_024,
        integer(1),
        "Connections that may wait to be accepted; the system's net.core.somaxconn bounds it too.",
        kafka_default="50",
        why="One thread accepts and serves. A connection that finds no room tries again after a second.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms",
        600_000,
        long(1),
        "A connection without a request for this long is closed.",
        unit="ms",
    )
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        100,
        integer(0),
        "How long the connection of a failed login is kept before it is closed.",
        unit="ms",
    )

    def resolved_listeners(self) -> tuple[Listener, ...]:
        """Each listener with its protocol and its advertised address. Raises ConfigError where they do not
        fit together.
        """
        protocols = dict(self.protocol_map)
        advertised = {endpoint.name: endpoint.address for endpoint in self.advertised_listeners}
        names = [endpoint.name for endpoint in self.listeners]
        if len(set(names)) < len(names):
            raise ConfigError("listeners", ",".join(map(str, self.listeners)), "each listener name once")
        if unknown := sorted(set(advertised) - set(names)):
            raise ConfigError(
                "advertised.listeners", ",".join(unknown), f"only names in listeners: {', '.join(names)}"
            )
        for endpoint in self.listeners:
            told = advertised.get(endpoint.name, endpoint.address)
            if told.host in EVERYWHERE:
                raise ConfigError(
                    "advertised.listeners",
                    endpoint,
                    f"an address that clients can reach, and not {told.host}",
                )
        if unmapped := sorted(set(names) - set(protocols)):
            raise ConfigError("listeners", ",".join(unmapped), "only names in listener.security.protocol.map")
        return tuple(
            Listener(
                endpoint.name,
                protocols[endpoint.name],
                endpoint.address.host,
                endpoint.address.port,
                advertised.get(endpoint.name, endpoint.address).host,
                advertised.get(endpoint.name, endpoint.address).port,
            )
            for endpoint in self.listeners
        )

    def check(self) -> None:
        """The rules between keys. Raises ConfigError."""
        self.resolved_listeners()
        if (
            0 <= self.queued_max_request_bytes < self.socket_request_max_bytes
            and self.queued_max_request_bytes
        ):
            raise ConfigError(
                "queued.max.request.bytes",
                self.queued_max_request_bytes,
                f"-1 (off), or at least socket.request.max.bytes ({self.socket_request_max_bytes})",
            )
        if self.connection_failed_authentication_delay_ms >= self.connections_max_idle_ms:
            raise ConfigError(
                "connection.failed.authentication.delay.ms",
                self.connection_failed_authentication_delay_ms,
                f"less than connections.max.idle.ms ({self.connections_max_idle_ms})",
            )
