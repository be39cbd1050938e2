"""What one processor's selector has done so far. (Kafka: Selector.SelectorMetrics)

Read by the exposition when somebody looks; nothing here is counted, it is put together from what processor,
selector, responder and channels count for themselves.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.network.processor import Processor

MOST_CLIENTS: Final = 100
"""Kinds of client software that are told apart, and of ciphers; clients choose what they say. (Kafka:
IntGaugeSuite)
"""


class SelectorTotals(NamedTuple):
    """Totals since the processor began, or how much they grow in a second. Times are nanoseconds.

    `received` and `sent` are whole requests and whole answers, `bytes_in` and `bytes_out` their bytes, size
    prefixes included. `waiting_ns` is the time between a look for ready sockets and its answer, `busy_ns` all
    the rest.
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
    """Connections by the name and version of their client's software; those beyond MOST_CLIENTS are left out,
    as in Kafka.
    """
    return _counted((channel.software_name, channel.software_version) for channel in processor.selector)


def ciphers(processor: Processor) -> dict[tuple[str, str], int]:
    """Connections by their cipher suite and version of TLS, likewise; those without TLS, or still in their
    handshake, are left out.
    """
    return _counted(channel.tls for channel in processor.selector if channel.tls is not None)


def _counted(kinds: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for kind in kinds:
        if kind in found:
            found[kind] += 1
        elif len(found) < MOST_CLIENTS:
            found[kind] = 1
    return found
