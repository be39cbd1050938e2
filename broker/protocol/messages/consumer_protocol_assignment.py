"""Consumer protocol assignment. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Buffer, Field, Message, Struct


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        Field("topic", "string", 0, 3),
        Field("partitions", "int32", 0, 3, array=True),
    )

    def __init__(self, topic: str = "", partitions: list[int] | None = None) -> None:
        self.topic = topic
        self.partitions = [] if partitions is None else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")
    VERSIONS = (0, 3)
    FIELDS = (
        Field("assigned_partitions", TopicPartition, 0, 3, array=True),
        Field("user_data", "bytes", 0, 3, nullable=0),
    )

    def __init__(
        self, assigned_partitions: list[TopicPartition] | None = None, user_data: Buffer | None = None
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is None else assigned_partitions
        self.user_data = user_data
