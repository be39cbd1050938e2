"""Metrics of the network threads and their connections, per processor. (Kafka: SocketServer,
Selector.SelectorMetrics)

Rates and ratios are over the time since the previous scrape, at least one second; totals are since the
start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.metrics.rate import CounterRate
from broker.network.metrics.selector_metrics import SelectorTotals, ciphers, client_software, totals_of
from broker.network.processor import Processor
from broker.network.socket_server import SocketServer

SELECTOR: Final = "kafka_server_socket_server_metrics"

EXPIRED: Final = "Connections closed because their session expired"

Labels = tuple[tuple[str, str], ...]
Figure = Callable[["Look"], float]

METERS: Final[tuple[tuple[str, str, Callable[[SelectorTotals], float]], ...]] = (
    ("connection_creation", "Connections accepted", lambda t: t.opened),
    ("connection_close", "Connections closed", lambda t: t.closed),
    ("successful_authentication", "Successful authentications", lambda t: t.logins),
    ("failed_authentication", "Failed authentications", lambda t: t.failed_logins),
    ("successful_reauthentication", "Successful re-authentications (KIP-368)", lambda t: t.renewals),
    ("failed_reauthentication", "Failed re-authentications", lambda t: t.failed_renewals),
    ("network_io", "Requests received and responses sent", lambda t: t.received + t.sent),
    ("incoming_byte", "Bytes of complete requests", lambda t: t.bytes_in),
    ("outgoing_byte", "Bytes of complete responses", lambda t: t.bytes_out),
    ("request", "Messages sent, which Kafka's selector calls requests: responses", lambda t: t.sent),
    ("response", "Messages received, which Kafka's selector calls responses: requests", lambda t: t.received),
    ("select", "Calls of select", lambda t: t.polls),
)
"""Each has a `_total` and a `_rate` per second."""

TOTALS: Final[tuple[tuple[str, str, Figure], ...]] = (
    (
        "successful_authentication_no_reauth_total",
        "Authentications of clients without support for re-authentication",
        lambda look: look.totals.logins_without_reauth,
    ),
    (
        "io_wait_time_ns_total",
        "Nanoseconds in select",
        lambda look: look.totals.waiting_ns,
    ),
    ("io_time_ns_total", "Nanoseconds outside of select", lambda look: look.totals.busy_ns),
)
GAUGES: Final[tuple[tuple[str, str, Figure], ...]] = (
    ("connection_count", "Open connections", lambda look: len(look.processor.selector.channels)),
    ("io_wait_ratio", "Share of time in select", lambda look: look.waiting),
    ("io_ratio", "Share of time outside of select", lambda look: look.rates.busy_ns / 1e9),
    (
        "io_wait_time_ns_avg",
        "Mean nanoseconds of a select",
        lambda look: look.rates.waiting_ns / look.rates.polls if look.rates.polls else 0.0,
    ),
    (
        "io_time_ns_avg",
        "Mean nanoseconds between two selects",
        lambda look: look.rates.busy_ns / look.rates.polls if look.rates.polls else 0.0,
    ),
    (
        "reauthentication_latency_avg",
        "Mean milliseconds of recent re-authentications",
        lambda look: look.renewal_ms_avg,
    ),
    (
        "reauthentication_latency_max",
        "Maximum milliseconds of recent re-authentications",
        lambda look: look.renewal_ms_max,
    ),
    (
        "expired_connections_killed_count",
        EXPIRED,
        lambda look: look.processor.selector.counts.expired,
    ),
)


class Look(NamedTuple):
    """The state of one processor; `rates` are the increases of its totals per second."""

    processor: Processor
    labels: Labels
    totals: SelectorTotals
    rates: SelectorTotals
    renewal_ms_avg: float
    renewal_ms_max: float

    @property
    def waiting(self) -> float:
        return self.rates.waiting_ns / 1e9


class SocketFamilies:
    """Stores the totals of the previous scrape, from which rates are computed."""

    def __init__(self, server: SocketServer, now_ns: int) -> None:
        self._server = server
        self._since_ns = now_ns
        self._rate: dict[int, CounterRate] = {}

    def families(self, now_ns: int, idle: float) -> Iterator[FamilySamples]:
        """Yield the families. `idle` is the idle share of the processors' one thread over the last window."""
        looks = list(self._look(now_ns))
        for name, about, total in METERS:
            growing = [Sample(look.labels, total(look.totals)) for look in looks]
            yield FamilySamples(f"{SELECTOR}_{name}_total", about, Kind.COUNTER, growing)
            rates = [Sample(look.labels, total(look.rates)) for look in looks]
            yield FamilySamples(f"{SELECTOR}_{name}_rate", f"{about}, per second", Kind.GAUGE, rates)
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
                rates = SelectorTotals(*counter_rate.update(now_ns, totals))
                counts, now_ms = each.selector.counts, now_ns // 1_000_000
                renewal_ms_avg = counts.renewal_ms_avg.measure_or_zero(now_ms)
                renewal_ms_max = counts.renewal_ms_max.measure_or_zero(now_ms)
                yield Look(each, labels, totals, rates, renewal_ms_avg, renewal_ms_max)


def _figures(
    table: Iterable[tuple[str, str, Figure]], kind: Kind, looks: Sequence[Look]
) -> Iterator[FamilySamples]:
    for name, about, figure in table:
        samples = [Sample(look.labels, figure(look)) for look in looks]
        yield FamilySamples(f"{SELECTOR}_{name}", about, kind, samples)


def _software(looks: Iterable[Look]) -> FamilySamples:
    names = ("clientSoftwareName", "clientSoftwareVersion")
    about = "Open connections by client software"
    return _kinds("connections_software", about, names, client_software, looks)


def _tls(looks: Iterable[Look]) -> FamilySamples:
    about = "Open TLS connections by cipher suite and protocol version"
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
    """Yield the idle shares of the network threads.

    Kafka uses a network thread's io-wait-ratio, which here would count the work of all other tasks as
    waiting. The average over no processors is 1, as in Kafka.
    """
    yield FamilySamples(
        "kafka_network_processor_idle_percent",
        "Idle share of the thread that runs the processor",
        Kind.GAUGE,
        [Sample((("networkProcessor", str(look.processor.id)),), idle) for look in looks],
    )
    yield FamilySamples(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "Idle share of the network threads, averaged",
        Kind.GAUGE,
        [Sample((), idle if looks else 1.0)],
    )
