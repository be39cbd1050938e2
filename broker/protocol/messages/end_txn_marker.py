"""End txn marker. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)
    VERSIONS = (0, 0)
    FIELDS = (Field("coordinator_epoch", "int32", 0, 0),)

    def __init__(self, coordinator_epoch: int = 0) -> None:
        self.coordinator_epoch = coordinator_epoch
