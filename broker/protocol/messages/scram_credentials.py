"""Scram credentials, API keys 50, 51. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class UserName(Struct):
    name: str = field("string", 0, 0)


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions=(0, 0), flexible=0):
    users: list[UserName] | None = field(UserName, 0, 0, array=True, nullable=0)


class CredentialInfo(Struct):
    mechanism: int = field("int8", 0, 0)
    iterations: int = field("int32", 0, 0)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field("string", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    credential_infos: list[CredentialInfo] = field(CredentialInfo, 0, 0, array=True)


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
    results: list[DescribeUserScramCredentialsResult] = field(
        DescribeUserScramCredentialsResult, 0, 0, array=True
    )


class ScramCredentialDeletion(Struct):
    name: str = field("string", 0, 0)
    mechanism: int = field("int8", 0, 0)


class ScramCredentialUpsertion(Struct):
    name: str = field("string", 0, 0)
    mechanism: int = field("int8", 0, 0)
    iterations: int = field("int32", 0, 0)
    salt: Buffer = field("bytes", 0, 0)
    salted_password: Buffer = field("bytes", 0, 0)


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible=0):
    deletions: list[ScramCredentialDeletion] = field(ScramCredentialDeletion, 0, 0, array=True)
    upsertions: list[ScramCredentialUpsertion] = field(ScramCredentialUpsertion, 0, 0, array=True)


class AlterUserScramCredentialsResult(Struct):
    user: str = field("string", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    results: list[AlterUserScramCredentialsResult] = field(AlterUserScramCredentialsResult, 0, 0, array=True)
