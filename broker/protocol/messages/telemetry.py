"""Telemetry, API keys 71, 72. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, field


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions=(0, 0), flexible=0):
    client_instance_id: bytes = field("uuid", 0, 0)


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    client_instance_id: bytes = field("uuid", 0, 0)
    subscription_id: int = field("int32", 0, 0)
    accepted_compression_types: list[int] = field("int8", 0, 0, array=True)
    push_interval_ms: int = field("int32", 0, 0)
    telemetry_max_bytes: int = field("int32", 0, 0)
    delta_temporality: bool = field("bool", 0, 0)
    requested_metrics: list[str] = field("string", 0, 0, array=True)


class PushTelemetryRequest(Message, api_key=72, versions=(0, 0), flexible=0):
    client_instance_id: bytes = field("uuid", 0, 0)
    subscription_id: int = field("int32", 0, 0)
    terminating: bool = field("bool", 0, 0)
    compression_type: int = field("int8", 0, 0)
    metrics: Buffer = field("bytes", 0, 0)


class PushTelemetryResponse(Message, api_key=72, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
