"""A Kafka client that says exactly what a test wants said, over a real connection. Knows no broker code
but the codec.
"""

import ssl
import struct
from typing import Any

import trio

from broker.protocol import codec
from broker.protocol.api_key import response_header_version
from broker.protocol.codec import parse_response_header

CLIENT_ID = "tester"


class WireClient:
    """One connection, of a SocketStream or with TLS above it. `send` and `receive` may be paired freely;
    `ask` is one after the other.
    """

    def __init__(self, stream: Any, client_id: str | None) -> None:
        self.stream = stream
        self.client_id = client_id
        self._buffer = bytearray()
        self._next = 1

    async def send(self, message: Any, version: int) -> int:
        """Sends one request; its correlation id."""
        correlation_id, self._next = self._next, self._next + 1
        parts = codec.encode_request(message.API_KEY, version)(message, correlation_id, self.client_id)
        await self.stream.send_all(b"".join(bytes(part) for part in parts))
        return correlation_id

    async def receive_frame(self) -> bytes:
        """The next frame without its size. EOFError when the broker closes."""
        (size,) = struct.unpack(">i", await self._exactly(4))
        return await self._exactly(size)

    async def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """(correlation id, message) of the next response, which is to be of this API and version."""
        frame = await self.receive_frame()
        correlation_id, at = parse_response_header(frame, response_header_version(api_key, version))
        return correlation_id, codec.decode_response(api_key, version)(frame, at)

    async def ask(self, message: Any, version: int) -> Any:
        """Sends a request and waits for its answer."""
        sent = await self.send(message, version)
        correlation_id, answer = await self.receive(message.API_KEY, version)
        assert correlation_id == sent
        return answer

    async def is_closed(self) -> bool:
        """Waits until the broker closes the connection; False if it sends bytes instead."""
        try:
            return await self.stream.receive_some(1) == b""
        except trio.BrokenResourceError:
            return True

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            more = await self.stream.receive_some(65_536)
            if not more:
                raise EOFError
            self._buffer += more
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


OPENED: list[trio.SocketStream] = []
"""Every connection of the test that runs; `tests/conftest.py` closes what the test has not."""


async def connect(port: int, client_id: str | None = CLIENT_ID) -> WireClient:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    OPENED.append(stream)
    return WireClient(stream, client_id)


async def connect_tls(port: int, context: ssl.SSLContext, client_id: str | None = CLIENT_ID) -> WireClient:
    """The handshake is done. trio.BrokenResourceError where the broker refuses it."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    OPENED.append(stream)
    tls = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
    await tls.do_handshake()
    return WireClient(tls, client_id)
