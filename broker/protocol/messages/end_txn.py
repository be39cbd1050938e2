"""End txn, API key 26. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class EndTxnRequest(Message, api_key=26, versions=(0, 5), flexible=3):
    transactional_id: str = field("string", 0, 5)
    producer_id: int = field("int64", 0, 5)
    producer_epoch: int = field("int16", 0, 5)
    committed: bool = field("bool", 0, 5)


class EndTxnResponse(Message, api_key=26, versions=(0, 5), flexible=3):
    throttle_time_ms: int = field("int32", 0, 5)
    error_code: int = field("int16", 0, 5)
    producer_id: int = field("int64", 5, 5, default=-1)
    producer_epoch: int = field("int16", 5, 5, default=-1)
