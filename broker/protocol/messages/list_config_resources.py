"""List config resources, API key 74. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (Field("resource_types", "int8", 1, 1, array=True),)

    def __init__(self, resource_types: list[int] | None = None) -> None:
        self.resource_types = [] if resource_types is None else resource_types


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type")
    FIELDS = (
        Field("resource_name", "string", 0, 1),
        Field("resource_type", "int8", 1, 1, default=16),
    )

    def __init__(self, resource_name: str = "", resource_type: int = 16) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 1),
        Field("error_code", "int16", 0, 1),
        Field("config_resources", ConfigResource, 0, 1, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is None else config_resources
