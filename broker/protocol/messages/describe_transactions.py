"""Describe transactions, API key 65. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class DescribeTransactionsRequest(Message, api_key=65, versions=(0, 0), flexible=0):
    transactional_ids: list[str] = field("string", 0, 0, array=True)


class TopicData(Struct):
    topic: str = field("string", 0, 0)
    partitions: list[int] = field("int32", 0, 0, array=True)


class TransactionState(Struct):
    error_code: int = field("int16", 0, 0)
    transactional_id: str = field("string", 0, 0)
    transaction_state: str = field("string", 0, 0)
    transaction_timeout_ms: int = field("int32", 0, 0)
    transaction_start_time_ms: int = field("int64", 0, 0)
    producer_id: int = field("int64", 0, 0)
    producer_epoch: int = field("int16", 0, 0)
    topics: list[TopicData] = field(TopicData, 0, 0, array=True)


class DescribeTransactionsResponse(Message, api_key=65, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    transaction_states: list[TransactionState] = field(TransactionState, 0, 0, array=True)
