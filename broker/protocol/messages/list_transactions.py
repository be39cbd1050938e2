"""List transactions, API key 66. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

from broker.protocol.schema import Message, Struct, field


class ListTransactionsRequest(Message, api_key=66, versions=(0, 2), flexible=0):
    state_filters: list[str] = field("string", 0, 2, array=True)
    producer_id_filters: list[int] = field("int64", 0, 2, array=True)
    duration_filter: int = field("int64", 1, 2, default=-1)
    transactional_id_pattern: str | None = field("string", 2, 2, nullable=2)


class TransactionState(Struct):
    transactional_id: str = field("string", 0, 2)
    producer_id: int = field("int64", 0, 2)
    transaction_state: str = field("string", 0, 2)


class ListTransactionsResponse(Message, api_key=66, versions=(0, 2), flexible=0):
    throttle_time_ms: int = field("int32", 0, 2)
    error_code: int = field("int16", 0, 2)
    unknown_state_filters: list[str] = field("string", 0, 2, array=True)
    transaction_states: list[TransactionState] = field(TransactionState, 0, 2, array=True)
