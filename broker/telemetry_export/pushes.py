"""The task that hands pushes to their receivers, one after the other in a thread, and answers them. (Kafka:
ClientTelemetryExporterPlugin)

No handler waits for it, so the clients that produce and fetch notice nothing of a push but its share of the
processor. That has a bound too: after a push that took long to read, whoever it came from and whatever came
of it, the task rests as long as that.
"""

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from broker.api.broker import Broker
from broker.api.outcome import Answered, Outcome
from broker.api.pacing import consumed
from broker.config.sections import TelemetryConfig
from broker.errors import ApiError, ErrorCode
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import HandlerPool
from broker.protocol.messages.push_telemetry import PushTelemetryResponse
from broker.services.event_log import EventLog
from broker.telemetry.effective import uuid_text
from broker.telemetry.payload import Reading, parse, read, unpack
from broker.telemetry.push import Push
from broker.telemetry.receiver import PushedMetrics, TelemetryReceiver
from broker.telemetry_export.otlp import body_of
from broker.telemetry_export.topic import TOPIC, record_of

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-receivers"

RESTS_FROM_MS: Final = 10
"""Of processor time. A push of a usual size takes less than one."""


TOLD_EVERY_MS: Final = 60_000

REST_SECONDS: Final = 0.0005
"""Pause of the thread that reads a push, after half a millisecond of work or so."""

TAKEN_AT_ONCE: Final = 64
"""Points that are kept between two looks at the network; ours. With 32 attributes each that takes 0.3 ms."""


class Exported(NamedTuple):
    """What came of a push: `error` NONE, or why a receiver refuses it. `body` is for the collector, where
    there is one. `cpu_ms` is what the thread used.
    """

    error: ErrorCode
    reason: str
    reading: Reading
    body: bytes | None
    cpu_ms: float


class PushReader:
    """`events` takes the pushes for their topic, whatever the `receivers` say of them."""

    def __init__(
        self,
        broker: Broker,
        handlers: HandlerPool,
        events: EventLog,
        receivers: Sequence[TelemetryReceiver],
        clock: TrioClock,
    ) -> None:
        self._broker = broker
        self._handlers = handlers
        self._events = events
        self._receivers = receivers
        self._clock = clock
        self._filled = trio.Event()
        self._told_ms: int | None = None
        broker.telemetry.intake.wake = self._wake

    def _wake(self) -> None:
        self._filled.set()

    async def run(self) -> None:
        """Until cancelled; who waits then is not answered, and a receiver that never ends is left alone."""
        intake = self._broker.telemetry.intake
        while True:
            if not intake.waiting:
                self._filled = trio.Event()
                await self._filled.wait()
            push = intake.take()
            try:
                cpu_ms = await self._take(push)
            except Exception as error:  # noqa: BLE001 - reported, and answered as an error
                self._fail(push, error)
                continue
            if cpu_ms > RESTS_FROM_MS:
                await trio.sleep(cpu_ms / 1000)

    async def _take(self, push: Push) -> float:
        """Hands one push on and answers it; the processor time that it took."""
        telemetry, clock = self._broker.telemetry, self._clock
        self._events.offer(TOPIC, record_of(push, self._broker.config.node_id))
        began = clock.ns()
        work = partial(export, push, telemetry.config, self._receivers)
        done = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        took_ms = (clock.ns() - began) / 1e6
        if done.error is ErrorCode.NONE:
            left_out, points = done.reading.left_out, done.reading.points
            for some in consumed(points, TAKEN_AT_ONCE):
                if not push.instance.gone:
                    telemetry.latest.take(push.instance.id, Reading(some, left_out), push.wall_ms)
                left_out = 0
                await trio.lowlevel.checkpoint()
            if done.body is not None:
                telemetry.forwarding.offer(done.body)
            size = len(push.payload)
            telemetry.manager.exported(push.instance, size, took_ms, clock.ms(), push.wall_ms)
        else:
            self._tell(push, done.reason)
            telemetry.manager.failed(push.instance, done.error, clock.ms())
        answer = Answered(PushTelemetryResponse(error_code=done.error))
        self._broker.callbacks.post(push.token, lambda: answer)
        self._handlers.deliver()
        return done.cpu_ms

    def _fail(self, push: Push, error: Exception) -> None:
        """Has the handlers meet the error where they make the answer, as one of this request."""

        def raise_error() -> Outcome:
            raise error

        self._broker.callbacks.post(push.token, raise_error)
        self._handlers.deliver()

    def _tell(self, push: Push, reason: str) -> None:
        """Once a minute at most: anybody can send what is none. All of them are counted."""
        now_ms = self._clock.ms()
        if self._told_ms is None or now_ms - self._told_ms >= TOLD_EVERY_MS:
            self._told_ms = now_ms
            about = {"client_id": push.client.client_id, "reason": reason}
            logger.warning(
                "a push of client metrics was refused, maybe others since the last line", extra=about
            )


def rest() -> None:
    """In the thread that reads: lets the broker's thread have the interpreter."""
    time.sleep(REST_SECONDS)


def export(push: Push, config: TelemetryConfig, receivers: Sequence[TelemetryReceiver]) -> Exported:
    """In a thread."""
    began = time.thread_time()
    error, reason, reading, body = ErrorCode.NONE, "", Reading([], 0), None
    try:
        plain = unpack(push.codec, push.payload, config.max_inflated_bytes)
        data = parse(plain, rest)
        reading = read(data, rest)
        if receivers:
            pushed = _pushed(push, plain, data)
            for receiver in receivers:
                receiver.export(pushed)
        if config.otlp_endpoint:
            body = body_of(push, data)
    except ApiError as refusal:
        error, reason = refusal.code, str(refusal)
    except Exception as failure:  # noqa: BLE001 - a receiver is somebody else's code
        error, reason = ErrorCode.INVALID_RECORD, f"{type(failure).__name__}: {failure}"
    return Exported(error, reason, reading, body, (time.thread_time() - began) * 1000)


def _pushed(push: Push, plain: bytes, data: "MetricsData") -> PushedMetrics:
    client, instance = push.client, push.instance
    return PushedMetrics(
        uuid_text(instance.id),
        client.client_id,
        client.principal,
        client.address,
        client.software_name,
        client.software_version,
        push.subscription_id,
        instance.effective.interval_ms,
        push.terminating,
        push.wall_ms,
        plain,
        data,
    )
