"""Add offsets to txn, API key 25. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class AddOffsetsToTxnRequest(Message, api_key=25, versions=(0, 4), flexible=3):
    transactional_id: str = field("string", 0, 4)
    producer_id: int = field("int64", 0, 4)
    producer_epoch: int = field("int16", 0, 4)
    group_id: str = field("string", 0, 4)


class AddOffsetsToTxnResponse(Message, api_key=25, versions=(0, 4), flexible=3):
    throttle_time_ms: int = field("int32", 0, 4)
    error_code: int = field("int16", 0, 4)
