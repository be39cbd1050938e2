"""Txn offset commit, API key 28. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field("int32", 0, 5)
    committed_offset: int = field("int64", 0, 5)
    committed_leader_epoch: int = field("int32", 2, 5, default=-1)
    committed_metadata: str | None = field("string", 0, 5, nullable=0)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field("string", 0, 5)
    partitions: list[TxnOffsetCommitRequestPartition] = field(
        TxnOffsetCommitRequestPartition, 0, 5, array=True
    )


class TxnOffsetCommitRequest(Message, api_key=28, versions=(0, 5), flexible=3):
    transactional_id: str = field("string", 0, 5)
    group_id: str = field("string", 0, 5)
    producer_id: int = field("int64", 0, 5)
    producer_epoch: int = field("int16", 0, 5)
    generation_id: int = field("int32", 3, 5, default=-1)
    member_id: str = field("string", 3, 5)
    group_instance_id: str | None = field("string", 3, 5, nullable=3)
    topics: list[TxnOffsetCommitRequestTopic] = field(TxnOffsetCommitRequestTopic, 0, 5, array=True)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field("int32", 0, 5)
    error_code: int = field("int16", 0, 5)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field("string", 0, 5)
    partitions: list[TxnOffsetCommitResponsePartition] = field(
        TxnOffsetCommitResponsePartition, 0, 5, array=True
    )


class TxnOffsetCommitResponse(Message, api_key=28, versions=(0, 5), flexible=3):
    throttle_time_ms: int = field("int32", 0, 5)
    topics: list[TxnOffsetCommitResponseTopic] = field(TxnOffsetCommitResponseTopic, 0, 5, array=True)
