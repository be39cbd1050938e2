"""Elect leaders, API key 43. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class TopicPartitions(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 0, 2),
        Field("partitions", "int32", 0, 2, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ElectLeadersRequest(Message):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("election_type", "int8", 1, 2),
        Field("topic_partitions", TopicPartitions, 0, 2, array=True, nullable=0),
        Field("timeout_ms", "int32", 0, 2, default=60000),
    )

    def __init__(
        self,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = None,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message")
    FIELDS = (
        Field("partition_id", "int32", 0, 2),
        Field("error_code", "int16", 0, 2),
        Field("error_message", "string", 0, 2, nullable=0),
    )

    def __init__(self, partition_id: int = 0, error_code: int = 0, error_message: str | None = None) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result")
    FIELDS = (
        Field("topic", "string", 0, 2),
        Field("partition_result", PartitionResult, 0, 2, array=True),
    )

    def __init__(self, topic: str = "", partition_result: list[PartitionResult] | None = None) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is None else partition_result


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 2),
        Field("error_code", "int16", 1, 2),
        Field("replica_election_results", ReplicaElectionResult, 0, 2, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is None else replica_election_results
