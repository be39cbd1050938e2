"""The network threads and their connections, per processor. (Kafka: SocketServer, Selector.SelectorMetrics)

Rates and ratios are over the time since the page was last read, of one second at least; totals are since the
start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker.metrics.counter_rate import CounterRate
from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.metrics.selector_metrics import SelectorTotals, ciphers, client_software, totals_of
from broker.network.processor import Processor
from broker.network.socket_server import SocketServer

SELECTOR: Final = "kafka_server_socket_server_metrics"

EXPIRED: Final = "Connections closed because their login had ended"

Labels = tuple[tuple[str, str], ...]
Figure = Callable[["Look"], float]

METERS: Final[tuple[tuple[str, str, Callable[[SelectorTotals], float]], ...]] = (
    ("connection_creation", "Connections accepted", lambda t: t.opened),
    ("connection_close", "Connections closed", lambda t: t.closed),
    ("successful_authentication", "Logins that succeeded", lambda t: t.logins),
    ("failed_authentication", "Logins that failed", lambda t: t.failed_logins),
    ("successful_reauthentication", "Logins that were renewed (KIP-368)", lambda t: t.renewals),
    ("failed_reauthentication", "Renewals of a login that failed", lambda t: t.failed_renewals),
    ("network_io", "Requests received and answers sent", lambda t: t.received + t.sent),
    ("incoming_byte", "Bytes of whole requests", lambda t: t.bytes_in),
    ("outgoing_byte", "Bytes of whole answers", lambda t: t.bytes_out),
    ("request", "What was sent, by Kafka's clients' word for it: answers", lambda t: t.sent),
    ("response", "What was received, by Kafka's clients' word for it: requests", lambda t: t.received),
    ("select", "Looks for ready connections", lambda t: t.polls),
)
"""Each has a `_total` and a `_rate` a second."""

TOTALS: Final[tuple[tuple[str, str, Figure], ...]] = (
    (
        "successful_authentication_no_reauth_total",
        "Logins of clients that know nothing of re-authentication",
        lambda look: look.totals.logins_without_reauth,
    ),
    (
        "io_wait_time_ns_total",
        "Nanoseconds between a look for ready connections and its answer",
        lambda look: look.totals.waiting_ns,
    ),
    ("io_time_ns_total", "Nanoseconds of everything else", lambda look: look.totals.busy_ns),
)
GAUGES: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("connection_count", "Open connections", lambda look: len(look.processor.selector.channels)),
    ("io_wait_ratio", "Share of time spent waiting for connections", lambda look: look.waiting),
    ("io_ratio", "Share of time spent on everything else", lambda look: look.rates.busy_ns / 1e9),
    (
        "io_wait_time_ns_avg",
        "Nanoseconds of one wait",
        lambda look: look.rates.waiting_ns / look.rates.polls if look.rates.polls else 0.0,
    ),
    (
        "io_time_ns_avg",
        "Nanoseconds from one wait to the next",
        lambda look: look.rates.busy_ns / look.rates.polls if look.rates.polls else 0.0,
    ),
    ("reauthentication_latency_avg", "Milliseconds of a renewal, lately", lambda look: look.renewal_ms[0]),
    ("reauthentication_latency_max", "Milliseconds of the longest one", lambda look: look.renewal_ms[1]),
    (
        "expired_connections_killed_count",
        EXPIRED,
        lambda look: look.processor.selector.counts.expired,
    ),
)


class Look(NamedTuple):
    """One processor as it is now; `rates` are what its totals grew by in a second."""

    processor: Processor
    labels: Labels
    totals: SelectorTotals
    rates: SelectorTotals
    renewal_ms: tuple[float, int]

    @property
    def waiting(self) -> float:
        return self.rates.waiting_ns / 1e9


class SocketFamilies:
    """Remembers what the last reader saw, since rates are made from totals."""

    def __init__(self, server: SocketServer, now_ns: int) -> None:
        self._server = server
        self._since_ns = now_ns
        self._rate: dict[int, CounterRate] = {}

    def families(self, now_ns: int, idle: float) -> Iterator[FamilySamples]:
        """`idle` is the share of the last window in which the one thread of all processors was idle."""
        looks = list(self._look(now_ns))
        for name, about, total in METERS:
            growing = [Sample(look.labels, total(look.totals)) for look in looks]
            yield FamilySamples(f"{SELECTOR}_{name}_total", about, Kind.COUNTER, growing)
            rates = [Sample(look.labels, total(look.rates)) for look in looks]
            yield FamilySamples(f"{SELECTOR}_{name}_rate", f"{about}, a second", Kind.GAUGE, rates)
        yield from _figures(TOTALS, Kind.COUNTER, looks)
        yield from _figures(GAUGES, Kind.GAUGE, looks)
        yield _software(looks)
        yield _tls(looks)
        yield from _idle(looks, idle)
        yield FamilySamples(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            EXPIRED,
            Kind.GAUGE,
            [Sample((), sum(look.processor.selector.counts.expired for look in looks))],
        )

    def _look(self, now_ns: int) -> Iterator[Look]:
        known, self._rate = self._rate, {}
        for listener in self._server.listeners:
            for each in listener.all_processors():
                counter_rate = known.get(each.id) or CounterRate(each.started or self._since_ns)
                self._rate[each.id] = counter_rate
                totals = totals_of(each, now_ns)
                labels = (("listener", listener.name), ("networkProcessor", str(each.id)))
                rates = SelectorTotals(*counter_rate.look(now_ns, totals))
                renewal_ms = each.selector.counts.renewal_ms.look(now_ns // 1_000_000)
                yield Look(each, labels, totals, rates, renewal_ms)


def _figures(
    table: Iterable[tuple[str, str, Figure]], kind: Kind, looks: Sequence[Look]
) -> Iterator[FamilySamples]:
    for name, about, figure in table:
        samples = [Sample(look.labels, figure(look)) for look in looks]
        yield FamilySamples(f"{SELECTOR}_{name}", about, kind, samples)


def _software(looks: Iterable[Look]) -> FamilySamples:
    names = ("clientSoftwareName", "clientSoftwareVersion")
    about = "Open connections by their clients' software"
    return _kinds("connections_software", about, names, client_software, looks)


def _tls(looks: Iterable[Look]) -> FamilySamples:
    about = "Open connections with TLS by their cipher suite and version"
    return _kinds("connections_tls_info", about, ("cipher", "protocol"), ciphers, looks)


def _kinds(
    name: str,
    about: str,
    names: tuple[str, str],
    counts: Callable[[Processor], Mapping[tuple[str, str], int]],
    looks: Iterable[Look],
) -> FamilySamples:
    samples = [
        Sample((*zip(names, kind, strict=True), *look.labels), count)
        for look in looks
        for kind, count in counts(look.processor).items()
    ]
    return FamilySamples(f"{SELECTOR}_{name}", about, Kind.GAUGE, samples)


def _idle(looks: Sequence[Look], idle: float) -> Iterator[FamilySamples]:
    """Kafka takes a network thread's io-wait-ratio, which here counts the work of all other tasks as waiting.
    The average over no processors is 1, as in Kafka.
    """
    yield FamilySamples(
        "kafka_network_processor_idle_percent",
        "Share of time that the thread which runs a network thread's task is idle",
        Kind.GAUGE,
        [Sample((("networkProcessor", str(look.processor.id)),), idle) for look in looks],
    )
    yield FamilySamples(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The same, averaged over all network threads",
        Kind.GAUGE,
        [Sample((), idle if looks else 1.0)],
    )
