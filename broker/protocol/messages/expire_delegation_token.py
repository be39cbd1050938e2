"""Expire delegation token, API key 40. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message


class ExpireDelegationTokenRequest(Message):
    __slots__ = ("hmac", "expiry_time_period_ms")
    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("hmac", "bytes", 1, 2),
        Field("expiry_time_period_ms", "int64", 1, 2),
    )

    def __init__(self, hmac: Buffer = b"", expiry_time_period_ms: int = 0) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms


class ExpireDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    API_KEY = 40
    VERSIONS = (1, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("error_code", "int16", 1, 2),
        Field("expiry_timestamp_ms", "int64", 1, 2),
        Field("throttle_time_ms", "int32", 1, 2),
    )

    def __init__(self, error_code: int = 0, expiry_timestamp_ms: int = 0, throttle_time_ms: int = 0) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
