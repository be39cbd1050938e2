"""Prometheus metrics of the busiest clients, whether limited or not. Computed on each scrape."""

from typing import Final

from broker.metrics.families import FamilySamples, Kind, Sample, Steps
from broker.metrics.top_k import largest
from broker.quotas.accounts import Accounts

MAX_CLIENTS: Final = 250
"""Clients that each family includes: those that moved the most bytes in the last seconds."""

FAMILIES: Final = (
    ("kafka_server_client_incoming_bytes_total", "Bytes of requests, by client"),
    ("kafka_server_client_outgoing_bytes_total", "Bytes of responses, by client"),
    ("kafka_server_client_requests_total", "Requests, by client"),
)


def families(accounts: Accounts, now_ms: int) -> Steps:
    """Yield the families of `accounts`, which must be up to date. A source for the metrics registry."""
    known = list(accounts)
    busiest = yield from largest(MAX_CLIENTS, known, lambda account: sum(account.per_second(now_ms)[:2]))
    labels = [(("user", account.user), ("client_id", account.client_id)) for account in busiest]
    for column, (name, text) in enumerate(FAMILIES):
        samples = [
            Sample(label, account.counts[column]) for label, account in zip(labels, busiest, strict=True)
        ]
        yield FamilySamples(name, text, Kind.COUNTER, samples)
    open_now = [Sample(label, account.connections) for label, account in zip(labels, busiest, strict=True)]
    yield FamilySamples(
        "kafka_server_client_connections", "Open connections, by client", Kind.GAUGE, open_now
    )
    left_out = [Sample((), len(known) - len(busiest))]
    yield FamilySamples("weir_clients_left_out", "Clients omitted from this page", Kind.GAUGE, left_out)
