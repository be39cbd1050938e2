"""List config resources, API key 74. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ListConfigResourcesRequest(Message, api_key=74, versions=(0, 1), flexible=0):
    resource_types: list[int] = field("int8", 1, 1, array=True)


class ConfigResource(Struct):
    resource_name: str = field("string", 0, 1)
    resource_type: int = field("int8", 1, 1, default=16)


class ListConfigResourcesResponse(Message, api_key=74, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    config_resources: list[ConfigResource] = field(ConfigResource, 0, 1, array=True)
