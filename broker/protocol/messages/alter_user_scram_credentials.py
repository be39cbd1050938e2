"""Alter user scram credentials, API key 51. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("mechanism", "int8", 0, 0),
    )

    def __init__(self, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    FIELDS = (
        Field("name", "string", 0, 0),
        Field("mechanism", "int8", 0, 0),
        Field("iterations", "int32", 0, 0),
        Field("salt", "bytes", 0, 0),
        Field("salted_password", "bytes", 0, 0),
    )

    def __init__(
        self,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: Buffer = b"",
        salted_password: Buffer = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions")
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("deletions", ScramCredentialDeletion, 0, 0, array=True),
        Field("upsertions", ScramCredentialUpsertion, 0, 0, array=True),
    )

    def __init__(
        self,
        deletions: list[ScramCredentialDeletion] | None = None,
        upsertions: list[ScramCredentialUpsertion] | None = None,
    ) -> None:
        self.deletions = [] if deletions is None else deletions
        self.upsertions = [] if upsertions is None else upsertions


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message")
    FIELDS = (
        Field("user", "string", 0, 0),
        Field("error_code", "int16", 0, 0),
        Field("error_message", "string", 0, 0, nullable=0),
    )

    def __init__(self, user: str = "", error_code: int = 0, error_message: str | None = None) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("results", AlterUserScramCredentialsResult, 0, 0, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, results: list[AlterUserScramCredentialsResult] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
