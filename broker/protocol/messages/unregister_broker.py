"""Unregister broker, API key 64. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class UnregisterBrokerRequest(Message, api_key=64, versions=(0, 0), flexible=0):
    broker_id: int = field("int32", 0, 0)


class UnregisterBrokerResponse(Message, api_key=64, versions=(0, 0), flexible=0):
    throttle_time_ms: int = field("int32", 0, 0)
    error_code: int = field("int16", 0, 0)
    error_message: str | None = field("string", 0, 0, nullable=0)
