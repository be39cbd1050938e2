"""Add partitions to txn, API key 24. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field("string", 0, 5)
    partitions: list[int] = field("int32", 0, 5, array=True)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field("string", 4, 5)
    producer_id: int = field("int64", 4, 5)
    producer_epoch: int = field("int16", 4, 5)
    verify_only: bool = field("bool", 4, 5)
    topics: list[AddPartitionsToTxnTopic] = field(AddPartitionsToTxnTopic, 4, 5, array=True)


class AddPartitionsToTxnRequest(Message, api_key=24, versions=(0, 5), flexible=3):
    v3_and_below_transactional_id: str = field("string", 0, 3)
    v3_and_below_producer_id: int = field("int64", 0, 3)
    v3_and_below_producer_epoch: int = field("int16", 0, 3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(AddPartitionsToTxnTopic, 0, 3, array=True)
    transactions: list[AddPartitionsToTxnTransaction] = field(AddPartitionsToTxnTransaction, 4, 5, array=True)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field("int32", 0, 5)
    partition_error_code: int = field("int16", 0, 5)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field("string", 0, 5)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(
        AddPartitionsToTxnPartitionResult, 0, 5, array=True
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field("string", 4, 5)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(
        AddPartitionsToTxnTopicResult, 4, 5, array=True
    )


class AddPartitionsToTxnResponse(Message, api_key=24, versions=(0, 5), flexible=3):
    throttle_time_ms: int = field("int32", 0, 5)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        AddPartitionsToTxnTopicResult, 0, 3, array=True
    )
    error_code: int = field("int16", 4, 5)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(AddPartitionsToTxnResult, 4, 5, array=True)
