"""An append whose response waits for the disk (flush.messages). (Kafka: DelayedProduce)

Kafka waits for other replicas and flushes on the handler's thread without a time limit. Here there is one
replica, so the request waits for the flush, up to its own timeout. `network.handling.flush_waits` registers
it under the partitions that need a flush.
"""

from collections.abc import Sequence

from broker.api.context import RequestContext
from broker.api.outcome import AfterCommit
from broker.log.background_jobs import Flush
from broker.purgatory.purgatory import DelayedOperation


class DelayedProduce(DelayedOperation):
    """A Produce that waits for `flushes`.

    `after` is called once: `finish` if every flush succeeds, `fail` if one fails or the timeout elapses.
    """

    __slots__ = ("after", "context", "flushes")

    def __init__(self, context: RequestContext, after: AfterCommit, flushes: Sequence[Flush]) -> None:
        super().__init__(after.timeout_ms)
        self.context = context
        self.after = after
        self.flushes = flushes

    def is_ready(self) -> bool:
        return all(flush.in_effect().finished for flush in self.flushes)

    @property
    def is_flushed(self) -> bool:
        """Whether every flush succeeded; valid once the operation is ready."""
        return all(flush.in_effect().error is None for flush in self.flushes)
