"""Leader change message. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import ZERO_UUID, Field, Message, Struct


class Voter(Struct):
    __slots__ = ("voter_id", "voter_directory_id")
    FIELDS = (
        Field("voter_id", "int32", 0, 1),
        Field("voter_directory_id", "uuid", 1, 1),
    )

    def __init__(self, voter_id: int = 0, voter_directory_id: bytes = ZERO_UUID) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters")
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    FIELDS = (
        Field("version", "int16", 0, 1),
        Field("leader_id", "int32", 0, 1),
        Field("voters", Voter, 0, 1, array=True),
        Field("granting_voters", Voter, 0, 1, array=True),
    )

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[Voter] | None = None,
        granting_voters: list[Voter] | None = None,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is None else voters
        self.granting_voters = [] if granting_voters is None else granting_voters
