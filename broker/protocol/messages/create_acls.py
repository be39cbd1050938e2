"""Create acls, API key 30. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class AclCreation(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    FIELDS = (
        Field("resource_type", "int8", 1, 3),
        Field("resource_name", "string", 1, 3),
        Field("resource_pattern_type", "int8", 1, 3, default=3),
        Field("principal", "string", 1, 3),
        Field("host", "string", 1, 3),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Message):
    __slots__ = ("creations",)
    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (Field("creations", AclCreation, 1, 3, array=True),)

    def __init__(self, creations: list[AclCreation] | None = None) -> None:
        self.creations = [] if creations is None else creations


class AclCreationResult(Struct):
    __slots__ = ("error_code", "error_message")
    FIELDS = (
        Field("error_code", "int16", 1, 3),
        Field("error_message", "string", 1, 3, nullable=1),
    )

    def __init__(self, error_code: int = 0, error_message: str | None = None) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "results")
    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 3),
        Field("results", AclCreationResult, 1, 3, array=True),
    )

    def __init__(self, throttle_time_ms: int = 0, results: list[AclCreationResult] | None = None) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is None else results
