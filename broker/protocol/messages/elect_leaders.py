"""Elect leaders, API key 43. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class TopicPartitions(Struct):
    topic: str = field("string", 0, 2)
    partitions: list[int] = field("int32", 0, 2, array=True)


class ElectLeadersRequest(Message, api_key=43, versions=(0, 2), flexible=2):
    election_type: int = field("int8", 1, 2)
    topic_partitions: list[TopicPartitions] | None = field(TopicPartitions, 0, 2, array=True, nullable=0)
    timeout_ms: int = field("int32", 0, 2, default=60000)


class PartitionResult(Struct):
    partition_id: int = field("int32", 0, 2)
    error_code: int = field("int16", 0, 2)
    error_message: str | None = field("string", 0, 2, nullable=0)


class ReplicaElectionResult(Struct):
    topic: str = field("string", 0, 2)
    partition_result: list[PartitionResult] = field(PartitionResult, 0, 2, array=True)


class ElectLeadersResponse(Message, api_key=43, versions=(0, 2), flexible=2):
    throttle_time_ms: int = field("int32", 0, 2)
    error_code: int = field("int16", 1, 2)
    replica_election_results: list[ReplicaElectionResult] = field(ReplicaElectionResult, 0, 2, array=True)
