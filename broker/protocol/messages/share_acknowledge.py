"""Share acknowledge, API key 79. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AcknowledgementBatch(Struct):
    first_offset: int = field("int64", 1, 2)
    last_offset: int = field("int64", 1, 2)
    acknowledge_types: list[int] = field("int8", 1, 2, array=True)


class AcknowledgePartition(Struct):
    partition_index: int = field("int32", 1, 2)
    acknowledgement_batches: list[AcknowledgementBatch] = field(AcknowledgementBatch, 1, 2, array=True)


class AcknowledgeTopic(Struct):
    topic_id: bytes = field("uuid", 1, 2)
    partitions: list[AcknowledgePartition] = field(AcknowledgePartition, 1, 2, array=True)


class ShareAcknowledgeRequest(Message, api_key=79, versions=(1, 2), flexible=1):
    group_id: str | None = field("string", 1, 2, nullable=1)
    member_id: str | None = field("string", 1, 2, nullable=1)
    share_session_epoch: int = field("int32", 1, 2)
    is_renew_ack: bool = field("bool", 2, 2)
    topics: list[AcknowledgeTopic] = field(AcknowledgeTopic, 1, 2, array=True)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", 1, 2)
    leader_epoch: int = field("int32", 1, 2)


class PartitionData(Struct):
    partition_index: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)
    error_message: str | None = field("string", 1, 2, nullable=1)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, 1, 2)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = field("uuid", 1, 2)
    partitions: list[PartitionData] = field(PartitionData, 1, 2, array=True)


class NodeEndpoint(Struct):
    node_id: int = field("int32", 1, 2)
    host: str = field("string", 1, 2)
    port: int = field("int32", 1, 2)
    rack: str | None = field("string", 1, 2, nullable=1)


class ShareAcknowledgeResponse(Message, api_key=79, versions=(1, 2), flexible=1):
    throttle_time_ms: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)
    error_message: str | None = field("string", 1, 2, nullable=1)
    acquisition_lock_timeout_ms: int = field("int32", 2, 2)
    responses: list[ShareAcknowledgeTopicResponse] = field(ShareAcknowledgeTopicResponse, 1, 2, array=True)
    node_endpoints: list[NodeEndpoint] = field(NodeEndpoint, 1, 2, array=True)
