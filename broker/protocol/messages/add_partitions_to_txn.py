"""Add partitions to txn, API key 24. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class AddPartitionsToTxnTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        Field("name", "string", 0, 5),
        Field("partitions", "int32", 0, 5, array=True),
    )

    def __init__(self, name: str = "", partitions: list[int] | None = None) -> None:
        self.name = name
        self.partitions = [] if partitions is None else partitions


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    FIELDS = (
        Field("transactional_id", "string", 4, 5),
        Field("producer_id", "int64", 4, 5),
        Field("producer_epoch", "int16", 4, 5),
        Field("verify_only", "bool", 4, 5),
        Field("topics", AddPartitionsToTxnTopic, 4, 5, array=True),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is None else topics


class AddPartitionsToTxnRequest(Message):
    __slots__ = (
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
        "transactions",
    )
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("v3_and_below_transactional_id", "string", 0, 3),
        Field("v3_and_below_producer_id", "int64", 0, 3),
        Field("v3_and_below_producer_epoch", "int16", 0, 3),
        Field("v3_and_below_topics", AddPartitionsToTxnTopic, 0, 3, array=True),
        Field("transactions", AddPartitionsToTxnTransaction, 4, 5, array=True),
    )

    def __init__(
        self,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] | None = None,
        transactions: list[AddPartitionsToTxnTransaction] | None = None,
    ) -> None:
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is None else v3_and_below_topics
        self.transactions = [] if transactions is None else transactions


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code")
    FIELDS = (
        Field("partition_index", "int32", 0, 5),
        Field("partition_error_code", "int16", 0, 5),
    )

    def __init__(self, partition_index: int = 0, partition_error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition")
    FIELDS = (
        Field("name", "string", 0, 5),
        Field("results_by_partition", AddPartitionsToTxnPartitionResult, 0, 5, array=True),
    )

    def __init__(
        self, name: str = "", results_by_partition: list[AddPartitionsToTxnPartitionResult] | None = None
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is None else results_by_partition


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results")
    FIELDS = (
        Field("transactional_id", "string", 4, 5),
        Field("topic_results", AddPartitionsToTxnTopicResult, 4, 5, array=True),
    )

    def __init__(
        self, transactional_id: str = "", topic_results: list[AddPartitionsToTxnTopicResult] | None = None
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is None else topic_results


class AddPartitionsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "results_by_topic_v3_and_below", "error_code", "results_by_transaction")
    API_KEY = 24
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 5),
        Field("results_by_topic_v3_and_below", AddPartitionsToTxnTopicResult, 0, 3, array=True),
        Field("error_code", "int16", 4, 5),
        Field("results_by_transaction", AddPartitionsToTxnResult, 4, 5, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] | None = None,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is None else results_by_topic_v3_and_below
        )
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is None else results_by_transaction
