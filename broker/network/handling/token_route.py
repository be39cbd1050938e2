"""The route of SASL tokens without a request around them, which follow SaslHandshake 0.

Made by `Routes.tokens`, and used by the processor while a connection `sends_raw_tokens`. A token is a frame
of its own, and so is the server's; a failed login has no frame and only ends the connection. The handler is
that of SaslAuthenticate. (Kafka: SaslServerAuthenticator.handleSaslToken without Kafka headers)
"""

import struct
from collections.abc import Generator
from typing import Final, cast

from broker.api.registry import Api
from broker.api.requests.services import HandlerServices
from broker.network.connection.receive import Frame
from broker.network.connection.send import Part
from broker.network.handling.route import MetricsOf, Route
from broker.protocol.api_key import ApiKey
from broker.protocol.error_codes import error_codes
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.protocol.schema import Struct

SIZE: Final = struct.Struct(">i")
HEADER: Final = struct.Struct(">hhih")
VERSION: Final = 0
"""The version under which tokens are counted: like SaslAuthenticate 0, they tell no session lifetime."""


def with_header(token: Frame, client_id: str | None) -> bytes:
    """Return the token behind the header that a request would have."""
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    return b"".join((HEADER.pack(ApiKey.SASL_AUTHENTICATE, VERSION, 0, length), raw, token))


class TokenRoute(Route):
    """The route of tokens on one listener."""

    __slots__ = ()

    def __init__(self, api: Api, services: HandlerServices, metrics: MetricsOf) -> None:
        super().__init__(
            api,
            VERSION,
            metrics,
            decode=_token,
            encode=_frame,
            handle=api.handle,
            services=services[api.services],
            flexible=False,
            error_codes=error_codes(api.key, VERSION),
            caches=False,
        )

    def decode_in_slices(self, frame: Frame, offset: int) -> Generator[None, None, Struct]:
        yield from ()
        return _token(frame, offset)

    def encode_in_slices(self, reply: Struct, correlation_id: int) -> Generator[None, None, list[Part]]:
        yield from ()
        return _frame(reply, correlation_id)


def _token(frame: Frame, offset: int) -> Struct:
    return SaslAuthenticateRequest(bytes(frame[offset:]))


def _frame(reply: Struct, _correlation_id: int) -> list[Part]:
    """Return the server's token with its size; nothing for a failed login."""
    answer = cast(SaslAuthenticateResponse, reply)
    if answer.error_code:
        return [b""]
    token = bytes(answer.auth_bytes)
    return [SIZE.pack(len(token)) + token]
