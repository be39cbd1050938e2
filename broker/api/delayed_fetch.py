"""Completes delayed fetches when a partition advances. Called after commits, expiries and deletions.

A handler builds each response when it takes up the callback, so the cost belongs to that request. Thousands
of fetches that become ready together complete in batches of AT_ONCE, with other requests in between.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from broker.api.broker import Broker
from broker.api.fetch_pending import PendingFetch
from broker.services.fetching import DelayedFetch

AT_ONCE: Final = 128
"""Fetches completed in one turn; equals the number of requests that a handler serves in one turn."""


def complete_fetches(broker: Broker, key: Hashable) -> None:
    """Complete the fetches that watch the log `key` after an append or its deletion."""
    completed = broker.fetches.check_and_complete(key, AT_ONCE)
    post_fetches(broker, completed)
    if len(completed) == AT_ONCE:
        broker.callbacks.check_again(key)


def expire_fetches(broker: Broker, now_ms: int) -> None:
    """Complete the fetches whose `max_wait_ms` has elapsed, at most AT_ONCE; the others stay due."""
    post_fetches(broker, broker.fetches.expire(now_ms, AT_ONCE))


def release_fetches(broker: Broker, now_ms: int) -> None:
    """Complete every delayed fetch at shutdown as if it had timed out."""
    post_fetches(broker, broker.fetches.expire(now_ms + 2**31))


def post_fetches(broker: Broker, settled: Iterable[DelayedFetch]) -> None:
    """Post the responses of completed fetches."""
    for operation in settled:
        pending = operation.pending
        assert isinstance(pending, PendingFetch)
        broker.callbacks.post(pending.context, pending.answer)
