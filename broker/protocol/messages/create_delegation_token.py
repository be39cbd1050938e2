"""Create delegation token, API key 38. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class CreatableRenewers(Struct):
    principal_type: str = field("string", 1, 3)
    principal_name: str = field("string", 1, 3)


class CreateDelegationTokenRequest(Message, api_key=38, versions=(1, 3), flexible=2):
    owner_principal_type: str | None = field("string", 3, 3, nullable=3)
    owner_principal_name: str | None = field("string", 3, 3, nullable=3)
    renewers: list[CreatableRenewers] = field(CreatableRenewers, 1, 3, array=True)
    max_lifetime_ms: int = field("int64", 1, 3)


class CreateDelegationTokenResponse(Message, api_key=38, versions=(1, 3), flexible=2):
    error_code: int = field("int16", 1, 3)
    principal_type: str = field("string", 1, 3)
    principal_name: str = field("string", 1, 3)
    token_requester_principal_type: str = field("string", 3, 3)
    token_requester_principal_name: str = field("string", 3, 3)
    issue_timestamp_ms: int = field("int64", 1, 3)
    expiry_timestamp_ms: int = field("int64", 1, 3)
    max_timestamp_ms: int = field("int64", 1, 3)
    token_id: str = field("string", 1, 3)
    hmac: Buffer = field("bytes", 1, 3)
    throttle_time_ms: int = field("int32", 1, 3)
