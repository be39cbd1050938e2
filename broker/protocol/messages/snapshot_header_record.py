"""Snapshot header record. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class SnapshotHeaderRecord(Message):
    __slots__ = ("version", "last_contained_log_timestamp")
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("version", "int16", 0, 0),
        Field("last_contained_log_timestamp", "int64", 0, 0),
    )

    def __init__(self, version: int = 0, last_contained_log_timestamp: int = 0) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
