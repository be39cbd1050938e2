"""Describe acls, API key 29. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class DescribeAclsRequest(Message):
    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("resource_type_filter", "int8", 1, 3),
        Field("resource_name_filter", "string", 1, 3, nullable=1),
        Field("pattern_type_filter", "int8", 1, 3, default=3),
        Field("principal_filter", "string", 1, 3, nullable=1),
        Field("host_filter", "string", 1, 3, nullable=1),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = None,
        pattern_type_filter: int = 3,
        principal_filter: str | None = None,
        host_filter: str | None = None,
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class AclDescription(Struct):
    __slots__ = ("principal", "host", "operation", "permission_type")
    FIELDS = (
        Field("principal", "string", 1, 3),
        Field("host", "string", 1, 3),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    )

    def __init__(
        self, principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    FIELDS = (
        Field("resource_type", "int8", 1, 3),
        Field("resource_name", "string", 1, 3),
        Field("pattern_type", "int8", 1, 3, default=3),
        Field("acls", AclDescription, 1, 3, array=True),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] | None = None,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is None else acls


class DescribeAclsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 1, 3),
        Field("error_code", "int16", 1, 3),
        Field("error_message", "string", 1, 3, nullable=1),
        Field("resources", DescribeAclsResource, 1, 3, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        resources: list[DescribeAclsResource] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is None else resources
