"""Create acls, API key 30. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AclCreation(Struct):
    resource_type: int = field("int8", 1, 3)
    resource_name: str = field("string", 1, 3)
    resource_pattern_type: int = field("int8", 1, 3, default=3)
    principal: str = field("string", 1, 3)
    host: str = field("string", 1, 3)
    operation: int = field("int8", 1, 3)
    permission_type: int = field("int8", 1, 3)


class CreateAclsRequest(Message, api_key=30, versions=(1, 3), flexible=2):
    creations: list[AclCreation] = field(AclCreation, 1, 3, array=True)


class AclCreationResult(Struct):
    error_code: int = field("int16", 1, 3)
    error_message: str | None = field("string", 1, 3, nullable=1)


class CreateAclsResponse(Message, api_key=30, versions=(1, 3), flexible=2):
    throttle_time_ms: int = field("int32", 1, 3)
    results: list[AclCreationResult] = field(AclCreationResult, 1, 3, array=True)
