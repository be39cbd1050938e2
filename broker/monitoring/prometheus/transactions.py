"""Metrics of transactions."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.coordinator.transaction.state import NAMES, State
from broker.coordinator.transaction_service import TransactionService
from broker.metrics.families import FamilySamples, Kind, Sample

COUNTED_AT_ONCE: Final = 1_024
"""Transactional ids that are counted between two pauses."""


def transaction_families(transactions: TransactionService) -> Iterator[FamilySamples | None]:
    """Yield the families, and None after work that produced none."""
    states: Counter[State] = Counter()
    for number, transaction in enumerate(transactions.coordinator.transactions()):
        states[transaction.data.state] += 1
        if number % COUNTED_AT_ONCE == COUNTED_AT_ONCE - 1:
            yield None
    yield FamilySamples(
        "weir_transactional_ids",
        "Transactional ids by the state of their transaction",
        Kind.GAUGE,
        [
            Sample((("state", name),), states[state])
            for state, name in NAMES.items()
            if state is not State.DEAD
        ],
    )
    yield FamilySamples(
        "weir_transactions_decided_total",
        "Transactions that were decided since the start, by decision",
        Kind.COUNTER,
        [Sample((("decision", each),), count) for each, count in transactions.decisions.items()],
    )
