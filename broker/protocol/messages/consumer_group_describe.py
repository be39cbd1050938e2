"""Consumer group describe, API key 69. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ConsumerGroupDescribeRequest(Message, api_key=69, versions=(0, 1), flexible=0):
    group_ids: list[str] = field("string", 0, 1, array=True)
    include_authorized_operations: bool = field("bool", 0, 1)


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", 0, 1)
    topic_name: str = field("string", 0, 1)
    partitions: list[int] = field("int32", 0, 1, array=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(TopicPartitions, 0, 1, array=True)


class Member(Struct):
    member_id: str = field("string", 0, 1)
    instance_id: str | None = field("string", 0, 1, nullable=0)
    rack_id: str | None = field("string", 0, 1, nullable=0)
    member_epoch: int = field("int32", 0, 1)
    client_id: str = field("string", 0, 1)
    client_host: str = field("string", 0, 1)
    subscribed_topic_names: list[str] = field("string", 0, 1, array=True)
    subscribed_topic_regex: str | None = field("string", 0, 1, nullable=0)
    assignment: Assignment = field(Assignment, 0, 1)
    target_assignment: Assignment = field(Assignment, 0, 1)
    member_type: int = field("int8", 1, 1, default=-1)


class DescribedGroup(Struct):
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)
    group_id: str = field("string", 0, 1)
    group_state: str = field("string", 0, 1)
    group_epoch: int = field("int32", 0, 1)
    assignment_epoch: int = field("int32", 0, 1)
    assignor_name: str = field("string", 0, 1)
    members: list[Member] = field(Member, 0, 1, array=True)
    authorized_operations: int = field("int32", 0, 1, default=-2147483648)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    groups: list[DescribedGroup] = field(DescribedGroup, 0, 1, array=True)
