"""Share fetch, API key 78. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Records, Struct, field


class AcknowledgementBatch(Struct):
    first_offset: int = field("int64", 1, 2)
    last_offset: int = field("int64", 1, 2)
    acknowledge_types: list[int] = field("int8", 1, 2, array=True)


class FetchPartition(Struct):
    partition_index: int = field("int32", 1, 2)
    acknowledgement_batches: list[AcknowledgementBatch] = field(AcknowledgementBatch, 1, 2, array=True)


class FetchTopic(Struct):
    topic_id: bytes = field("uuid", 1, 2)
    partitions: list[FetchPartition] = field(FetchPartition, 1, 2, array=True)


class ForgottenTopic(Struct):
    topic_id: bytes = field("uuid", 1, 2)
    partitions: list[int] = field("int32", 1, 2, array=True)


class ShareFetchRequest(Message, api_key=78, versions=(1, 2), flexible=1):
    group_id: str | None = field("string", 1, 2, nullable=1)
    member_id: str | None = field("string", 1, 2, nullable=1)
    share_session_epoch: int = field("int32", 1, 2)
    max_wait_ms: int = field("int32", 1, 2)
    min_bytes: int = field("int32", 1, 2)
    max_bytes: int = field("int32", 1, 2, default=2147483647)
    max_records: int = field("int32", 1, 2)
    batch_size: int = field("int32", 1, 2)
    share_acquire_mode: int = field("int8", 2, 2)
    is_renew_ack: bool = field("bool", 2, 2)
    topics: list[FetchTopic] = field(FetchTopic, 1, 2, array=True)
    forgotten_topics_data: list[ForgottenTopic] = field(ForgottenTopic, 1, 2, array=True)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", 1, 2)
    leader_epoch: int = field("int32", 1, 2)


class AcquiredRecords(Struct):
    first_offset: int = field("int64", 1, 2)
    last_offset: int = field("int64", 1, 2)
    delivery_count: int = field("int16", 1, 2)


class PartitionData(Struct):
    partition_index: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)
    error_message: str | None = field("string", 1, 2, nullable=1)
    acknowledge_error_code: int = field("int16", 1, 2)
    acknowledge_error_message: str | None = field("string", 1, 2, nullable=1)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, 1, 2)
    records: Records = field("records", 1, 2)
    acquired_records: list[AcquiredRecords] = field(AcquiredRecords, 1, 2, array=True)


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = field("uuid", 1, 2)
    partitions: list[PartitionData] = field(PartitionData, 1, 2, array=True)


class NodeEndpoint(Struct):
    node_id: int = field("int32", 1, 2)
    host: str = field("string", 1, 2)
    port: int = field("int32", 1, 2)
    rack: str | None = field("string", 1, 2, nullable=1)


class ShareFetchResponse(Message, api_key=78, versions=(1, 2), flexible=1):
    throttle_time_ms: int = field("int32", 1, 2)
    error_code: int = field("int16", 1, 2)
    error_message: str | None = field("string", 1, 2, nullable=1)
    acquisition_lock_timeout_ms: int = field("int32", 1, 2)
    responses: list[ShareFetchableTopicResponse] = field(ShareFetchableTopicResponse, 1, 2, array=True)
    node_endpoints: list[NodeEndpoint] = field(NodeEndpoint, 1, 2, array=True)
