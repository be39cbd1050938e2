"""Alter configs, API key 33. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AlterableConfig(Struct):
    name: str = field("string", 0, 2)
    value: str | None = field("string", 0, 2, nullable=0)


class AlterConfigsResource(Struct):
    resource_type: int = field("int8", 0, 2)
    resource_name: str = field("string", 0, 2)
    configs: list[AlterableConfig] = field(AlterableConfig, 0, 2, array=True)


class AlterConfigsRequest(Message, api_key=33, versions=(0, 2), flexible=2):
    resources: list[AlterConfigsResource] = field(AlterConfigsResource, 0, 2, array=True)
    validate_only: bool = field("bool", 0, 2)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 0, 2, nullable=0)
    resource_type: int = field("int8", 0, 2)
    resource_name: str = field("string", 0, 2)


class AlterConfigsResponse(Message, api_key=33, versions=(0, 2), flexible=2):
    throttle_time_ms: int = field("int32", 0, 2)
    responses: list[AlterConfigsResourceResponse] = field(AlterConfigsResourceResponse, 0, 2, array=True)
