"""Unexpected exceptions that ended one connection or one request. Ours: Kafka only logs them."""

from collections.abc import Iterator

from broker.metrics.families import FamilySamples, Kind, Sample
from broker.network.failures import Failures


def families(failures: Failures) -> Iterator[FamilySamples]:
    """One series for each place, also where nothing has happened."""
    yield FamilySamples(
        "kafka_server_socket_server_unexpected_exceptions_total",
        "Unexpected exceptions, each of which ended one connection or failed one request, by the step",
        Kind.COUNTER,
        [Sample((("place", place.value),), count) for place, count in failures.counts.items()],
    )
