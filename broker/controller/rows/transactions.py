"""Rows of transactional ids and their transactions, for the console and the REST API."""

from typing import Annotated

import msgspec

from broker.controller.rows.fields import Moment


class TransactionRow(msgspec.Struct, frozen=True):
    """A transactional id with its last transaction. Times are wall-clock; `open_since_ms` is None unless a
    transaction is open, or its markers are being written.

    `partitions` is the number of its partitions, `holding_back` of those whose last stable offset it holds
    back. Principal, client id and address are those of the last InitProducerId since the start; "" if there
    was none.
    """

    transactional_id: str
    state: str
    producer_id: Annotated[int, msgspec.Meta(le=2**63 - 1)]
    producer_epoch: Annotated[int, msgspec.Meta(ge=-1, le=32_767)]
    timeout_ms: int
    partitions: int
    holding_back: int
    principal: str
    client_id: str
    address: str
    open_since_ms: Moment | None
    updated_ms: Moment = msgspec.field(name="updated_at")


class TransactionPartition(msgspec.Struct, frozen=True):
    """`first_offset` is that of the transaction's first record, None without one. `holds_back`: readers of
    committed records stop at it.
    """

    topic: str
    partition: int
    first_offset: int | None
    last_stable_offset: int
    end: int
    holds_back: bool


class TransactionDetail(msgspec.Struct, frozen=True):
    """`partitions` are in order of topic and partition."""

    transaction: TransactionRow
    partitions: tuple[TransactionPartition, ...]
