"""Describe user scram credentials, API key 50. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class UserName(Struct):
    __slots__ = ("name",)
    FIELDS = (Field("name", "string", 0, 0),)

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users",)
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (Field("users", UserName, 0, 0, array=True, nullable=0),)

    def __init__(self, users: list[UserName] | None = None) -> None:
        self.users = users


class CredentialInfo(Struct):
    __slots__ = ("mechanism", "iterations")
    FIELDS = (
        Field("mechanism", "int8", 0, 0),
        Field("iterations", "int32", 0, 0),
    )

    def __init__(self, mechanism: int = 0, iterations: int = 0) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "credential_infos")
    FIELDS = (
        Field("user", "string", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("credential_infos", CredentialInfo, 0, 0, array=True),
    )

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        credential_infos: list[CredentialInfo] | None = None,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is None else credential_infos


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
        Field("results", DescribeUserScramCredentialsResult, 0, 0, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: list[DescribeUserScramCredentialsResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is None else results
