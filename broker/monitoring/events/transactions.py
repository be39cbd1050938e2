"""Transactions that the coordinator aborted, one event each."""

from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from broker.coordinator.transaction.state import CoordinatorAbort, TransactionClient
from broker.metadata.image import OUR_TOPICS
from broker.monitoring.events.activity import Event, encode

MAX_PARTITIONS: Final = 1_000
"""Partitions that an event names; ours. A transaction may have 100,000."""

UNKNOWN: Final = TransactionClient("", "", "")


class TransactionEvents:
    """An `EventSource` with at most `max_rows` rows a second."""

    def __init__(self, max_rows: int) -> None:
        self.topic = OUR_TOPICS + "transactions"
        self.left_out = 0
        self._max_rows = max_rows
        self._aborts: list[CoordinatorAbort] = []

    def aborted(self, abort: CoordinatorAbort) -> None:
        if len(self._aborts) < self._max_rows:
            self._aborts.append(abort)
        else:
            self.left_out += 1

    def drain(self, time_ms: int) -> Iterator[Event]:
        aborts, self._aborts = self._aborts, []
        for each in aborts:
            key = each.transactional_id.encode("utf-8", "replace")
            yield Event(key, encode(time_ms, _fields(each)))


def _fields(abort: CoordinatorAbort) -> dict[str, object]:
    data, client = abort.before, abort.client or UNKNOWN
    named = islice(sorted(data.partitions), MAX_PARTITIONS)
    return {
        "event": "aborted",
        "reason": abort.reason,
        "transactional_id": abort.transactional_id,
        "producer_id": data.producer_id,
        "producer_epoch": data.producer_epoch,
        "principal": client.principal.removeprefix("User:"),
        "client_id": client.client_id,
        "address": client.address,
        "timeout_ms": data.timeout_ms,
        "started_ms": data.started_ms,
        "open_ms": max(abort.wall_ms - data.started_ms, 0),
        "partitions": {
            topic: [index for _, index in group] for topic, group in groupby(named, itemgetter(0))
        },
        "partition_count": len(data.partitions),
    }
