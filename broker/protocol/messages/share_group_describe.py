"""Share group describe, API key 77. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ShareGroupDescribeRequest(Message, api_key=77, versions=(1, 1), flexible=1):
    group_ids: list[str] = field("string", 1, 1, array=True)
    include_authorized_operations: bool = field("bool", 1, 1)


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", 1, 1)
    topic_name: str = field("string", 1, 1)
    partitions: list[int] = field("int32", 1, 1, array=True)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(TopicPartitions, 1, 1, array=True)


class Member(Struct):
    member_id: str = field("string", 1, 1)
    rack_id: str | None = field("string", 1, 1, nullable=1)
    member_epoch: int = field("int32", 1, 1)
    client_id: str = field("string", 1, 1)
    client_host: str = field("string", 1, 1)
    subscribed_topic_names: list[str] = field("string", 1, 1, array=True)
    assignment: Assignment = field(Assignment, 1, 1)


class DescribedGroup(Struct):
    error_code: int = field("int16", 1, 1)
    error_message: str | None = field("string", 1, 1, nullable=1)
    group_id: str = field("string", 1, 1)
    group_state: str = field("string", 1, 1)
    group_epoch: int = field("int32", 1, 1)
    assignment_epoch: int = field("int32", 1, 1)
    assignor_name: str = field("string", 1, 1)
    members: list[Member] = field(Member, 1, 1, array=True)
    authorized_operations: int = field("int32", 1, 1, default=-2147483648)


class ShareGroupDescribeResponse(Message, api_key=77, versions=(1, 1), flexible=1):
    throttle_time_ms: int = field("int32", 1, 1)
    groups: list[DescribedGroup] = field(DescribedGroup, 1, 1, array=True)
