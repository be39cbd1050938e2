"""The parts of client telemetry that other packages use: the manager, the queue of pushes, the latest
values.

Made by `broker.server`, passed to the handlers and to readers of metrics.
"""

import os

from broker.config.sections import TelemetryConfig
from broker.telemetry.forwarding import Forwarding
from broker.telemetry.latest import LatestValues
from broker.telemetry.manager import TelemetryManager
from broker.telemetry.push import Intake


class Telemetry:
    def __init__(self, config: TelemetryConfig) -> None:
        self.config = config
        self.latest = LatestValues(config.max_series)
        self.manager = TelemetryManager(config.max_bytes, config.max_instances, self.latest, _random_id)
        self.intake = Intake()
        self.forwarding = Forwarding(config.otlp_queue_bytes)


def _random_id() -> bytes:
    return os.urandom(16)
