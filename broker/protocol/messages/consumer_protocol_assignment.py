"""Consumer protocol assignment. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class TopicPartition(Struct):
    topic: str = field("string", 0, 3)
    partitions: list[int] = field("int32", 0, 3, array=True)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = field(TopicPartition, 0, 3, array=True)
    user_data: Buffer | None = field("bytes", 0, 3, nullable=0)
