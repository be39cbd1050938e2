"""Describe configs, API key 32. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field("int8", 1, 4)
    resource_name: str = field("string", 1, 4)
    configuration_keys: list[str] | None = field("string", 1, 4, array=True, nullable=1)


class DescribeConfigsRequest(Message, api_key=32, versions=(1, 4), flexible=4):
    resources: list[DescribeConfigsResource] = field(DescribeConfigsResource, 1, 4, array=True)
    include_synonyms: bool = field("bool", 1, 4)
    include_documentation: bool = field("bool", 3, 4)


class DescribeConfigsSynonym(Struct):
    name: str = field("string", 1, 4)
    value: str | None = field("string", 1, 4, nullable=1)
    source: int = field("int8", 1, 4)


class DescribeConfigsResourceResult(Struct):
    name: str = field("string", 1, 4)
    value: str | None = field("string", 1, 4, nullable=1)
    read_only: bool = field("bool", 1, 4)
    config_source: int = field("int8", 1, 4, default=-1)
    is_sensitive: bool = field("bool", 1, 4)
    synonyms: list[DescribeConfigsSynonym] = field(DescribeConfigsSynonym, 1, 4, array=True)
    config_type: int = field("int8", 3, 4)
    documentation: str | None = field("string", 3, 4, nullable=3)


class DescribeConfigsResult(Struct):
    error_code: int = field("int16", 1, 4)
    error_message: str | None = field("string", 1, 4, nullable=1)
    resource_type: int = field("int8", 1, 4)
    resource_name: str = field("string", 1, 4)
    configs: list[DescribeConfigsResourceResult] = field(DescribeConfigsResourceResult, 1, 4, array=True)


class DescribeConfigsResponse(Message, api_key=32, versions=(1, 4), flexible=4):
    throttle_time_ms: int = field("int32", 1, 4)
    results: list[DescribeConfigsResult] = field(DescribeConfigsResult, 1, 4, array=True)
