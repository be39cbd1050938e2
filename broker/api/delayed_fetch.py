"""Ends the waiting of fetches whose partition has moved. Called after commits, expiries and deletions.

The answer of a fetch is made when its callback is taken up, at its own cost. Ten thousand fetches that become
ready at once are completed a turn's worth at a time, so that other requests are served in between.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from broker.api.broker import Broker
from broker.api.fetch_pending import PendingFetch
from broker.services.fetching import DelayedFetch

AT_ONCE: Final = 128
"""Fetches that are ended in one turn; as many as a handler answers requests before others get theirs."""


def complete_fetches(broker: Broker, key: Hashable) -> None:
    """Something was appended to the log `key`, or it is gone."""
    completed = broker.fetches.check_and_complete(key, AT_ONCE)
    post_fetches(broker, completed)
    if len(completed) == AT_ONCE:
        broker.callbacks.check_again(key)


def expire_fetches(broker: Broker, now_ms: int) -> None:
    """Answers what has waited for its whole `max_wait_ms`; what is due and was not yet answered stays due."""
    post_fetches(broker, broker.fetches.expire(now_ms, AT_ONCE))


def release_fetches(broker: Broker, now_ms: int) -> None:
    """The broker stops: answers every fetch that waits as if its time were over."""
    post_fetches(broker, broker.fetches.expire(now_ms + 2**31))


def post_fetches(broker: Broker, settled: Iterable[DelayedFetch]) -> None:
    """Posts the answers of fetches that have just been settled."""
    for operation in settled:
        pending = operation.pending
        assert isinstance(pending, PendingFetch)
        broker.callbacks.post(pending.context, pending.answer)
