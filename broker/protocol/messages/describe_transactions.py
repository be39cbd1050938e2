"""Describe transactions, API key 65. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class DescribeTransactionsRequest(Message):
    __slots__ = ("transactional_ids",)
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (Field("transactional_ids", "string", 0, 0, array=True),)

    def __init__(self, transactional_ids: list[str] | None = None) -> None:
        self.transactional_ids = [] if transactional_ids is None else transactional_ids


class TopicData(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 0, 0),
        Field("partitions", "int32", 0, 0, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class TransactionState(Struct):
    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )
    FIELDS = (
        Field("error_code", "int16", 0, 0),
        Field("transactional_id", "string", 0, 0),
        Field("transaction_state", "string", 0, 0),
        Field("transaction_timeout_ms", "int32", 0, 0),
        Field("transaction_start_time_ms", "int64", 0, 0),
        Field("producer_id", "int64", 0, 0),
        Field("producer_epoch", "int16", 0, 0),
        Field("topics", TopicData, 0, 0, array=True),
    )

    def __init__(
        self,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = [] if topics is None else topics


class DescribeTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "transaction_states")
    API_KEY = 65
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 0),
        Field("transaction_states", TransactionState, 0, 0, array=True),
    )

    def __init__(
        self, throttle_time_ms: int = 0, transaction_states: list[TransactionState] | None = None
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = [] if transaction_states is None else transaction_states
