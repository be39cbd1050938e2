"""Acls, API keys 29, 30, 31. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DescribeAclsRequest(Message, api_key=29, versions=(1, 3), flexible=2):
    resource_type_filter: int = field("int8", 1, 3)
    resource_name_filter: str | None = field("string", 1, 3, nullable=1)
    pattern_type_filter: int = field("int8", 1, 3, default=3)
    principal_filter: str | None = field("string", 1, 3, nullable=1)
    host_filter: str | None = field("string", 1, 3, nullable=1)
    operation: int = field("int8", 1, 3)
    permission_type: int = field("int8", 1, 3)


class AclDescription(Struct):
    principal: str = field("string", 1, 3)
    host: str = field("string", 1, 3)
    operation: int = field("int8", 1, 3)
    permission_type: int = field("int8", 1, 3)


class DescribeAclsResource(Struct):
    resource_type: int = field("int8", 1, 3)
    resource_name: str = field("string", 1, 3)
    pattern_type: int = field("int8", 1, 3, default=3)
    acls: list[AclDescription] = field(AclDescription, 1, 3, array=True)


class DescribeAclsResponse(Message, api_key=29, versions=(1, 3), flexible=2):
    throttle_time_ms: int = field("int32", 1, 3)
    error_code: int = field("int16", 1, 3)
    error_message: str | None = field("string", 1, 3, nullable=1)
    resources: list[DescribeAclsResource] = field(DescribeAclsResource, 1, 3, array=True)


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


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field("int8", 1, 3)
    resource_name_filter: str | None = field("string", 1, 3, nullable=1)
    pattern_type_filter: int = field("int8", 1, 3, default=3)
    principal_filter: str | None = field("string", 1, 3, nullable=1)
    host_filter: str | None = field("string", 1, 3, nullable=1)
    operation: int = field("int8", 1, 3)
    permission_type: int = field("int8", 1, 3)


class DeleteAclsRequest(Message, api_key=31, versions=(1, 3), flexible=2):
    filters: list[DeleteAclsFilter] = field(DeleteAclsFilter, 1, 3, array=True)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field("int16", 1, 3)
    error_message: str | None = field("string", 1, 3, nullable=1)
    resource_type: int = field("int8", 1, 3)
    resource_name: str = field("string", 1, 3)
    pattern_type: int = field("int8", 1, 3, default=3)
    principal: str = field("string", 1, 3)
    host: str = field("string", 1, 3)
    operation: int = field("int8", 1, 3)
    permission_type: int = field("int8", 1, 3)


class DeleteAclsFilterResult(Struct):
    error_code: int = field("int16", 1, 3)
    error_message: str | None = field("string", 1, 3, nullable=1)
    matching_acls: list[DeleteAclsMatchingAcl] = field(DeleteAclsMatchingAcl, 1, 3, array=True)


class DeleteAclsResponse(Message, api_key=31, versions=(1, 3), flexible=2):
    throttle_time_ms: int = field("int32", 1, 3)
    filter_results: list[DeleteAclsFilterResult] = field(DeleteAclsFilterResult, 1, 3, array=True)
