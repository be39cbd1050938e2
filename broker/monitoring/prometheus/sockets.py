"""Metrics of the acceptors, the network threads and their connections. (Kafka: Acceptor, ConnectionQuotas,
SocketServer, Selector.SelectorMetrics)

Rates and ratios are over the time since the previous scrape, at least one second; totals are since the
start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker.api.requests.callbacks import Callbacks
from broker.metrics.families import MAX_SERIES, Families, FamilySamples, MetricType, Sample, counter, gauge
from broker.metrics.rate import CounterRate
from broker.network.failures import Failures
from broker.network.processor import Processor
from broker.network.server_metrics import (
    Idle,
    SelectorTotals,
    ciphers,
    client_software,
    cut_off,
    flow_totals,
    idle_connections,
    max_in_flight,
    oversized,
    totals_of,
)
from broker.network.socket_server import SocketServer
from broker.quotas import connection_metrics

SELECTOR: Final = "kafka_server_socket_server_metrics"

EXPIRED: Final = "Connections closed because their session expired"

Labels = tuple[tuple[str, str], ...]
Value = Callable[["ProcessorReading"], float]

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

TOTALS: Final[tuple[tuple[str, str, Value], ...]] = (
    (
        "successful_authentication_no_reauth_total",
        "Authentications of clients without support for re-authentication",
        lambda reading: reading.totals.logins_without_reauth,
    ),
    (
        "io_wait_time_ns_total",
        "Nanoseconds in select",
        lambda reading: reading.totals.waiting_ns,
    ),
    ("io_time_ns_total", "Nanoseconds outside of select", lambda reading: reading.totals.busy_ns),
)
GAUGES: Final[tuple[tuple[str, str, Value], ...]] = (
    ("connection_count", "Open connections", lambda reading: len(reading.processor.selector.channels)),
    ("io_wait_ratio", "Share of time in select", lambda reading: reading.waiting),
    ("io_ratio", "Share of time outside of select", lambda reading: reading.rates.busy_ns / 1e9),
    (
        "io_wait_time_ns_avg",
        "Mean nanoseconds of a select",
        lambda reading: reading.rates.waiting_ns / reading.rates.polls if reading.rates.polls else 0.0,
    ),
    (
        "io_time_ns_avg",
        "Mean nanoseconds between two selects",
        lambda reading: reading.rates.busy_ns / reading.rates.polls if reading.rates.polls else 0.0,
    ),
    (
        "reauthentication_latency_avg",
        "Mean milliseconds of recent re-authentications",
        lambda reading: reading.renewal_ms_avg,
    ),
    (
        "reauthentication_latency_max",
        "Maximum milliseconds of recent re-authentications",
        lambda reading: reading.renewal_ms_max,
    ),
    (
        "expired_connections_killed_count",
        EXPIRED,
        lambda reading: reading.processor.selector.counts.expired,
    ),
)


class ProcessorReading(NamedTuple):
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

    def families(self, now_ns: int, idle: Idle) -> Iterator[FamilySamples]:
        """Yield the families."""
        readings = list(self._look(now_ns))
        for name, about, total in METERS:
            growing = [Sample(reading.labels, total(reading.totals)) for reading in readings]
            yield counter(f"{SELECTOR}_{name}_total", about, growing)
            rates = [Sample(reading.labels, total(reading.rates)) for reading in readings]
            yield gauge(f"{SELECTOR}_{name}_rate", f"{about}, per second", rates)
        yield from _figures(TOTALS, MetricType.COUNTER, readings)
        yield from _figures(GAUGES, MetricType.GAUGE, readings)
        yield _software(readings)
        yield _tls(readings)
        yield from _idle(readings, idle)
        yield gauge(
            "kafka_network_socketserver_expiredconnectionskilledcount",
            EXPIRED,
            sum(reading.processor.selector.counts.expired for reading in readings),
        )

    def _look(self, now_ns: int) -> Iterator[ProcessorReading]:
        known, self._rate = self._rate, {}
        for listener in self._server.listeners:
            for each in listener.all_processors():
                counter_rate = known.get(each.id) or CounterRate(
                    self._since_ns if each.started is None else each.started
                )
                self._rate[each.id] = counter_rate
                totals = totals_of(each, now_ns)
                labels = (("listener", listener.name), ("networkProcessor", str(each.id)))
                rates = SelectorTotals(*counter_rate.update(now_ns, totals))
                counts, now_ms = each.selector.counts, now_ns // 1_000_000
                renewal_ms_avg = counts.renewal_ms_avg.measure_or_zero(now_ms)
                renewal_ms_max = counts.renewal_ms_max.measure_or_zero(now_ms)
                yield ProcessorReading(each, labels, totals, rates, renewal_ms_avg, renewal_ms_max)


def _figures(
    table: Iterable[tuple[str, str, Value]], kind: MetricType, readings: Sequence[ProcessorReading]
) -> Iterator[FamilySamples]:
    for name, about, figure in table:
        samples = [Sample(reading.labels, figure(reading)) for reading in readings]
        yield FamilySamples(f"{SELECTOR}_{name}", about, kind, samples)


def _software(readings: Iterable[ProcessorReading]) -> FamilySamples:
    names = ("clientSoftwareName", "clientSoftwareVersion")
    about = "Open connections by client software"
    return _kinds("connections_software", about, names, client_software, readings)


def _tls(readings: Iterable[ProcessorReading]) -> FamilySamples:
    about = "Open TLS connections by cipher suite and protocol version"
    return _kinds("connections_tls_info", about, ("cipher", "protocol"), ciphers, readings)


def _kinds(
    name: str,
    about: str,
    names: tuple[str, str],
    counts: Callable[[Processor], Mapping[tuple[str, str], int]],
    readings: Iterable[ProcessorReading],
) -> FamilySamples:
    samples = [
        Sample((*zip(names, kind, strict=True), *reading.labels), count)
        for reading in readings
        for kind, count in counts(reading.processor).items()
    ]
    return gauge(f"{SELECTOR}_{name}", about, samples)


def _idle(readings: Iterable[ProcessorReading], idle: Idle) -> Iterator[FamilySamples]:
    """Yield the idle shares of the network threads, and of the one thread that runs all of them."""
    shares = [(reading.processor.id, idle.processors.get(reading.processor.id, 1.0)) for reading in readings]
    yield gauge(
        "kafka_network_processor_idle_percent",
        "Share of time in which the network thread waited for its sockets",
        [Sample((("networkProcessor", str(processor)),), share) for processor, share in shares],
    )
    yield gauge(
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "The same, averaged over the network threads",
        idle.network,
    )
    yield gauge(
        "weir_thread_idle_percent",
        "Share of time in which the one thread of all network threads and handlers had no work",
        idle.thread,
    )


def flow_families(server: SocketServer, callbacks: Callbacks, now_ms: int) -> Iterator[FamilySamples]:
    """Yield flow-control metrics of the network threads and the callbacks, which the console's doctor uses
    too.
    """
    totals = flow_totals(server)
    yield counter(
        "weir_flow_control_mutes_total", "Connections muted by a quota or a watermark", totals.mutes
    )
    yield counter(
        "weir_flow_control_unmutes_total", "Connections unmuted after a quota or a watermark", totals.unmutes
    )
    yield counter(
        "weir_oversized_requests_total",
        "Connections closed because a request was larger than socket.request.max.bytes",
        oversized(server),
    )
    yield counter(
        "weir_responses_cut_off_total",
        "Connections closed within a response, because the disk did not give records that were promised",
        cut_off(server),
    )
    yield counter(
        "weir_callbacks_blocked_total",
        "Responses of delayed requests that found the callback queue full",
        callbacks.blocked,
    )
    processors = [((("networkProcessor", str(each.id)),), each) for each in server.processors()]
    yield gauge(
        "weir_idle_connections",
        "Open connections without activity for a minute, by network thread",
        [Sample(labels, idle_connections(each, now_ms)) for labels, each in processors],
    )
    yield gauge(
        "weir_deepest_connection_requests",
        "Largest number of requests in flight on one connection, by network thread",
        [Sample(labels, max_in_flight(each)) for labels, each in processors],
    )


def acceptor_families(server: SocketServer, now_ms: int, most: int = MAX_SERIES) -> Families:
    """Yield the families, with the `most` busiest addresses.

    A listener that is being replaced by another of its name is omitted.
    """
    quotas = {name.value: each.gate.quotas for name, each in server.resources.items()}
    yield from connection_metrics.families(quotas, now_ms, most)
    gates = {listener.name: listener.acceptor.gate for listener in server.listeners}
    yield gauge(
        "kafka_network_acceptor_acceptorblockedpercent",
        "Share of the last minute, 0 to 1, in which the acceptor waited for a processor, a slot or a rate",
        [Sample((("listener", name),), gate.blocked.share()) for name, gate in gates.items()],
    )
    yield gauge(
        "kafka_network_acceptor_throttled_sockets",
        "Accepted connections delayed because their address exceeds its rate",
        [Sample((("listener", name),), len(gate.throttled_sockets)) for name, gate in gates.items()],
    )


def failure_families(failures: Failures) -> Iterator[FamilySamples]:
    """Yield one series for each place, including those without failures."""
    yield counter(
        "kafka_server_socket_server_unexpected_exceptions_total",
        "Unexpected exceptions that ended a connection or failed a request, by place",
        [Sample((("place", place.value),), count) for place, count in failures.counts.items()],
    )
