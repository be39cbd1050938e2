"""Clients' compliance with throttle_time_ms. Ours, without a counterpart in Kafka. See
`quotas.throttle_compliance`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample
from broker.quotas.throttle_compliance import ThrottleCompliance

WORDS: Final = {True: "yes", False: "no", None: "unknown"}


def families(throttle_compliance: ThrottleCompliance) -> Iterator[FamilySamples]:
    """Yield the families of clients with a known reaction, the most recent last."""
    clients = list(throttle_compliance.clients())
    verdicts = Counter(client.record.obeys for client in clients)
    yield FamilySamples(
        "kafka_server_throttled_clients",
        "Throttled clients, by whether they obey throttle_time_ms",
        Kind.GAUGE,
        [Sample((("obeys", word),), verdicts[verdict]) for verdict, word in WORDS.items()],
    )
    yield FamilySamples(
        "kafka_server_throttle_compliance_total",
        "Throttles by outcome: the client waited, or sent before the throttle ended",
        Kind.COUNTER,
        [
            Sample((("user", each.principal), ("client_id", each.client_id), ("outcome", outcome)), count)
            for each in clients[-MAX_SERIES // 2 :]
            for outcome, count in (("waited", each.record.waited), ("sent_early", each.record.sent_early))
        ],
    )
