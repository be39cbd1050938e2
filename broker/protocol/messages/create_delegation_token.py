"""Create delegation token, API key 38. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class CreatableRenewers(Struct):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    )

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")
    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("owner_principal_type", "string", 3, 3, nullable=3),
        Field("owner_principal_name", "string", 3, 3, nullable=3),
        Field("renewers", CreatableRenewers, 1, 3, array=True),
        Field("max_lifetime_ms", "int64", 1, 3),
    )

    def __init__(
        self,
        owner_principal_type: str | None = None,
        owner_principal_name: str | None = None,
        renewers: list[CreatableRenewers] | None = None,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is None else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(Message):
    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )
    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("error_code", "int16", 1, 3),
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
        Field("token_requester_principal_type", "string", 3, 3),
        Field("token_requester_principal_name", "string", 3, 3),
        Field("issue_timestamp_ms", "int64", 1, 3),
        Field("expiry_timestamp_ms", "int64", 1, 3),
        Field("max_timestamp_ms", "int64", 1, 3),
        Field("token_id", "string", 1, 3),
        Field("hmac", "bytes", 1, 3),
        Field("throttle_time_ms", "int32", 1, 3),
    )

    def __init__(
        self,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: Buffer = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
