"""Whether clients wait as they are told. Ours: Kafka does not ask. See `quotas.throttle_compliance`."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.metrics.families import MAX_SERIES, FamilySamples, Kind, Sample
from broker.quotas.throttle_compliance import ThrottleCompliance

WORDS: Final = {True: "yes", False: "no", None: "unknown"}


def families(throttle_compliance: ThrottleCompliance) -> Iterator[FamilySamples]:
    """Of clients of which something was seen, those last that were seen last."""
    clients = list(throttle_compliance.clients())
    verdicts = Counter(client.record.obeys for client in clients)
    yield FamilySamples(
        "kafka_server_throttled_clients",
        "Clients that were throttled, by whether they wait as throttle_time_ms tells them to",
        Kind.GAUGE,
        [Sample((("obeys", word),), verdicts[verdict]) for verdict, word in WORDS.items()],
    )
    yield FamilySamples(
        "kafka_server_throttle_compliance_total",
        "Throttles in which a client waited, and in which it sent before they were over",
        Kind.COUNTER,
        [
            Sample((("user", each.principal), ("client_id", each.client_id), ("outcome", outcome)), count)
            for each in clients[-MAX_SERIES // 2 :]
            for outcome, count in (("waited", each.record.waited), ("sent_early", each.record.sent_early))
        ],
    )
