"""Expire delegation token, API key 40. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, field


class ExpireDelegationTokenRequest(Message, api_key=40, versions=(1, 2), flexible=2):
    hmac: Buffer = field("bytes", 1, 2)
    expiry_time_period_ms: int = field("int64", 1, 2)


class ExpireDelegationTokenResponse(Message, api_key=40, versions=(1, 2), flexible=2):
    error_code: int = field("int16", 1, 2)
    expiry_timestamp_ms: int = field("int64", 1, 2)
    throttle_time_ms: int = field("int32", 1, 2)
