"""What of this room others hold: the manager, the queue of pushes, and what clients said last.

Made by `broker.server`, handed to the handlers and to whoever shows figures.
"""

import os
from collections.abc import Callable

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
        self.expiry_moved: Callable[[], None] = _nobody
        """To be called after a request: an instance may be due earlier than any other."""


def _random_id() -> bytes:
    return os.urandom(16)


def _nobody() -> None:
    """Before the reaper is there."""
