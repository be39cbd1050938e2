"""Records Produce and Fetch in the client's byte quota and the broker's, in one step.

Called by the Produce and Fetch handlers if `quotas.produce_active` or `quotas.fetch_active` is set. (AutoMQ:
handleProduceRequest and handleFetchRequest of ElasticKafkaApis)
"""

from collections.abc import Iterable

from broker.api.requests.context import RequestContext
from broker.log.slice import FileSlice
from broker.partitions.fetching import FetchedPartition
from broker.quotas.client_quotas import ClientQuotas, NodeQuotas
from broker.quotas.throttled import Throttle, longer


def record_produce(quotas: ClientQuotas | NodeQuotas, context: RequestContext) -> Throttle | None:
    """Record the request and return the longer throttle; of equal ones, the client's."""
    connection, size, now_ms = context.connection, context.size, context.now_ms
    throttle = quotas.produce.record(connection.principal, context.client_id, size, now_ms)
    if quotas.broker.active:
        throttle = longer(throttle, quotas.broker.record_produce(connection, context.client_id, size, now_ms))
    return throttle


def fetch_max_bytes(quotas: ClientQuotas, context: RequestContext, max_bytes: int) -> int:
    """Limit `max_bytes` to what a fetch may read without certainly being throttled."""
    connection, client_id = context.connection, context.client_id
    most = quotas.fetch.max_value_in_window(connection.principal, client_id, context.now_ms)
    if quotas.broker.active:
        most = min(most, quotas.broker.fetch_max_bytes(connection, client_id))
    return int(min(max_bytes, most))


def record_fetch(
    quotas: ClientQuotas | NodeQuotas, context: RequestContext, size: int, now_ms: int, *, is_slow: bool
) -> Throttle | None:
    """Record a response of `size` bytes and return the longer throttle; of equal ones, the client's."""
    connection, client_id = context.connection, context.client_id
    throttle = quotas.fetch.record(connection.principal, client_id, size, now_ms)
    if quotas.broker.active:
        whole = quotas.broker.record_fetch(connection, client_id, size, now_ms, is_slow=is_slow)
        throttle = longer(throttle, whole)
    return throttle


class RecordedFetch:
    """A Fetch response of `size` bytes recorded at `now_ms`, and whether it needs the disk (`is_slow`)."""

    __slots__ = ("_is_slow", "_now_ms", "_size")

    def __init__(self, size: int, now_ms: int, *, is_slow: bool) -> None:
        self._size = size
        self._now_ms = now_ms
        self._is_slow = is_slow

    def record(self, quotas: ClientQuotas, context: RequestContext) -> Throttle | None:
        """Return the throttle, if any: the bytes are then taken back, because the response is sent empty."""
        throttle = record_fetch(quotas, context, self._size, self._now_ms, is_slow=self._is_slow)
        if throttle is not None:
            self.unrecord(quotas, context)
        return throttle

    def unrecord(self, quotas: ClientQuotas, context: RequestContext) -> None:
        """Take the recorded bytes back."""
        connection, client_id = context.connection, context.client_id
        quotas.fetch.unrecord(connection.principal, client_id, self._size, self._now_ms)
        if quotas.broker.active:
            quotas.broker.unrecord_fetch(
                connection, client_id, self._size, self._now_ms, is_slow=self._is_slow
            )


def needs_the_disk(found: Iterable[FetchedPartition]) -> bool:
    """Whether any data is outside the page cache.

    Data in a closed segment counts as outside if the file system does not report it.
    """
    for each in found:
        records, log = each.records, each.requested.log
        if not isinstance(records, FileSlice) or log is None:
            continue
        is_cached = records.is_cached()
        if is_cached is None:
            is_cached = each.requested.offset >= log.segments[-1].base_offset
        if not is_cached:
            return True
    return False
