"""Update features, API key 57. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field("string", 0, 2)
    max_version_level: int = field("int16", 0, 2)
    allow_downgrade: bool = field("bool", 0, 0)
    upgrade_type: int = field("int8", 1, 2, default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions=(0, 2), flexible=0):
    timeout_ms: int = field("int32", 0, 2, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(FeatureUpdateKey, 0, 2, array=True)
    validate_only: bool = field("bool", 1, 2)


class UpdatableFeatureResult(Struct):
    feature: str = field("string", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)


class UpdateFeaturesResponse(Message, api_key=57, versions=(0, 2), flexible=0):
    throttle_time_ms: int = field("int32", 0, 2)
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 0, 2, nullable=0)
    results: list[UpdatableFeatureResult] = field(UpdatableFeatureResult, 0, 1, array=True)
