"""Upstream brokers of the tests: small servers that speak the codec, each with its own faults.

A `FakeCluster` has `FakeNode`s on ports of 127.0.0.1. A node answers ApiVersions, DescribeCluster, Metadata
and SASL by itself; a test gives it further answers with `answers`.
"""

import hashlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import trio

from broker.common.errors import ApiError, ProtocolViolation
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.protocol import codec
from broker.protocol.api_key import ApiKey, request_header_version
from broker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from broker.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from broker.protocol.messages.sasl_handshake import SaslHandshakeResponse
from broker.protocol.varint import skip_tags
from broker.security.plain import PlainAuthenticator
from broker.security.scram import MECHANISMS, ScramLogin, ScramMechanism, keys_of

HOST = "127.0.0.1"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"

VERSIONS = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.METADATA: (0, 13),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
}

Answer = Callable[[Any], Any]

RawAnswer = Callable[[int, int], bytes]
"""Takes the version and the correlation id of a request. Returns what is sent for it, of whatever form."""

WholeAnswer = Callable[[bytes], bytes]
"""Takes a request without its size, of whatever API and version. Returns what is sent for it."""


class Salted:
    """A user's SCRAM credential."""

    iterations = 4_096
    salt = b"a salt of the test"

    def __init__(self, mechanism: ScramMechanism, password: str) -> None:
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), self.salt, self.iterations)
        self.stored_key, self.server_key = keys_of(mechanism, salted)


class Names(trio.abc.HostnameResolver):
    """Resolves every name to `hosts`; without any, to nothing. With None it never answers."""

    def __init__(self, *hosts: str) -> None:
        self.hosts: tuple[str, ...] | None = hosts
        self.lookups: list[str] = []
        trio.socket.set_custom_hostname_resolver(self)

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        self.lookups.append(host.decode())
        if self.hosts is None:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        if not self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in self.hosts]

    async def getnameinfo(self, *_: Any) -> Any:
        raise NotImplementedError


@contextmanager
def full_backlog(host: str = HOST, port: int = 0) -> Iterator[Address]:
    """A listener that accepts nothing and whose queue is full, so that a connection attempt hangs."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(0)
        for sock in (first, second):
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield Address(host, listener.getsockname()[1])


class FakeNode:
    """`requests` are the decoded requests, in order; `connections` counts the accepted ones, `logins` has the
    user of each login, and `expired` counts the connections that were closed because their login had ended.

    Faults: `answers_nothing` reads and never answers; `cuts_frames` sends half a response and closes;
    `shifts_ids` answers with other correlation ids; `answers_garbage` sends text instead of a response,
    `adds_bytes` some bytes behind it; `hangs_up` closes every connection at its first byte;
    `stops_reading` reads nothing more of any connection; `freeze` does so until `thaw`;
    `delay_s` waits before each response; `says_nodes` and `says_cluster_id` replace what it tells
    of the cluster; `raw` has the bytes that it sends in place of the responses of an API, and with
    `ends_after_raw` it closes the connection behind them. A request that it cannot decode closes the
    connection, as in Kafka.
    """

    def __init__(self, cluster: "FakeCluster", node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = 0
        self.host = HOST
        self.bind_host = HOST
        self.rack: str | None = None
        self.versions: dict[int, tuple[int, int]] = dict(VERSIONS)
        self.answers: dict[int, Answer] = {}
        self.raw: dict[int, RawAnswer] = {}
        self.whole: dict[int, WholeAnswer] = {}
        self.ends_after_raw = False
        self.requests: list[Any] = []
        self.request_versions: list[tuple[int, int]] = []
        self.connections = 0
        self.open_connections = 0
        self.logins: list[str] = []
        self.refused_logins = 0
        self.expired = 0
        self.answers_nothing = False
        self.cuts_frames = False
        self.shifts_ids = False
        self.answers_garbage = False
        self.adds_bytes = False
        self.hangs_up = False
        self.stops_reading = False
        self.delay_s = 0.0
        self.says_nodes: list[FakeNode] | None = None
        self.says_cluster_id: str | None = None
        self.changed = trio.Event()
        self.thawed = trio.Event()
        self.thawed.set()
        self._scope = trio.CancelScope()
        self._talks: dict[trio.CancelScope, trio.SocketStream] = {}

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def count(self, api_key: int) -> int:
        return sum(api_key == request.API_KEY for request in self.requests)

    async def start(self) -> None:
        """Listen: the first time on a free port, later on the same one."""
        (listener,) = await trio.open_tcp_listeners(self.port, host=self.bind_host)
        self.port = listener.socket.getsockname()[1]
        self._scope = trio.CancelScope()
        self.cluster.nursery.start_soon(self._serve, listener, self._scope)

    def stop(self) -> None:
        """Close the listener and all connections, as a kill does."""
        self._scope.cancel()

    def drop_connections(self) -> None:
        """Close all connections, and accept new ones."""
        for scope in self._talks:
            scope.cancel()

    @property
    def streams(self) -> list[trio.SocketStream]:
        """The open connections, below TLS."""
        return list(self._talks.values())

    def reset_connections(self) -> None:
        """Close all connections with a reset, as a killed process does whose sockets have unread bytes."""
        for stream in self.streams:
            stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.drop_connections()

    def freeze(self) -> None:
        """Accept connections and bytes, and neither read nor answer, as a stopped process does."""
        self.thawed = trio.Event()

    def thaw(self) -> None:
        """Read and answer what has arrived, and what comes."""
        self.thawed.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is tried after every request and connection."""
        while not condition():
            self.changed = trio.Event()
            await self.changed.wait()

    async def _serve(self, listener: trio.SocketListener, scope: trio.CancelScope) -> None:
        with scope:
            await trio.serve_listeners(self._connection, [listener])

    async def _connection(self, stream: Any) -> None:
        self.connections += 1
        self.open_connections += 1
        self.changed.set()
        scope = trio.CancelScope()
        self._talks[scope] = stream
        try:
            if self.cluster.tls is not None:
                stream = trio.SSLStream(stream, self.cluster.tls, server_side=True, https_compatible=True)
            with scope:
                await _Talk(self, stream).run()
        except (trio.BrokenResourceError, EOFError, ProtocolViolation):
            pass
        finally:
            del self._talks[scope]
            self.open_connections -= 1
            self.changed.set()
            await trio.aclose_forcefully(stream)


class FakeCluster:
    """`live` are the nodes that every node tells of. `users` maps names to passwords; without users, nodes
    want no login. `session_lifetime_ms`, if not 0, is how long a login lasts; as in Kafka, any other request
    than a login on the same connection then closes it, and so does any during a login.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.cluster_id: str | None = CLUSTER_ID
        self.live: list[FakeNode] = []
        self.users: dict[str, str] = {}
        self.mechanisms: tuple[str, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        self.session_lifetime_ms = 0
        self.forges_signatures = False
        self.tls: ssl.SSLContext | None = None

    async def add(self, node_id: int) -> FakeNode:
        """Start a node and make it live."""
        node = FakeNode(self, node_id)
        await node.start()
        self.live.append(node)
        return node

    def config(self, **more: Any) -> UpstreamConfig:
        """A configuration whose bootstrap servers are the nodes that are live now."""
        return UpstreamConfig(**({"bootstrap_servers": tuple(node.address for node in self.live)} | more))


@asynccontextmanager
async def fake_cluster(nodes: int = 1) -> AsyncIterator[FakeCluster]:
    """A cluster with the nodes 0, 1, ..., which stops at the end."""
    async with trio.open_nursery() as nursery:
        cluster = FakeCluster(nursery)
        for node_id in range(nodes):
            await cluster.add(node_id)
        yield cluster
        nursery.cancel_scope.cancel()


class _Talk:
    """One connection of a node."""

    def __init__(self, node: FakeNode, stream: Any) -> None:
        self.node = node
        self.stream = stream
        self.login: ScramLogin | None = None
        self.mechanism = ""
        self.is_logged_in = not node.cluster.users
        self.is_logging_in = False
        self.user = ""
        self.ends_at = float("inf")

    async def run(self) -> None:
        if self.node.answers_garbage:
            await self.stream.receive_some(65_536)
            await self.stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        if self.node.hangs_up:
            await self.stream.receive_some(65_536)
            return
        while True:
            (size,) = struct.unpack(">i", await self._exactly(4))
            frame = await self._exactly(size)
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if (whole := self.node.whole.get(key)) is not None:
                self.node.changed.set()
                await self.stream.send_all(whole(frame))
                continue
            at = _body_at(frame, request_header_version(key, version))
            is_unknown_version = key == ApiKey.API_VERSIONS and version > self.node.versions[key][1]
            message = codec.decode_request(key, 0 if is_unknown_version else version)(frame, at)
            self.node.requests.append(message)
            self.node.request_versions.append((key, version))
            self.node.changed.set()
            if self.node.answers_nothing:
                continue
            if (raw := self.node.raw.get(key)) is not None:
                await self.stream.send_all(raw(version, correlation_id))
                if self.node.ends_after_raw:
                    return
                continue
            if not self._is_in_session(key):
                return
            if is_unknown_version:
                reply, version = self._versions(35), 0
            else:
                reply = self._reply(key, message)
            if self.node.delay_s:
                await trio.sleep(self.node.delay_s)
            if key == ApiKey.PRODUCE and message.acks == 0:
                continue
            if reply is None:
                return
            correlation_id += self.node.shifts_ids
            parts = codec.encode_response(key, version)(reply, correlation_id)
            whole = b"".join(bytes(part) for part in parts)
            if self.node.cuts_frames:
                await self.stream.send_all(whole[: len(whole) // 2])
                return
            await self.stream.send_all(whole + (b"more" if self.node.adds_bytes else b""))

    def _is_in_session(self, key: int) -> bool:
        if key == ApiKey.SASL_HANDSHAKE:
            self.is_logging_in = True
        elif key != ApiKey.SASL_AUTHENTICATE and self.is_logged_in:
            is_over = trio.current_time() > self.ends_at
            self.node.expired += is_over
            return not is_over and not self.is_logging_in
        return True

    def _accept(self, user: str) -> SaslAuthenticateResponse | None:
        """Begin a session. Returns what refuses it: a connection keeps its user."""
        if self.user not in ("", user):
            self.node.refused_logins += 1
            return SaslAuthenticateResponse(58, "Cannot change principals during re-authentication")
        self.user, self.is_logged_in, self.is_logging_in = user, True, False
        self.node.logins.append(user)
        lifetime_ms = self.node.cluster.session_lifetime_ms
        self.ends_at = trio.current_time() + lifetime_ms / 1_000 if lifetime_ms else float("inf")
        return None

    def _reply(self, key: int, message: Any) -> Any:
        answer = self.node.answers.get(key)
        if answer is not None:
            return answer(message)
        match key:
            case ApiKey.API_VERSIONS:
                return self._versions(0)
            case ApiKey.SASL_HANDSHAKE:
                self.mechanism = message.mechanism
                known = list(self.node.cluster.mechanisms)
                return SaslHandshakeResponse(0 if message.mechanism in known else 33, known)
            case ApiKey.SASL_AUTHENTICATE:
                return self._authenticate(message.auth_bytes)
        if not self.is_logged_in:
            return None
        nodes = self.node.cluster.live if self.node.says_nodes is None else self.node.says_nodes
        match key:
            case ApiKey.DESCRIBE_CLUSTER:
                return DescribeClusterResponse(
                    cluster_id=self.node.says_cluster_id or self.node.cluster.cluster_id,
                    controller_id=self.node.node_id,
                    brokers=[DescribeClusterBroker(n.node_id, n.host, n.port, n.rack) for n in nodes],
                )
            case ApiKey.METADATA:
                return MetadataResponse(
                    brokers=[MetadataResponseBroker(n.node_id, n.host, n.port, n.rack) for n in nodes],
                    cluster_id=self.node.says_cluster_id or self.node.cluster.cluster_id,
                    controller_id=self.node.node_id,
                )
        return None

    def _versions(self, error_code: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code, [ApiVersion(key, *versions) for key, versions in self.node.versions.items()]
        )

    def _authenticate(self, token: memoryview) -> SaslAuthenticateResponse:
        cluster = self.node.cluster
        if self.mechanism not in cluster.mechanisms:
            return SaslAuthenticateResponse(34, "SaslAuthenticate before SaslHandshake")
        try:
            if self.mechanism == "PLAIN":
                user = PlainAuthenticator({"": cluster.users}).authenticate("", token)
                lifetime_ms = cluster.session_lifetime_ms
                return self._accept(user) or SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
            if self.login is None:
                mechanism = MECHANISMS[self.mechanism]
                self.login = ScramLogin(
                    mechanism,
                    lambda name: Salted(mechanism, cluster.users[name]) if name in cluster.users else None,
                    lambda _name: Salted(mechanism, "nobody's"),
                )
            reply = self.login.step(token, 0)
        except ApiError as error:
            self.node.refused_logins += 1
            return SaslAuthenticateResponse(int(error.code), error.message)
        if self.login.name is None:
            return SaslAuthenticateResponse(auth_bytes=reply)
        user, self.login = self.login.name, None
        if (refusal := self._accept(user)) is not None:
            return refusal
        if cluster.forges_signatures:
            reply = reply[:-4] + b"AAA="
        return SaslAuthenticateResponse(auth_bytes=reply, session_lifetime_ms=cluster.session_lifetime_ms)

    async def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            if self.node.stops_reading:
                await trio.sleep_forever()
            await self.node.thawed.wait()
            more = await self.stream.receive_some(count - len(got))
            if not more:
                raise EOFError
            got += more
        return got


def _body_at(frame: bytes, header_version: int) -> int:
    (length,) = struct.unpack_from(">h", frame, 8)
    at = 10 + max(length, 0)
    if header_version < 2 or at >= len(frame):
        return at
    try:
        return skip_tags(frame, at + 1, len(frame), frame[at])
    except IndexError:
        raise ProtocolViolation("tagged fields without an end") from None
