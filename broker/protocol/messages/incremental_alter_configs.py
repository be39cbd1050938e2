"""Incremental alter configs, API key 44. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AlterableConfig(Struct):
    name: str = field("string", 0, 1)
    config_operation: int = field("int8", 0, 1)
    value: str | None = field("string", 0, 1, nullable=0)


class AlterConfigsResource(Struct):
    resource_type: int = field("int8", 0, 1)
    resource_name: str = field("string", 0, 1)
    configs: list[AlterableConfig] = field(AlterableConfig, 0, 1, array=True)


class IncrementalAlterConfigsRequest(Message, api_key=44, versions=(0, 1), flexible=1):
    resources: list[AlterConfigsResource] = field(AlterConfigsResource, 0, 1, array=True)
    validate_only: bool = field("bool", 0, 1)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    resource_type: int = field("int8", 0, 1)
    resource_name: str = field("string", 0, 1)


class IncrementalAlterConfigsResponse(Message, api_key=44, versions=(0, 1), flexible=1):
    throttle_time_ms: int = field("int32", 0, 1)
    responses: list[AlterConfigsResourceResponse] = field(AlterConfigsResourceResponse, 0, 1, array=True)
