"""What Produce and Fetch count for the quota of a client and for that of the broker, in one step.

Called by the Produce and Fetch handlers where `quotas.produce_active` or `quotas.fetch_active` says that
there is one. (AutoMQ: handleProduceRequest and handleFetchRequest of ElasticKafkaApis)
"""

from collections.abc import Iterable

from broker.api.context import RequestContext
from broker.log.slice import FileSlice
from broker.quotas.broker_quota import longer
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.verdict import Throttle
from broker.services.fetching import Found


def record_produce(quotas: ClientQuotas, context: RequestContext) -> Throttle | None:
    """Counts the request; the throttle that counts, of equals the client's own."""
    connection, size, now_ms = context.connection, context.size, context.now_ms
    throttle = quotas.produce.record(connection.principal, context.client_id, size, now_ms)
    if quotas.broker.active:
        throttle = longer(throttle, quotas.broker.record_produce(connection, context.client_id, size, now_ms))
    return throttle


def fetch_max_bytes(quotas: ClientQuotas, context: RequestContext, max_bytes: int) -> int:
    """How much of `max_bytes` a fetch may read without a certain throttle."""
    connection, client_id = context.connection, context.client_id
    most = quotas.fetch.max_value_in_window(connection.principal, client_id, context.now_ms)
    if quotas.broker.active:
        most = min(most, quotas.broker.fetch_max_bytes(connection, client_id))
    return int(min(max_bytes, most))


class RecordedFetch:
    """A Fetch response of `size` bytes with what was `found`, counted at `now_ms`."""

    __slots__ = ("_is_slow", "_now_ms", "_size")

    def __init__(self, size: int, found: Iterable[Found], quotas: ClientQuotas, now_ms: int) -> None:
        self._size = size
        self._now_ms = now_ms
        self._is_slow = quotas.broker.measures_slow_fetches and needs_the_disk(found)

    def record(self, quotas: ClientQuotas, context: RequestContext) -> Throttle | None:
        """The throttle that counts, of equals the client's own. With one the response is to be sent empty,
        and `unrecord` to be called.
        """
        connection, client_id = context.connection, context.client_id
        throttle = quotas.fetch.record(connection.principal, client_id, self._size, self._now_ms)
        if not quotas.broker.active:
            return throttle
        return longer(
            throttle,
            quotas.broker.record_fetch(
                connection, client_id, self._size, self._now_ms, is_slow=self._is_slow
            ),
        )

    def unrecord(self, quotas: ClientQuotas, context: RequestContext) -> None:
        """Takes the bytes back, for the response is sent empty."""
        connection, client_id = context.connection, context.client_id
        quotas.fetch.unrecord(connection.principal, client_id, self._size, self._now_ms)
        if quotas.broker.active:
            quotas.broker.unrecord_fetch(
                connection, client_id, self._size, self._now_ms, is_slow=self._is_slow
            )


def needs_the_disk(found: Iterable[Found]) -> bool:
    """Whether some of what was found is not in the page cache, or in a closed segment where the file system
    does not say.
    """
    for each in found:
        records, log = each.records, each.wanted.log
        if not isinstance(records, FileSlice) or log is None:
            continue
        is_cached = records.is_cached()
        if is_cached is None:
            is_cached = each.wanted.offset >= log.segments[-1].base_offset
        if not is_cached:
            return True
    return False
