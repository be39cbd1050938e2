"""Ends the waiting of fetches whose partition has moved. Called after commits, expiries and deletions.

The answer of a fetch is made where it is posted, so what it says is what holds at that moment.
"""

from collections.abc import Hashable, Iterable

from broker.api.a01_fetch import PendingFetch, answer
from broker.api.broker import Broker
from broker.services.fetching import DelayedFetch


def wake_fetches(broker: Broker, key: Hashable) -> None:
    """Something was appended to the log `key`, or it is gone."""
    post_fetches(broker, broker.fetches.check_and_complete(key))


def expire_fetches(broker: Broker, now_ms: int) -> None:
    """Answers what has waited for its whole `max_wait_ms`."""
    post_fetches(broker, broker.fetches.expire(now_ms))


def post_fetches(broker: Broker, settled: Iterable[DelayedFetch]) -> None:
    """Posts the answers of fetches that have just been settled."""
    for operation in settled:
        pending = operation.pending
        assert isinstance(pending, PendingFetch)
        broker.completions.append((pending.context, answer(pending)))
