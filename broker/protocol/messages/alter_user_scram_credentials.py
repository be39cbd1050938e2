"""Alter user scram credentials, API key 51. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


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
