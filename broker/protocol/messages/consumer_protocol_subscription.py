"""Consumer protocol subscription. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Buffer, Message, Struct, field


class TopicPartition(Struct):
    topic: str = field("string", 1, 3)
    partitions: list[int] = field("int32", 1, 3, array=True)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = field("string", 0, 3, array=True)
    user_data: Buffer | None = field("bytes", 0, 3, nullable=0)
    owned_partitions: list[TopicPartition] = field(TopicPartition, 1, 3, array=True)
    generation_id: int = field("int32", 2, 3, default=-1)
    rack_id: str | None = field("string", 3, 3, nullable=3)
