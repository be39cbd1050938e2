"""One connection to an upstream broker for the gateway's own requests. (Kafka: NetworkClient)

Requests are pipelined; a broker answers them in their order. `client` and `cluster` open connections.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import trio

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.common.version import VERSION
from broker.config.listeners import Address
from broker.config.sections import UpstreamConfig
from broker.gateway.upstream.connect import UpstreamSocket, open_connection
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.frames import (
    DECODED_AT_ONCE,
    FAILURES,
    MAX_FRAME_BYTES,
    FrameStream,
    as_upstream_error,
    decoded,
)
from broker.gateway.upstream.security import UpstreamSecurity
from broker.protocol import codec
from broker.protocol.api_key import NAMES, ApiKey, response_header_version
from broker.protocol.messages.api_versions import ApiVersionsRequest

SOFTWARE_NAME: Final = "weir-gateway"
API_VERSIONS_VERSION: Final = 3

RENEW_AT: Final = 0.85
"""The share of a login's lifetime after which the connection is replaced. (KIP-368; Kafka: 0.85 to 0.95)"""


class _Pending:
    """A request that waits for its response: `frame` or `error` is set when `done` is."""

    __slots__ = ("body_at", "correlation_id", "done", "error", "frame", "header_version")

    def __init__(self, correlation_id: int, header_version: int) -> None:
        self.correlation_id = correlation_id
        self.header_version = header_version
        self.done = trio.Event()
        self.frame = bytearray()
        self.body_at = 0
        self.error: UpstreamError | None = None


class UpstreamConnection:
    """`run` opens the connection, asks for the broker's API versions and reads responses, until the
    connection ends. The owner runs it in a nursery and calls `request` in any task.

    `timeout_ms` limits a request. `on_close` is called once, with the connection, after it has ended.
    """

    def __init__(
        self,
        address: Address,
        config: UpstreamConfig,
        security: UpstreamSecurity,
        *,
        timeout_ms: int | None = None,
        on_close: "Callable[[UpstreamConnection], None] | None" = None,
    ) -> None:
        self.address = address
        self._config = config
        self._security = security
        self._timeout_ms = config.request_timeout_ms if timeout_ms is None else timeout_ms
        self._on_close = on_close
        self._scope = trio.CancelScope()
        self._opened = trio.Event()
        self._sending = trio.Lock()
        self._pending: deque[_Pending] = deque()
        self._frames: FrameStream | None = None
        self._next_id = 1
        self._renew_at = float("inf")
        self._retired = False
        self._error: UpstreamError | None = None
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The versions of each API key that the broker serves; empty until the connection is open."""

    @property
    def is_usable(self) -> bool:
        """Whether a new request may use it: it is open or being opened, and its login lasts."""
        return self._error is None and not self._retired and trio.current_time() < self._renew_at

    async def run(self) -> None:
        """Serve the connection until it ends; its end reaches the callers of `request`, and not this task's.
        If cancelled, closes the socket, and the waiting requests fail.
        """
        opened: UpstreamSocket | None = None
        try:
            with self._scope:
                with self._limit(self._config.connection_setup_timeout_ms, "the broker did not answer"):
                    opened = await open_connection(self.address, self._config, self._security, login=True)
                    await self._begin(opened)
                while True:
                    assert self._frames is not None
                    self._answer(await self._frames.receive())
        except UpstreamError as error:
            self._end(error)
        except FAILURES as error:
            self._end(as_upstream_error(self.address, error))
        finally:
            self._end(UpstreamError(Reason.CLOSED, f"{self.address}: the gateway closed the connection"))
            if opened is not None:
                opened.sock.close()
            if self._on_close is not None:
                self._on_close(self)

    async def wait_open(self) -> None:
        """Wait until requests can be sent. Raises UpstreamError."""
        await self._opened.wait()
        self._check()

    async def request(
        self,
        message: Any,
        version: int | None = None,
        *,
        at_least: int = 0,
        at_most: int | None = None,
        most: int = MAX_FRAME_BYTES,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request and return its response, of up to `most` bytes. Without `version`, uses the newest
        that both sides know, from `at_least` up to `at_most`.

        Raises UpstreamError. After a timeout the connection closes, since later responses would wait behind
        the missing one. If cancelled, the request may be sent, and its response is discarded.
        """
        await self.wait_open()
        key = message.API_KEY
        version = self._version(key, version, at_least, at_most)
        try:
            with self._limit(timeout_ms or self._timeout_ms, f"no response to {NAMES[key]}"):
                pending = await self._send(message, version)
                await pending.done.wait()
        except UpstreamError as error:
            if error.reason is not Reason.VERSION:
                self._end(error)
            raise
        if pending.error is not None:
            raise pending.error.again()
        if len(pending.frame) > most:
            text = f"{self.address}: a response of {len(pending.frame)} bytes to {NAMES[key]}, at most {most}"
            raise UpstreamError(Reason.PROTOCOL, text)
        try:
            return await decoded(pending.frame, pending.body_at, key, version)
        except ProtocolViolation as violation:
            raise UpstreamError(Reason.PROTOCOL, f"{self.address}: {violation}") from violation

    def retire(self) -> None:
        """Accept no new requests, and close after the last response."""
        self._retired = True
        if not self._pending:
            self.close()

    def close(self) -> None:
        """Close now; waiting requests fail."""
        self._scope.cancel()

    async def _begin(self, opened: UpstreamSocket) -> None:
        frames = FrameStream(opened.sock, opened.fd)
        self.versions = await self._ask_versions(frames)
        self._frames = frames
        if opened.session_lifetime_ms:
            self._renew_at = trio.current_time() + opened.session_lifetime_ms * RENEW_AT / 1_000
        self._opened.set()

    async def _ask_versions(self, frames: FrameStream) -> dict[int, tuple[int, int]]:
        """Ask in version 3, and in version 0 a broker that does not know it. (KIP-511)"""
        version = API_VERSIONS_VERSION
        while True:
            message = ApiVersionsRequest(SOFTWARE_NAME, VERSION)
            await frames.send(self._encoded(message, version, self._next_id))
            frame = await frames.receive()
            if len(frame) > DECODED_AT_ONCE:
                raise ProtocolViolation(
                    f"ApiVersions: a response of {len(frame)} bytes, expected at most {DECODED_AT_ONCE}"
                )
            correlation_id, at = codec.parse_response_header(frame, 0)
            if correlation_id != self._next_id:
                raise ProtocolViolation(f"correlation id {correlation_id}, expected {self._next_id}")
            self._next_id += 1
            unsupported = int.from_bytes(frame[at : at + 2], "big") == ErrorCode.UNSUPPORTED_VERSION
            if unsupported and version:
                version = 0
                continue
            reply: Any = codec.decode_response(ApiKey.API_VERSIONS, version)(frame, at)
            if reply.error_code:
                raise ProtocolViolation(f"ApiVersions: error {reply.error_code}")
            return {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}

    def _version(self, key: int, version: int | None, at_least: int, at_most: int | None) -> int:
        """Return the version to use. Raises UpstreamError VERSION."""
        ours, theirs = codec.known_versions(key), self.versions.get(key, (0, -1))
        first, last = max(ours[0], theirs[0], at_least), min(ours[1], theirs[1])
        chosen = min(last, last if at_most is None else at_most) if version is None else version
        if not first <= chosen <= last:
            wanted = "any version that the gateway can use" if version is None else f"version {version}"
            raise UpstreamError(
                Reason.VERSION, f"{self.address}: the broker does not serve {NAMES[key]} in {wanted}"
            )
        return chosen

    async def _send(self, message: Any, version: int) -> _Pending:
        key = message.API_KEY
        async with self._sending:
            self._check()
            assert self._frames is not None
            pending = _Pending(self._next_id, response_header_version(key, version))
            self._next_id = (self._next_id + 1) & 0x7FFFFFFF
            frame = self._encoded(message, version, pending.correlation_id)
            self._pending.append(pending)
            try:
                await self._frames.send(frame)
            except OSError as error:
                known = as_upstream_error(self.address, error)
                self._end(known)
                raise known from error
            except trio.Cancelled:
                # Part of the frame may be sent.
                self._end(UpstreamError(Reason.CLOSED, f"{self.address}: a request was cancelled"))
                raise
        return pending

    def _encoded(self, message: Any, version: int, correlation_id: int) -> bytes:
        encode = codec.encode_request(message.API_KEY, version)
        try:
            return b"".join(encode(message, correlation_id, self._config.client_id))  # type: ignore[arg-type] # no file slices
        except struct.error as error:
            what = f"{NAMES[message.API_KEY]} in version {version}"
            text = f"{self.address}: {what} has no room for a value of the request"
            raise UpstreamError(Reason.VERSION, text) from error

    def _answer(self, frame: bytearray) -> None:
        """Give a response to the request that waits longest."""
        if not self._pending:
            raise ProtocolViolation("a response that no request asked for")
        pending = self._pending[0]
        correlation_id, at = codec.parse_response_header(frame, pending.header_version)
        if correlation_id != pending.correlation_id:
            raise ProtocolViolation(f"correlation id {correlation_id}, expected {pending.correlation_id}")
        self._pending.popleft()
        pending.frame, pending.body_at = frame, at
        pending.done.set()
        if self._retired and not self._pending:
            self.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error.again()

    def _end(self, error: UpstreamError) -> None:
        """Fail what waits, and close. The first error counts."""
        if self._error is not None:
            return
        self._error = error
        self._opened.set()
        while self._pending:
            pending = self._pending.popleft()
            pending.error = error
            pending.done.set()
        self._scope.cancel()

    @contextmanager
    def _limit(self, timeout_ms: int, what: str) -> Iterator[None]:
        """Raise UpstreamError TIMEOUT when the time is over."""
        try:
            with trio.fail_after(timeout_ms / 1_000):
                yield
        except trio.TooSlowError:
            raise UpstreamError(Reason.TIMEOUT, f"{self.address}: {what} within {timeout_ms} ms") from None
