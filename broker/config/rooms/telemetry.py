"""What clients may push of their own metrics (KIP-714). For broker.telemetry; what is asked of them is
metadata.
"""

from dataclasses import dataclass

from broker.config.kinds import BOOLEAN, integer
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    enabled: bool = setting(
        "telemetry.enabled",
        True,
        BOOLEAN,
        "Whether clients are offered GetTelemetrySubscriptions and PushTelemetry at all. Without a "
        "subscription they ask once in five minutes and push nothing.",
        ours=True,
    )
    max_bytes: int = setting(
        "telemetry.max.bytes",
        1_048_576,
        integer(1),
        "The most that a client may push at once, as it is sent, which is compressed as a rule.",
        unit="bytes",
    )
    max_inflated_bytes: int = setting(
        "telemetry.max.inflated.bytes",
        2_097_152,
        integer(1),
        "The most that a push may unpack to.",
        unit="bytes",
        ours=True,
    )
    max_instances: int = setting(
        "telemetry.max.client.instances",
        16_384,
        integer(1),
        "Client instances that are remembered; of more, those that were heard of least lately are forgotten. "
        "Kafka remembers as many, and that cannot be changed there.",
        ours=True,
    )
    max_series: int = setting(
        "telemetry.prometheus.max.series",
        10_000,
        integer(0),
        "Figures of clients that are remembered for /metrics and the console, a tenth of them of one client; "
        "0 remembers none.",
        ours=True,
    )
