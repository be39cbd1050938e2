"""The abort of an open transaction by the coordinator and not by its producer."""

from typing import NamedTuple

from broker.coordinator.transaction.state import TransactionClient, TransactionData


class CoordinatorAbort(NamedTuple):
    """`reason` is a decision of the transaction service. `before` is the transaction as it was open, with the
    epoch of its producer; `wall_ms` the time of the abort, in ms since the epoch.
    """

    transactional_id: str
    reason: str
    before: TransactionData
    client: TransactionClient | None
    wall_ms: int
