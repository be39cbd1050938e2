"""Consumer protocol subscription. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 1, 3),
        Field("partitions", "int32", 1, 3, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    VERSIONS = (0, 3)
    FIELDS = (
        Field("topics", "string", 0, 3, array=True),
        Field("user_data", "bytes", 0, 3, nullable=0),
        Field("owned_partitions", TopicPartition, 1, 3, array=True),
        Field("generation_id", "int32", 2, 3, default=-1),
        Field("rack_id", "string", 3, 3, nullable=3),
    )

    def __init__(
        self,
        topics: list[str] | None = None,
        user_data: Buffer | None = None,
        owned_partitions: list[TopicPartition] | None = None,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is None else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is None else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
