"""A warehouse with some of everything, of one day."""

from pathlib import Path

from tests.webui.insights.warehouse import at, event, record, usage, write

DAY = "2026-01-10"
BEFORE = "2026-01-09"


def fill(root: Path) -> None:
    ten, later = f"{DAY} 10:00", f"{DAY} 10:01"
    write(
        root,
        "usage_per_minute",
        [
            usage(ten, "alice", "a", 6_000_000, 1_000, 60, 1, 100, 60_000),
            usage(later, "alice", "b", 3_000_000, 0, 30, 0, 0, 30_000),
            usage(ten, "bob", "reports", 0, 9_000_000, 90, 0, 0, 90_000),
            usage(ten, "ANONYMOUS", "scripts", 10, 0, 1, 0, 0, 5),
        ],
    )
    phases = ("local", "queue", "total")
    write(
        root,
        "phase_quantiles_per_minute",
        [
            (*at(ten), 1, api, phase, 50, 100, 200, 400, 800)
            for api in ("Fetch", "Produce")
            for phase in phases
        ],
    )
    versions = (("apache-kafka-java", "4.1.1"), ("librdkafka", "2.16.1"))
    write(
        root,
        "latency_by_software_per_day",
        [
            *((DAY, *each, "one", "Produce", 2, 50, 700, 1_400, 2_800, 9_000) for each in versions),
            (DAY, "librdkafka", "", "several", "Produce", 1, 5, 100, 200, 400, 800),
            (DAY, "", "", "unknown", "Fetch", 3, 7, 100, 200, 400, 800),
        ],
    )
    rule = '{"client-id":null,"user":"alice"}'
    write(
        root,
        "throttling_per_minute",
        [(*at(ten), 1, "produce", rule, "alice", "a", 3, 4_500, 2_000, 2e6, 1e6, 1)],
    )
    write(
        root,
        "quota_utilisation_per_minute",
        [
            (*at(ten), 1, "producer_byte_rate", rule, '["alice","a"]', 9e4, 1e5, 1, 0.9),
            (*at(later), 1, "producer_byte_rate", rule, '["alice","a"]', 1e5, 1e5, 1, 1.0),
        ],
    )
    write(root, "connection_storms", [(*at(ten), 1, "PLAINTEXT", "10.0.0.9", 200, 50, 10, 250)])
    lost = (*at(ten), "4L6g3nShT-eMCtK--X86sw", "__weir_requests", 3, 100, 12_099, 12_000)
    write(root, "lost_records", [lost])
    write(root, "shared_client_ids_per_day", [(DAY, "reports", ["alice", "bob"], ["10.0.0.1"], 2, True)])
    write(root, "top_offenders_per_day", [(DAY, "alice", "a", "produce_bytes", 9_000_000, 1, 0.9)])
    write(
        root,
        "throttle_compliance_per_day",
        [
            (DAY, "alice", "a", "librdkafka", "2.16.1", 1, 3, 4_500, 0, 3, 1.0, False),
            (DAY, "bob", "reports", "apache-kafka-java", "4.1.1", 1, 4, 900, 4, 0, 0.0, True),
            (DAY, "bob", "new", "", "", 1, 1, 100, 0, 0, None, None),
        ],
    )
    gauge, total = "org.apache.kafka.producer.node.request.latency.avg", "org.apache.kafka.producer.errors"
    write(
        root,
        "client_metrics_per_minute",
        [
            (*at(ten), "one", "a", "alice", gauge, "gauge", 2, 1.0, 3.0, 2.0, None, None, None),
            (*at(later), "one", "a", "alice", gauge, "gauge", 1, 5.0, 5.0, 5.0, None, None, None),
            (*at(ten), "two", "a", "alice", total, "sum", 2, None, None, None, 7.0, None, None),
        ],
    )
    reason = "On this day a limit of 80.0 kB/s would have throttled at most 1% of the requests."
    held = "A limit held in 50 of 50 active minutes, so the need is not known."
    write(
        root,
        "quota_advice",
        [
            (
                *(DAY, "alice", None, "producer_byte_rate", 60, 8e4, 1e5, 1e5, reason),
                *(0, None, "simulated", 0.004, 0.001, 700),
            ),
            (
                *(DAY, None, "scripts", "request_percentage", 45, 0.5, 0.75, 0.63, reason),
                *(0, None, "simulated", 0.0, 0.0, 0),
            ),
            (
                *(DAY, "bob", None, "producer_byte_rate", 50, None, 2e5, None, held),
                *(50, 2e5, "measured", 0.97, 0.66, 3_200),
            ),
            # As an earlier version wrote it.
            (BEFORE, "alice", None, "producer_byte_rate", 60, 4e4, 9e4, 5e4, reason),
        ],
    )
    # Alice does more than the advice would let her.
    moved = {"requests": 10, "bytes_in": 200_000}
    record(root, DAY, [event(10 * 3_600 + at_s, DAY, **moved) for at_s in range(120)])
