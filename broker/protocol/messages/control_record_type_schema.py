"""Control record type schema. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class ControlRecordTypeSchema(Message):
    __slots__ = ("type_",)
    VERSIONS = (0, 0)
    FIELDS = (Field("type_", "int16", 0, 0),)

    def __init__(self, type_: int = 0) -> None:
        self.type_ = type_
