"""The task that has pushes read, one after the other in a thread, and answers them. (Kafka:
ClientTelemetryExporterPlugin)

No handler waits for it, so the clients that produce and fetch notice nothing of a push but its share of the
processor. That has a bound too: after a push that took long to read, whoever it came from, the task rests as
long as that.
"""

import logging
import time
from functools import partial
from typing import Final, NamedTuple

import trio

from broker.api.broker import Broker
from broker.api.outcome import Answered
from broker.collecting.topic import TOPIC, record_of
from broker.config.rooms import TelemetryConfig
from broker.errors import ApiError, ErrorCode
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import HandlerPool
from broker.protocol.messages.push_telemetry import PushTelemetryResponse
from broker.services.event_log import EventLog
from broker.telemetry.payload import Reading, parse, read, unpack
from broker.telemetry.push import Push

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-receivers"

RESTS_FROM_MS: Final = 10
"""Of processor time. A push of a usual size takes less than one."""


class Exported(NamedTuple):
    """`cpu_ms` is what the thread used."""

    reading: Reading
    cpu_ms: float


class PushReader:
    """`events` takes the pushes for their topic."""

    def __init__(self, broker: Broker, handlers: HandlerPool, events: EventLog, clock: TrioClock) -> None:
        self._broker = broker
        self._handlers = handlers
        self._events = events
        self._clock = clock
        self._filled = trio.Event()
        broker.telemetry.intake.wake = self._wake

    def _wake(self) -> None:
        self._filled.set()

    async def run(self) -> None:
        """Until cancelled; who waits then is not answered."""
        intake = self._broker.telemetry.intake
        while True:
            if not intake.waiting:
                self._filled = trio.Event()
                await self._filled.wait()
            cpu_ms = await self._take(intake.take())
            if cpu_ms > RESTS_FROM_MS:
                await trio.sleep(cpu_ms / 1000)

    async def _take(self, push: Push) -> float:
        """Reads one push and answers it; the processor time that it took."""
        telemetry, clock = self._broker.telemetry, self._clock
        self._events.offer(TOPIC, record_of(push, self._broker.config.node_id))
        began = clock.ns()
        cpu_ms = 0.0
        try:
            done = await trio.to_thread.run_sync(partial(export, push, telemetry.config))
        except ApiError as error:
            code = error.code
            logger.info(
                "a push was refused", extra={"client_id": push.client.client_id, "reason": str(error)}
            )
            telemetry.manager.failed(push.instance, code, clock.ms())
        else:
            code, cpu_ms = ErrorCode.NONE, done.cpu_ms
            now = clock.ns()
            if not push.instance.gone:
                telemetry.latest.take(push.instance.id, done.reading, push.wall_ms)
            telemetry.manager.exported(
                push.instance, len(push.payload), (now - began) / 1e6, clock.ms(), push.wall_ms
            )
        self._broker.callbacks.post(push.token, Answered(PushTelemetryResponse(error_code=code)))
        self._handlers.deliver()
        return cpu_ms


def export(push: Push, config: TelemetryConfig) -> Exported:
    """In a thread. Raises ApiError: INVALID_RECORD, TELEMETRY_TOO_LARGE."""
    began = time.thread_time()
    reading = read(parse(unpack(push.codec, push.payload, config.max_inflated_bytes)))
    return Exported(reading, (time.thread_time() - began) * 1000)
