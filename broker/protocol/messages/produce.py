"""Produce, API key 0. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Buffer, Field, Message, Struct


class PartitionProduceData(Struct):
    __slots__ = ("index", "records")
    FIELDS = (
        Field("index", "int32", 3, 13),
        Field("records", "records", 3, 13, nullable=3),
    )

    def __init__(self, index: int = 0, records: Buffer | None = None) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data")
    FIELDS = (
        Field("name", "string", 3, 12),
        Field("topic_id", "uuid", 13, 13),
        Field("partition_data", PartitionProduceData, 3, 13, array=True),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_data: list[PartitionProduceData] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is None else partition_data


class ProduceRequest(Message):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE = 9
    FIELDS = (
        Field("transactional_id", "string", 3, 13, nullable=3),
        Field("acks", "int16", 3, 13),
        Field("timeout_ms", "int32", 3, 13),
        Field("topic_data", TopicProduceData, 3, 13, array=True),
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is None else topic_data


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message")
    FIELDS = (
        Field("batch_index", "int32", 8, 13),
        Field("batch_index_error_message", "string", 8, 13, nullable=8),
    )

    def __init__(self, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        Field("leader_id", "int32", 10, 13, default=-1),
        Field("leader_epoch", "int32", 10, 13, default=-1),
    )

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Struct):
    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )
    FIELDS = (
        Field("index", "int32", 3, 13),
        Field("error_code", "int16", 3, 13),
        Field("base_offset", "int64", 3, 13),
        Field("log_append_time_ms", "int64", 3, 13, default=-1),
        Field("log_start_offset", "int64", 5, 13, default=-1),
        Field("record_errors", BatchIndexAndErrorMessage, 8, 13, array=True),
        Field("error_message", "string", 8, 13, nullable=8),
        Field("current_leader", LeaderIdAndEpoch, 10, 13, tag=0),
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] | None = None,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is None else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses")
    FIELDS = (
        Field("name", "string", 3, 12),
        Field("topic_id", "uuid", 13, 13),
        Field("partition_responses", PartitionProduceResponse, 3, 13, array=True),
    )

    def __init__(
        self,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is None else partition_responses


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        Field("node_id", "int32", 10, 13),
        Field("host", "string", 10, 13),
        Field("port", "int32", 10, 13),
        Field("rack", "string", 10, 13, nullable=10),
    )

    def __init__(self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE = 9
    FIELDS = (
        Field("responses", TopicProduceResponse, 3, 13, array=True),
        Field("throttle_time_ms", "int32", 3, 13),
        Field("node_endpoints", NodeEndpoint, 10, 13, array=True, tag=0),
    )

    def __init__(
        self,
        responses: list[TopicProduceResponse] | None = None,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.responses = [] if responses is None else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is None else node_endpoints
