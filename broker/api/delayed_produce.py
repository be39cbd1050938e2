"""An append whose answer waits until the disk has its records (flush.messages). (Kafka: DelayedProduce)

Kafka's waits for other replicas, and flushes on the handler's thread, however long the disk takes. Here
there is one replica, the disk is what is waited for, and the time-out of the request holds for it. Parked
by `network.handling.flush_waits`, under the partitions that need a flush.
"""

from collections.abc import Sequence

from broker.api.context import RequestContext
from broker.api.outcome import AfterCommit
from broker.log.background_jobs import Flush
from broker.purgatory.operation import DelayedOperation


class DelayedProduce(DelayedOperation):
    """`after` is called once: `finish` when every flush has ended well, `give_up` when one has failed or the
    time is over before.
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
        """Valid once it is ready: whether the disk has all of its records."""
        return all(flush.in_effect().error is None for flush in self.flushes)
