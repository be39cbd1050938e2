"""Unregister controller, API key 94. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class UnregisterControllerRequest(Message, api_key=94, versions=(0, 0), flexible=0):
    controller_id: int = field("int32", 0, 0)


class UnregisterControllerResponse(Message, api_key=94, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
