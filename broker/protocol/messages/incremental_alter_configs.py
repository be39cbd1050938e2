"""Incremental alter configs, API key 44. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class AlterableConfig(Struct):
    __slots__ = ("name", "config_operation", "value")
    FIELDS = (
        Field("name", "string", 0, 1),
        Field("config_operation", "int8", 0, 1),
        Field("value", "string", 0, 1, nullable=0),
    )

    def __init__(self, name: str = "", config_operation: int = 0, value: str | None = None) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs")
    FIELDS = (
        Field("resource_type", "int8", 0, 1),
        Field("resource_name", "string", 0, 1),
        Field("configs", AlterableConfig, 0, 1, array=True),
    )

    def __init__(
        self, resource_type: int = 0, resource_name: str = "", configs: list[AlterableConfig] | None = None
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is None else configs


class IncrementalAlterConfigsRequest(Message):
    __slots__ = ("resources", "validate_only")
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("resources", AlterConfigsResource, 0, 1, array=True),
        Field("validate_only", "bool", 0, 1),
    )

    def __init__(
        self, resources: list[AlterConfigsResource] | None = None, validate_only: bool = False
    ) -> None:
        self.resources = [] if resources is None else resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    FIELDS = (
        Field("error_code", "int16", 0, 1),
        Field("error_message", "string", 0, 1, nullable=0),
        Field("resource_type", "int8", 0, 1),
        Field("resource_name", "string", 0, 1),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(Message):
    __slots__ = ("throttle_time_ms", "responses")
    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("responses", AlterConfigsResourceResponse, 0, 1, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[AlterConfigsResourceResponse] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is None else responses
