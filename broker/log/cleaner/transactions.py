"""The transactions of a log, as the cleaner needs them: whose records are aborted, and which markers are
still needed (Kafka's CleanedTransactionMetadata).

Told of every batch of a pass, in order, by `cleaning`. A marker is needed as long as a batch of its
transaction is in the log, because a reader of committed records learns from it how the transaction ended.
"""

from collections.abc import Iterable
from operator import attrgetter

from broker.log.aborted_transactions import AbortedTransaction
from broker.records.control import marker_of
from broker.records.header import TRANSACTIONAL_FLAG, BatchHeader, Buffer

_first_offset = attrgetter("first_offset")


class CleanedTransactions:
    """The transactions between two batches of a pass. `kept` are the aborted ones whose markers are
    needed.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: those of the log whose markers are not before the first batch of the pass."""
        self._following = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._has_batches: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch, which is no marker, were aborted."""
        self._begin_before(header.last_offset)
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        if header.producer_id in self._aborted:
            self._has_batches.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_obsolete(self, header: BatchHeader, batch: Buffer) -> bool:
        """Return whether no batch of a marker's transaction is left. Raises ApiError CORRUPT_MESSAGE."""
        self._begin_before(header.last_offset)
        if not header.record_count:
            return True  # an earlier pass has removed the record
        marker = marker_of(batch)
        producer_id = header.producer_id
        if marker is None:
            return False
        if marker.is_commit:
            was_committed = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_committed
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._has_batches:
            return True
        self._has_batches.discard(producer_id)
        self.kept.append(aborted)
        return False

    def _begin_before(self, offset: int) -> None:
        following = self._following
        while following and following[-1].first_offset <= offset:
            each = following.pop()
            self._aborted.setdefault(each.producer_id, each)
