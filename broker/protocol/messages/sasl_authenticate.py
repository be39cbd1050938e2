"""Sasl authenticate, API key 36. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message


class SaslAuthenticateRequest(Message):
    __slots__ = ("auth_bytes",)
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (Field("auth_bytes", "bytes", 0, 2),)

    def __init__(self, auth_bytes: Buffer = b"") -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    API_KEY = 36
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("error_code", "int16", 0, 2),
        Field("error_message", "string", 0, 2, nullable=0),
        Field("auth_bytes", "bytes", 0, 2),
        Field("session_lifetime_ms", "int64", 1, 2),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: Buffer = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
