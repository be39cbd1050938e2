"""Api versions, API key 18. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ApiVersionsRequest(Message, api_key=18, versions=(0, 5), flexible=3):
    client_software_name: str = field("string", 3, 5)
    client_software_version: str = field("string", 3, 5)
    cluster_id: str | None = field("string", 5, 5, nullable=5)
    node_id: int = field("int32", 5, 5, default=-1)


class ApiVersion(Struct):
    api_key: int = field("int16", 0, 5)
    min_version: int = field("int16", 0, 5)
    max_version: int = field("int16", 0, 5)


class SupportedFeatureKey(Struct):
    name: str = field("string", 3, 5)
    min_version: int = field("int16", 3, 5)
    max_version: int = field("int16", 3, 5)


class FinalizedFeatureKey(Struct):
    name: str = field("string", 3, 5)
    max_version_level: int = field("int16", 3, 5)
    min_version_level: int = field("int16", 3, 5)


class ApiVersionsResponse(Message, api_key=18, versions=(0, 5), flexible=3):
    error_code: int = field("int16", 0, 5)
    api_keys: list[ApiVersion] = field(ApiVersion, 0, 5, array=True)
    throttle_time_ms: int = field("int32", 1, 5)
    supported_features: list[SupportedFeatureKey] = field(SupportedFeatureKey, 3, 5, array=True, tag=0)
    finalized_features_epoch: int = field("int64", 3, 5, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(FinalizedFeatureKey, 3, 5, array=True, tag=2)
    zk_migration_ready: bool = field("bool", 3, 5, tag=3)
