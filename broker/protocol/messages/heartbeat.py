"""Heartbeat, API key 12. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible=4):
    group_id: str = field("string", 0, 4)
    generation_id: int = field("int32", 0, 4)
    member_id: str = field("string", 0, 4)
    group_instance_id: str | None = field("string", 3, 4, nullable=3)


class HeartbeatResponse(Message, api_key=12, versions=(0, 4), flexible=4):
    throttle_time_ms: int = field("int32", 1, 4)
    error_code: int = field("int16", 0, 4)
