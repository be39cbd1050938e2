"""Sasl authenticate, API key 36. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, field


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible=2):
    auth_bytes: Buffer = field("bytes", 0, 2)


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible=2):
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 0, 2, nullable=0)
    auth_bytes: Buffer = field("bytes", 0, 2)
    session_lifetime_ms: int = field("int64", 1, 2)
