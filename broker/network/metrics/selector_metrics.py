"""The metrics of one processor's selector. (Kafka: Selector.SelectorMetrics)

The Prometheus exporter reads them. Nothing is counted here; the values are computed from the counters of
processor, selector, responder and channels.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.network.processor import Processor

MAX_CLIENTS: Final = 100
"""The maximum number of distinct client software versions, and of ciphers; clients choose these values.
(Kafka: IntGaugeSuite)
"""


class SelectorTotals(NamedTuple):
    """Totals since the processor began, or their growth per second. Times are nanoseconds.

    `received` and `sent` are complete requests and responses, `bytes_in` and `bytes_out` their bytes with
    size prefixes. `waiting_ns` is the time spent waiting for ready sockets, `busy_ns` all other time.
    """

    opened: float
    closed: float
    logins: float
    failed_logins: float
    logins_without_reauth: float
    renewals: float
    failed_renewals: float
    received: float
    sent: float
    bytes_in: float
    bytes_out: float
    polls: float
    waiting_ns: float
    busy_ns: float


def totals_of(processor: Processor, now_ns: int) -> SelectorTotals:
    counts, selector = processor.selector.counts, processor.selector
    received, bytes_in, bytes_out = counts.closed_requests, counts.closed_bytes_in, counts.closed_bytes_out
    in_hand = 0
    for channel in selector:
        received += channel.requests
        bytes_in += channel.bytes_in
        bytes_out += channel.bytes_out
        in_hand += channel.in_hand
    waiting = processor.idle_ns(now_ns)
    return SelectorTotals(
        counts.opened,
        counts.closed,
        counts.logins,
        counts.failed_logins,
        counts.logins_without_reauth,
        counts.renewals,
        counts.failed_renewals,
        received,
        received - in_hand - counts.unanswered - processor.responder.silent,
        bytes_in,
        bytes_out,
        processor.polls,
        waiting,
        now_ns - processor.started - waiting if processor.started else 0,
    )


def client_software(processor: Processor) -> dict[tuple[str, str], int]:
    """Return the number of connections by client software name and version; those beyond MAX_CLIENTS are
    left out, as in Kafka.
    """
    return _counted((channel.software_name, channel.software_version) for channel in processor.selector)


def ciphers(processor: Processor) -> dict[tuple[str, str], int]:
    """Return the number of connections by cipher suite and TLS version, up to MAX_CLIENTS; without those
    that do not use TLS or are still in their handshake.
    """
    return _counted(channel.tls for channel in processor.selector if channel.tls is not None)


def _counted(kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for kind in kinds:
        if kind in found:
            found[kind] += 1
        elif len(found) < MAX_CLIENTS:
            found[kind] = 1
    return found
