"""List transactions, API key 66. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message, Struct


class ListTransactionsRequest(Message):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (
        Field("state_filters", "string", 0, 2, array=True),
        Field("producer_id_filters", "int64", 0, 2, array=True),
        Field("duration_filter", "int64", 1, 2, default=-1),
        Field("transactional_id_pattern", "string", 2, 2, nullable=2),
    )

    def __init__(
        self,
        state_filters: list[str] | None = None,
        producer_id_filters: list[int] | None = None,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is None else state_filters
        self.producer_id_filters = [] if producer_id_filters is None else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    FIELDS = (
        Field("transactional_id", "string", 0, 2),
        Field("producer_id", "int64", 0, 2),
        Field("transaction_state", "string", 0, 2),
    )

    def __init__(self, transactional_id: str = "", producer_id: int = 0, transaction_state: str = "") -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state


class ListTransactionsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    API_KEY = 66
    VERSIONS = (0, 2)
    FLEXIBLE = 0
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 2),
        Field("error_code", "int16", 0, 2),
        Field("unknown_state_filters", "string", 0, 2, array=True),
        Field("transaction_states", TransactionState, 0, 2, array=True),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] | None = None,
        transaction_states: list[TransactionState] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is None else unknown_state_filters
        self.transaction_states = [] if transaction_states is None else transaction_states
