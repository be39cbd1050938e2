"""Delegation tokens, API keys 38, 39, 40, 41. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

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


class RenewDelegationTokenRequest(Message, api_key=39, versions=(1, 2), flexible=2):
    hmac: Buffer = field("bytes", 1, 2)
    renew_period_ms: int = field("int64", 1, 2)


class RenewDelegationTokenResponse(Message, api_key=39, versions=(1, 2), flexible=2):
    error_code: int = field("int16", 1, 2)
    expiry_timestamp_ms: int = field("int64", 1, 2)
    throttle_time_ms: int = field("int32", 1, 2)


class ExpireDelegationTokenRequest(Message, api_key=40, versions=(1, 2), flexible=2):
    hmac: Buffer = field("bytes", 1, 2)
    expiry_time_period_ms: int = field("int64", 1, 2)


class ExpireDelegationTokenResponse(Message, api_key=40, versions=(1, 2), flexible=2):
    error_code: int = field("int16", 1, 2)
    expiry_timestamp_ms: int = field("int64", 1, 2)
    throttle_time_ms: int = field("int32", 1, 2)


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field("string", 1, 3)
    principal_name: str = field("string", 1, 3)


class DescribeDelegationTokenRequest(Message, api_key=41, versions=(1, 3), flexible=2):
    owners: list[DescribeDelegationTokenOwner] | None = field(
        DescribeDelegationTokenOwner, 1, 3, array=True, nullable=1
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field("string", 1, 3)
    principal_name: str = field("string", 1, 3)


class DescribedDelegationToken(Struct):
    principal_type: str = field("string", 1, 3)
    principal_name: str = field("string", 1, 3)
    token_requester_principal_type: str = field("string", 3, 3)
    token_requester_principal_name: str = field("string", 3, 3)
    issue_timestamp: int = field("int64", 1, 3)
    expiry_timestamp: int = field("int64", 1, 3)
    max_timestamp: int = field("int64", 1, 3)
    token_id: str = field("string", 1, 3)
    hmac: Buffer = field("bytes", 1, 3)
    renewers: list[DescribedDelegationTokenRenewer] = field(DescribedDelegationTokenRenewer, 1, 3, array=True)


class DescribeDelegationTokenResponse(Message, api_key=41, versions=(1, 3), flexible=2):
    error_code: int = field("int16", 1, 3)
    tokens: list[DescribedDelegationToken] = field(DescribedDelegationToken, 1, 3, array=True)
    throttle_time_ms: int = field("int32", 1, 3)
