"""A cache of rewritten responses, because clients request the same metadata repeatedly.

Called by `upstream_receive` for responses with addresses, and by the processor, which rewrites what is not
known.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from broker.gateway.responses import Advertised, Rewriter

KEPT_RESPONSES: Final = 256
KEPT_RESPONSE_BYTES: Final = 4096
"""Rewritten responses that a processor remembers, and the largest of them; ours."""

SIZE: Final = Struct(">i")
PACK_INTO: Final = SIZE.pack_into


class KeptResponse:
    """A response and what it is rewritten to while the addresses have this version. `tail` is the response
    behind its correlation id, `end` its bytes with its size, and `whole` the rewritten one with its size.
    """

    __slots__ = ("addresses_version", "end", "tail", "whole")

    def __init__(self, addresses_version: int, tail: bytes, whole: bytearray) -> None:
        self.addresses_version = addresses_version
        self.tail = tail
        self.end = len(tail) + 8
        self.whole = whole


class KeptResponses:
    """The responses of up to KEPT_RESPONSE_BYTES of one processor. `addresses_version` changes with the
    addresses that `advertised` returns.
    """

    def __init__(self, advertised: Advertised, addresses_version: Callable[[], int]) -> None:
        self._advertised = advertised
        self._addresses_version = addresses_version
        self._version: int | None = None
        self._tails: dict[tuple[int, int, bytes], bytes] = {}
        """Rewritten responses behind the correlation id, by API, version and the same part of upstream's."""

    def __len__(self) -> int:
        return len(self._tails)

    def again(
        self, last: KeptResponse | None, buffer: bytearray, end: int, correlation_id: int
    ) -> bytearray | None:
        """Return what a response with its size, `buffer[:end]`, is rewritten to, if it equals `last` but for
        its correlation id. The result is valid until the next call.
        """
        if (
            last is None
            or last.end != end
            or last.addresses_version != self._addresses_version()
            or not buffer.startswith(last.tail, 8)
        ):
            return None
        PACK_INTO(last.whole, 4, correlation_id)
        return last.whole

    def known(self, api_key: int, version: int, data: memoryview, end: int) -> KeptResponse | None:
        """Return a response with its size, `data[:end]`, and what it is rewritten to, with its correlation
        id, if it is remembered.
        """
        addresses = self._addresses_version()
        if addresses != self._version:
            return None
        asked = bytes(data[8:end])
        tail = self._tails.get((api_key, version, asked))
        if tail is None:
            return None
        whole = bytearray(b"".join((SIZE.pack(len(tail) + 4), data[4:8], tail)))
        return KeptResponse(addresses, asked, whole)

    def rewritten(self, rewrite: Rewriter, api_key: int, version: int, frame: bytes) -> bytes:
        """Return the rewritten response, with its own correlation id. Raises ProtocolViolation."""
        addresses = self._addresses_version()
        if addresses != self._version:
            self._version = addresses
            self._tails.clear()
        key = api_key, version, frame[4:]
        tail = self._tails.get(key)
        if tail is None:
            tail = rewrite(frame, self._advertised)[8:]
            if len(frame) <= KEPT_RESPONSE_BYTES:
                if len(self._tails) >= KEPT_RESPONSES:
                    self._tails.clear()
                self._tails[key] = tail
        return b"".join((SIZE.pack(len(tail) + 4), frame[:4], tail))
