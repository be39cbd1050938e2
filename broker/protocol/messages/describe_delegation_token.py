"""Describe delegation token, API key 41. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class DescribeDelegationTokenOwner(Struct):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    )

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners",)
    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (Field("owners", DescribeDelegationTokenOwner, 1, 3, array=True, nullable=1),)

    def __init__(self, owners: list[DescribeDelegationTokenOwner] | None = None) -> None:
        self.owners = owners


class DescribedDelegationTokenRenewer(Struct):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    )

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(Struct):
    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )
    FIELDS = (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
        Field("token_requester_principal_type", "string", 3, 3),
        Field("token_requester_principal_name", "string", 3, 3),
        Field("issue_timestamp", "int64", 1, 3),
        Field("expiry_timestamp", "int64", 1, 3),
        Field("max_timestamp", "int64", 1, 3),
        Field("token_id", "string", 1, 3),
        Field("hmac", "bytes", 1, 3),
        Field("renewers", DescribedDelegationTokenRenewer, 1, 3, array=True),
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: Buffer = b"",
        renewers: list[DescribedDelegationTokenRenewer] | None = None,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is None else renewers


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")
    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("error_code", "int16", 1, 3),
        Field("tokens", DescribedDelegationToken, 1, 3, array=True),
        Field("throttle_time_ms", "int32", 1, 3),
    )

    def __init__(
        self,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] | None = None,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is None else tokens
        self.throttle_time_ms = throttle_time_ms
