"""Add offsets to txn, API key 25. Derived from kio 0.6.5 by `python -m broker.protocol.derive`; edits are lost."""

# ruff: noqa: RUF023, RUF100 - the slots stand in the order of the wire

from broker.protocol.schema import Field, Message


class AddOffsetsToTxnRequest(Message):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE = 3
    FIELDS = (
        Field("transactional_id", "string", 0, 4),
        Field("producer_id", "int64", 0, 4),
        Field("producer_epoch", "int16", 0, 4),
        Field("group_id", "string", 0, 4),
    )

    def __init__(
        self, transactional_id: str = "", producer_id: int = 0, producer_epoch: int = 0, group_id: str = ""
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code")
    API_KEY = 25
    VERSIONS = (0, 4)
    FLEXIBLE = 3
    FIELDS = (
        Field("throttle_time_ms", "int32", 0, 4),
        Field("error_code", "int16", 0, 4),
    )

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
