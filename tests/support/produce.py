"""Produce requests of an exact size, and the batches in them."""

from broker.protocol import codec
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.records.build import NewRecord, build_batch

PRODUCE_VERSION = 9


def batch_of(*values: bytes, timestamp: int = 1_000) -> bytearray:
    """One batch with a record for each value."""
    return bytearray(build_batch([NewRecord(None, value, timestamp) for value in values]))


def produce_request(
    records: bytes | bytearray, topic: str = "events", partition: int = 0, acks: int = 1
) -> ProduceRequest:
    data = PartitionProduceData(partition, records)
    return ProduceRequest(None, acks, 30_000, [TopicProduceData(topic, partition_data=[data])])


def produce_request_of(size: int, client_id: str, topic: str = "events", acks: int = 1) -> ProduceRequest:
    """A request whose frame, without its size prefix, has exactly `size` bytes."""
    value = max(size - 200, 1)
    for _ in range(3):
        request = produce_request(batch_of(b"x" * value), topic, acks=acks)
        parts = codec.encode_request(0, PRODUCE_VERSION)(request, 1, client_id)
        value += size - (sum(map(len, parts)) - 4)
        if sum(map(len, parts)) - 4 == size:
            return request
    raise ValueError(f"no request of {size} bytes")


def create_topic(name: str = "events", partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 5_000, False)
