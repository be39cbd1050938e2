"""An append whose answer waits until the disk has its records (flush.messages). (Kafka: DelayedProduce)

Kafka's waits for other replicas, and flushes on the handler's thread, however long the disk takes. Here
there is one replica, the disk is what is waited for, and the time-out of the request holds for it. Parked
by `network.flush_waits`, under the flushes that its partitions need.
"""

from collections.abc import Sequence

from broker.api.context import RequestContext
from broker.api.outcome import AfterCommit
from broker.log.chores import Flush
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
        return all(flush.finished for flush in self.flushes)
