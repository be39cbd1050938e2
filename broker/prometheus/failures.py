"""Unexpected exceptions that ended one connection or one request. Ours: Kafka only logs them."""

from collections.abc import Iterator

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.failures import Failures


def families(failures: Failures) -> Iterator[FamilySamples]:
    """Yield one series for each place, including those without failures."""
    yield FamilySamples(
        "kafka_server_socket_server_unexpected_exceptions_total",
        "Unexpected exceptions that ended a connection or failed a request, by place",
        Kind.COUNTER,
        [Sample((("place", place.value),), count) for place, count in failures.counts.items()],
    )
