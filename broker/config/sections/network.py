"""Sockets, buffers, threads and queues, and how requests move to the handlers. For broker.network."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from broker.common.errors import ChangeRefused, ConfigError
from broker.config.kinds import BOOLEAN, LONG_MIN, NETWORKS, integer, long, one_of
from broker.config.listeners import ListenerKeys
from broker.config.setting import Setting

REQUEST_MEMORY_SHARE: Final = 4
"""The divisor of the memory limit if `queued.max.request.bytes` is not set; ours. Buffer sizes are powers of
two, so requests use at most half of the memory; the other half is for everything else.
"""


NO_PROXY: Final = "none"
REQUIRED_PROXY: Final = "require"
PROXY_PROTOCOL: Final = one_of(NO_PROXY, "accept", REQUIRED_PROXY)


@dataclass(frozen=True, slots=True)
class NetworkConfig(ListenerKeys):
    num_network_threads: int = Setting(
        "num.network.threads", 1, integer(1, 64), dynamic=True, listener_too=True
    ).described(
        "Processors of each listener; each serves a share of the connections. A dynamic change can at most "
        "halve or double the number.",
        kafka_default="3",
        why="Processors are tasks of one thread; a single one handles all ready connections per wake-up.",
    )
    num_io_threads: int = Setting("num.io.threads", 8, integer(1, 256), dynamic=True).described(
        "Request handlers. A dynamic change can at most halve or double the number."
    )
    queued_max_requests: int = Setting("queued.max.requests", 500, integer(1), "requests").described(
        "Requests that can wait for a handler; at this limit, reading stops."
    )
    queued_max_request_bytes: int | None = Setting(
        "queued.max.request.bytes",
        None,
        long(-1),
        "bytes",
        default_words="a quarter of the memory limit of the control group (cgroup), or of the machine's "
        "memory if that is less; at least socket.request.max.bytes",
    ).described(
        "Memory for requests that have been read but not handled; 0 or -1: no limit. At the limit, reading "
        "stops: connections queue for memory, and TCP slows their clients. A request is admitted if one "
        "byte is free, so usage can exceed the limit by socket.request.max.bytes - 1. By default, only "
        "requests over 64 KiB count; if the key is set, all do.",
        kafka_default="-1",
        why="A hundred connections can announce 100 MB each.",
    )
    queued_request_stall_timeout_ms: int = Setting(
        "queued.request.stall.timeout.ms", 5_000, integer(1), "ms", ours=True
    ).described(
        "While connections wait for memory (queued.max.request.bytes), a connection that has memory for a "
        "request must send 64 KiB of it, or the rest, in this time; otherwise it is closed."
    )
    socket_request_max_bytes: int = Setting(
        "socket.request.max.bytes", 104_857_600, integer(1), "bytes"
    ).described("Maximum size of a request; a connection that announces a larger one is closed.")
    socket_send_buffer_bytes: int = Setting("socket.send.buffer.bytes", -1, integer(-1), "bytes").described(
        "SO_SNDBUF of each connection; -1: 131072 for clients on this machine, for others system default.",
        kafka_default="102400",
        why="The system adapts the buffer to the distance. Within a machine, it lets a fetch of 1 MB overrun "
        "the receiver.",
    )
    socket_receive_buffer_bytes: int = Setting(
        "socket.receive.buffer.bytes", -1, integer(-1), "bytes"
    ).described(
        "SO_RCVBUF of each connection; -1: the system default.",
        kafka_default="102400",
        why="The system adapts the buffer to the connection.",
    )
    socket_listen_backlog_size: int = Setting("socket.listen.backlog.size", 1_024, integer(1)).described(
        "Connections that can wait to be accepted; the system's net.core.somaxconn also applies.",
        kafka_default="50",
        why="One thread accepts and serves. A client whose connection finds the backlog full retries after "
        "a second.",
    )
    socket_listen_reuse_port: bool = Setting("socket.listen.reuse.port", False, BOOLEAN, ours=True).described(
        "Whether other processes of the same user can listen on the same ports (SO_REUSEPORT); the system "
        "distributes the connections. The processes of gateway.processes use it."
    )
    connections_max_idle_ms: int = Setting(
        "connections.max.idle.ms", 600_000, long(LONG_MIN), "ms"
    ).described(
        "A connection without a request for this time is closed; negative: never. 0 is invalid because "
        "connection.failed.authentication.delay.ms must be less."
    )
    connection_failed_authentication_delay_ms: int = Setting(
        "connection.failed.authentication.delay.ms", 100, integer(0), "ms"
    ).described("Delay before the connection of a failed login is closed.")
    connection_authentication_timeout_ms: int = Setting(
        "connection.authentication.timeout.ms", 10_000, integer(1), "ms", ours=True
    ).described(
        "A connection with an unfinished TLS handshake or login is closed after this time; so is, before "
        "that, one with an unfinished PROXY header (proxy.protocol)."
    )
    proxy_protocol: str = Setting(
        "proxy.protocol", "none", PROXY_PROTOCOL, ours=True, listener_too=True
    ).described(
        "Whether connections begin with a header of the PROXY protocol, version 1 or 2, in which a balancer "
        "names the client's address. `none`: no connection does. `accept`: those from "
        "proxy.protocol.trusted.addresses may. `require`: those must, and all others are closed. See "
        "[gateway.md](gateway.md#behind-a-balancer)."
    )
    proxy_protocol_trusted_addresses: tuple[IPv4Network | IPv6Network, ...] = Setting(
        "proxy.protocol.trusted.addresses", (), NETWORKS, ours=True, listener_too=True
    ).described(
        "Addresses and networks of the balancers whose PROXY headers are believed. A header from elsewhere "
        "closes its connection. Limits per address do not apply to connections that keep a balancer's own "
        "address, such as its health checks. Required unless proxy.protocol is `none`."
    )

    def request_memory(self, memory_limit: int) -> int | None:
        """Return the bytes available to requests under `memory_limit`; None: no limit."""
        wanted = self.queued_max_request_bytes
        if wanted is None:
            return max(memory_limit // REQUEST_MEMORY_SHARE, self.socket_request_max_bytes)
        return wanted if wanted > 0 else None

    def check(self) -> None:
        """Check the rules between keys. Raises ConfigError."""
        self.resolved_listeners()
        if 0 < (self.queued_max_request_bytes or 0) < self.socket_request_max_bytes:
            raise ConfigError(
                "queued.max.request.bytes",
                self.queued_max_request_bytes,
                f"-1 (off), or at least socket.request.max.bytes ({self.socket_request_max_bytes})",
            )
        for listener in self.listeners:
            own = self.for_listener(listener.name)
            if own.proxy_protocol != NO_PROXY and not own.proxy_protocol_trusted_addresses:
                raise ConfigError(
                    "proxy.protocol.trusted.addresses",
                    "",
                    "an address or a network at least, required by proxy.protocol="
                    f"{own.proxy_protocol} on the listener {listener.name}",
                )
        if 0 <= self.connections_max_idle_ms <= self.connection_failed_authentication_delay_ms:
            raise ConfigError(
                "connection.failed.authentication.delay.ms",
                self.connection_failed_authentication_delay_ms,
                f"less than connections.max.idle.ms ({self.connections_max_idle_ms})",
            )


@dataclass(frozen=True, slots=True)
class AutomqConfig:
    """AutoMQ's request pipeline and its limits. For broker.network.automq."""

    server_mode: str = Setting("socket.server.mode", "kafka", one_of("kafka", "automq"), ours=True).described(
        "How requests move from connections to handlers. `kafka`: one queue for all handlers, one request "
        "of a connection at a time. `automq`: one queue per handler, several requests of a connection at a "
        "time; a connection always uses the same queue, and responses keep the order of the requests. See "
        "docs/concurrency.md."
    )
    queued_requests_size: int = Setting(
        "queued.max.requests.size.bytes", 104_857_600, integer(1), "bytes", ours=True
    ).described(
        "Bytes of requests that can wait for a handler in mode `automq`; at this limit, reading stops. A "
        "request larger than the limit waits until all of it is free. AutoMQ's key."
    )
    pipeline_high: int = Setting("pipeline.high.watermark", 64, integer(1), "requests", ours=True).described(
        "Requests of one connection that can be in progress in mode `automq`; at this limit, the "
        "connection is not read."
    )
    pipeline_low: int = Setting("pipeline.low.watermark", 8, integer(1), "requests", ours=True).described(
        "A connection that reached `pipeline.high.watermark` is read again when fewer than this many of "
        "its requests are in progress."
    )

    def check(self) -> None:
        """Check the rule between keys. Raises ConfigError."""
        if self.pipeline_low > self.pipeline_high:
            raise ConfigError(
                "pipeline.low.watermark",
                self.pipeline_low,
                f"at most pipeline.high.watermark ({self.pipeline_high})",
            )


def check_dynamic_change(old: NetworkConfig, new: NetworkConfig) -> None:
    """Raise ChangeRefused for a dynamic change that requires a restart.

    (Kafka: DynamicThreadPool.validateReconfiguration, DataPlaneAcceptor.validateReconfiguration,
    DynamicListenerConfig.validateReconfiguration, with their messages.)
    """
    check_threads("num.io.threads", old.num_io_threads, new.num_io_threads)
    was = {each.name: each for each in old.resolved_listeners()}
    for listener in new.resolved_listeners():
        name = listener.name
        if name not in was:
            continue
        if listener.protocol is not was[name].protocol:
            raise ChangeRefused(
                "listener.security.protocol.map",
                f"{name}:{listener.protocol}",
                f"Security protocol cannot be updated for existing listener {name}",
            )
        check_threads(
            "num.network.threads",
            old.for_listener(name).num_network_threads,
            new.for_listener(name).num_network_threads,
        )


def check_threads(key: str, old: int, new: int) -> None:
    """Allow a change from half the current value, rounded down, to double, so that a typing error stops
    nothing.

    Raises ChangeRefused.
    """
    reason = f"Dynamic thread count update validation failed for {key}={new}, value should"
    if new < 1:
        raise ChangeRefused(key, new, f"{reason} be at least 1")
    if new < old // 2:
        raise ChangeRefused(key, new, f"{reason} be at least half the current value {old}")
    if new > old * 2:
        raise ChangeRefused(key, new, f"{reason} not be greater than double the current value {old}")
