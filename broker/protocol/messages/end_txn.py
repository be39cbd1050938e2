"""End txn, API key 26. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class EndTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("transactional_id", "string", 0, 5),
        Field("producer_id", "int64", 0, 5),
        Field("producer_epoch", "int16", 0, 5),
        Field("committed", "bool", 0, 5),
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    API_KEY = 26
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 5),
        Field("error_code", "int16", 0, 5),
        Field("producer_id", "int64", 5, 5, default=-1),
        Field("producer_epoch", "int16", 5, 5, default=-1),
    )

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, producer_id: int = -1, producer_epoch: int = -1
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
