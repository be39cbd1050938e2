"""Txn offset commit, API key 28. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field("int32", 0, 6)
    committed_offset: int = field("int64", 0, 6)
    committed_leader_epoch: int = field("int32", 2, 6, default=-1)
    committed_metadata: str | None = field("string", 0, 6, nullable=0)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field("string", 0, 5)
    topic_id: bytes = field("uuid", 6, 6)
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        TxnOffsetCommitRequestPartition, 0, 6, array=True
    )


class TxnOffsetCommitRequest(Message, api_key=28, versions=(0, 6), flexible=3):
    transactional_id: str = field("string", 0, 6)
    group_id: str = field("string", 0, 6)
    producer_id: int = field("int64", 0, 6)
    producer_epoch: int = field("int16", 0, 6)
    generation_id: int = field("int32", 3, 6, default=-1)
    member_id: str = field("string", 3, 6)
    group_instance_id: str | None = field("string", 3, 6, nullable=3)
    topics: list[TxnOffsetCommitRequestTopic] = field(TxnOffsetCommitRequestTopic, 0, 6, array=True)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field("int32", 0, 6)
    error_code: int = field("int16", 0, 6)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field("string", 0, 5)
    topic_id: bytes = field("uuid", 6, 6)
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        TxnOffsetCommitResponsePartition, 0, 6, array=True
    )


class TxnOffsetCommitResponse(Message, api_key=28, versions=(0, 6), flexible=3):
    throttle_time_ms: int = field("int32", 0, 6)
    topics: list[TxnOffsetCommitResponseTopic] = field(TxnOffsetCommitResponseTopic, 0, 6, array=True)
