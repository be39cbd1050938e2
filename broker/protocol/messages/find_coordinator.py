"""Find coordinator, API key 10. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions=(0, 6), flexible=3):
    key: str = field("string", 0, 3)
    key_type: int = field("int8", 1, 6)
    coordinator_keys: list[str] = field("string", 4, 6, array=True)


class Coordinator(Struct):
    key: str = field("string", 4, 6)
    node_id: int = field("int32", 4, 6)
    host: str = field("string", 4, 6)
    port: int = field("int32", 4, 6)
    error_code: int = field("int16", 4, 6)
    error_message: str | None = field("string", 4, 6, nullable=4)


class FindCoordinatorResponse(Message, api_key=10, versions=(0, 6), flexible=3):
    throttle_time_ms: int = field("int32", 1, 6)
    error_code: int = field("int16", 0, 3)
    error_message: str | None = field("string", 1, 3, nullable=1)
    node_id: int = field("int32", 0, 3)
    host: str = field("string", 0, 3)
    port: int = field("int32", 0, 3)
    coordinators: list[Coordinator] = field(Coordinator, 4, 6, array=True)
