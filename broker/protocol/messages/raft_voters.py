"""Raft voters, API keys 80, 81. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class Listener(Struct):
    name: str = field("string", 0, 1)
    host: str = field("string", 0, 1)
    port: int = field("uint16", 0, 1)


class AddRaftVoterRequest(Message, api_key=80, versions=(0, 1), flexible=0):
    cluster_id: str | None = field("string", 0, 1, nullable=0)
    timeout_ms: int = field("int32", 0, 1)
    voter_id: int = field("int32", 0, 1)
    voter_directory_id: bytes = field("uuid", 0, 1)
    listeners: list[Listener] = field(Listener, 0, 1, array=True)
    ack_when_committed: bool = field("bool", 1, 1, default=True)


class AddRaftVoterResponse(Message, api_key=80, versions=(0, 1), flexible=0):
    throttle_time_ms: int = field("int32", 0, 1)
    error_code: int = field("int16", 0, 1)
    error_message: str | None = field("string", 0, 1, nullable=0)


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible=0):
    cluster_id: str | None = field("string", 0, 0, nullable=0)
    voter_id: int = field("int32", 0, 0)
    voter_directory_id: bytes = field("uuid", 0, 0)


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
