"""Share group heartbeat, API key 76. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ShareGroupHeartbeatRequest(Message, api_key=76, versions=(1, 1), flexible=1):
    group_id: str = field("string", 1, 1)
    member_id: str = field("string", 1, 1)
    member_epoch: int = field("int32", 1, 1)
    rack_id: str | None = field("string", 1, 1, nullable=1)
    subscribed_topic_names: list[str] | None = field("string", 1, 1, array=True, nullable=1)


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", 1, 1)
    partitions: list[int] = field("int32", 1, 1, array=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(TopicPartitions, 1, 1, array=True)


class ShareGroupHeartbeatResponse(Message, api_key=76, versions=(1, 1), flexible=1):
    throttle_time_ms: int = field("int32", 1, 1)
    error_code: int = field("int16", 1, 1)
    error_message: str | None = field("string", 1, 1, nullable=1)
    member_id: str | None = field("string", 1, 1, nullable=1)
    member_epoch: int = field("int32", 1, 1)
    heartbeat_interval_ms: int = field("int32", 1, 1)
    assignment: Assignment | None = field(Assignment, 1, 1, nullable=1)
