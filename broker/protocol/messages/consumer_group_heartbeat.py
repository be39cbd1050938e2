"""Consumer group heartbeat, API key 68. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions=(0, 1), flexible=0):
    group_id: str = field("string", 0, 1)
    member_id: str = field("string", 0, 1)
    member_epoch: int = field("int32", 0, 1)
    instance_id: str | None = field("string", 0, 1, nullable=0)
    rack_id: str | None = field("string", 0, 1, nullable=0)
    rebalance_timeout_ms: int = field("int32", 0, 1, default=-1)
    subscribed_topic_names: list[str] | None = field("string", 0, 1, array=True, nullable=0)
    subscribed_topic_regex: str | None = field("string", 1, 1, nullable=1)
    server_assignor: str | None = field("string", 0, 1, nullable=0)
    topic_partitions: list[TopicPartitions] | None = field(TopicPartitions, 0, 1, array=True, nullable=0)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(TopicPartitions, 0, 1, array=True)


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    member_id: str | None = field("string", 0, 1, nullable=0)
    member_epoch: int = field("int32", 0, 1)
    heartbeat_interval_ms: int = field("int32", 0, 1)
    assignment: Assignment | None = field(Assignment, 0, 1, nullable=0)
