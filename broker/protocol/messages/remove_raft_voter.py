"""Remove raft voter, API key 81. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible=0):
    cluster_id: str | None = field("string", 0, 0, nullable=0)
    voter_id: int = field("int32", 0, 0)
    voter_directory_id: bytes = field("uuid", 0, 0)


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
