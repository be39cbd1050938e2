"""Init producer id, API key 22. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, field


class InitProducerIdRequest(Message, api_key=22, versions=(0, 6), flexible=2):
    transactional_id: str | None = field("string", 0, 6, nullable=0)
    transaction_timeout_ms: int = field("int32", 0, 6)
    producer_id: int = field("int64", 3, 6, default=-1)
    producer_epoch: int = field("int16", 3, 6, default=-1)
    enable2_pc: bool = field("bool", 6, 6)
    keep_prepared_txn: bool = field("bool", 6, 6)


class InitProducerIdResponse(Message, api_key=22, versions=(0, 6), flexible=2):
    throttle_time_ms: int = field("int32", 0, 6)
    error_code: int = field("int16", 0, 6)
    producer_id: int = field("int64", 0, 6, default=-1)
    producer_epoch: int = field("int16", 0, 6)
    ongoing_txn_producer_id: int = field("int64", 6, 6, default=-1)
    ongoing_txn_producer_epoch: int = field("int16", 6, 6, default=-1)
