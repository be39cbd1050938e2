"""K raft version record. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class KRaftVersionRecord(Message):
    __slots__ = ("version", "k_raft_version")
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    FIELDS = (
        Field("version", "int16", 0, 0),
        Field("k_raft_version", "int16", 0, 0),
    )

    def __init__(self, version: int = 0, k_raft_version: int = 0) -> None:
        self.version = version
        self.k_raft_version = k_raft_version
