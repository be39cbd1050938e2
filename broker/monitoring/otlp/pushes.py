"""The task that passes pushes to their receivers, one after the other in a thread, and sends the responses.
(Kafka: ClientTelemetryExporterPlugin)

No handler waits for it, so a push costs producing and consuming clients only its processor time. That is
bounded: after a push that took long to read, valid or not, the task pauses for the same time.

Before a push is read, it is written as received to the topic `__weir_client_telemetry`, so the topic has
unreadable ones too. The record waits in the bounded `EventLog` and is written with the broker's events; the
format is public: docs/telemetry.md.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import trio

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.outcome import Outcome, Response
from broker.api.requests.pacing import consumed
from broker.common.errors import ApiError, ErrorCode
from broker.config.sections import TelemetryConfig
from broker.metadata.image import OUR_TOPICS
from broker.network.clock import TrioClock
from broker.partitions.event_log import EventOrigin
from broker.protocol.messages.telemetry import PushTelemetryResponse
from broker.records.build import NewRecord
from broker.records.compression import Codec
from broker.telemetry.instance import uuid_text
from broker.telemetry.latest import PushedPoints
from broker.telemetry.receiver import PushedMetrics, TelemetryReceiver
from broker.telemetry.state import Push, Telemetry

logger = logging.getLogger(__name__)

TASK: Final = "client-telemetry-receivers"

TOPIC: Final = f"{OUR_TOPICS}client_telemetry"

FORMAT_VERSION: Final = 1
"""The version of the format, in the header `v`. New headers do not change the version."""

PAUSES_FROM_MS: Final = 10
"""Processor time from which the task pauses. A usual push takes less than one millisecond."""

LOG_INTERVAL_MS: Final = 60_000

PAUSE_SECONDS: Final = 0.0005
"""Pause of the thread that reads a push, after half a millisecond of work or so."""

POINTS_PER_CHECKPOINT: Final = 64
"""Points that are kept between two looks at the network; ours. With 32 attributes each that takes 0.3 ms."""


class ExportResult(NamedTuple):
    """The result of a push: `error` NONE, or the reason of the refusal.

    `body` is for the collector, if there is one. `cpu_ms` is the thread's processor time.
    """

    error: ErrorCode
    reason: str
    reading: PushedPoints
    body: bytes | None
    cpu_ms: float


class RecordBuffer(Protocol):
    """Writes records to topics later. `partitions.event_log.EventLog` implements it."""

    def offer(self, topic: str, record: NewRecord) -> bool: ...


class PushReader:
    """Reads pushes and passes them to the `receivers`. `events` writes every push to its topic, refused or
    not. `deliver` makes the handlers take the responses that were posted to `callbacks`.
    """

    def __init__(
        self,
        origin: EventOrigin,
        telemetry: Telemetry,
        callbacks: Callbacks,
        deliver: Callable[[], None],
        events: RecordBuffer,
        receivers: Sequence[TelemetryReceiver],
        clock: TrioClock,
    ) -> None:
        self._origin = origin
        self._telemetry = telemetry
        self._callbacks = callbacks
        self._deliver = deliver
        self._events = events
        self._receivers = receivers
        self._clock = clock
        self._filled = trio.Event()
        self._logged_ms: int | None = None
        telemetry.push_queue.on_addition(self._wake)

    def _wake(self) -> None:
        self._filled.set()

    async def run(self) -> None:
        """Run until cancelled; waiting pushes then get no response, and a receiver that never returns is
        abandoned.
        """
        queue = self._telemetry.push_queue
        while True:
            if not queue.waiting:
                self._filled = trio.Event()
                await self._filled.wait()
            push = queue.take()
            try:
                cpu_ms = await self._process(push)
            except Exception as error:  # noqa: BLE001 - reported, and answered as an error
                self._fail(push, error)
                continue
            if cpu_ms > PAUSES_FROM_MS:
                await trio.sleep(cpu_ms / 1000)

    async def _process(self, push: Push) -> float:
        """Process one push and send its response; return its processor time."""
        telemetry, clock = self._telemetry, self._clock
        self._events.offer(TOPIC, record_of(push, self._origin))
        began = clock.ns()
        work = partial(export, push, telemetry.config, self._receivers)
        result = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        took_ms = (clock.ns() - began) / 1e6
        if result.error is ErrorCode.NONE:
            left_out, points = result.reading.left_out, result.reading.points
            for some in consumed(points, POINTS_PER_CHECKPOINT):
                if not push.instance.gone:
                    telemetry.latest.take(push.instance.id, PushedPoints(some, left_out), push.wall_ms)
                left_out = 0
                await trio.lowlevel.checkpoint()
            if result.body is not None:
                telemetry.export_queue.offer(result.body)
            size = len(push.payload)
            telemetry.manager.exported(push.instance, size, took_ms, clock.ms(), push.wall_ms)
        else:
            self._log_refusal(push, result.reason)
            telemetry.manager.failed(push.instance, result.error, clock.ms())
        response = Response(PushTelemetryResponse(error_code=result.error))
        self._callbacks.post(push.token, lambda: response)
        self._deliver()
        return result.cpu_ms

    def _fail(self, push: Push, error: Exception) -> None:
        """Raise the error where the handlers make the response, as an error of this request."""

        def raise_error() -> Outcome:
            raise error

        self._callbacks.post(push.token, raise_error)
        self._deliver()

    def _log_refusal(self, push: Push, reason: str) -> None:
        """Log at most once a minute, since any client can send invalid data. Metrics count all refusals."""
        now_ms = self._clock.ms()
        if self._logged_ms is None or now_ms - self._logged_ms >= LOG_INTERVAL_MS:
            self._logged_ms = now_ms
            about = {"client_id": push.client.client_id, "reason": reason}
            logger.warning("refused a push of client metrics (logged at most once a minute)", extra=about)


def pause() -> None:
    """Yield the interpreter to the broker's thread. Called in the reading thread."""
    time.sleep(PAUSE_SECONDS)


def export(push: Push, config: TelemetryConfig, receivers: Sequence[TelemetryReceiver]) -> ExportResult:
    """Read a push and call the receivers; runs in a thread."""
    began = time.thread_time()
    error, reason, reading, body = ErrorCode.NONE, "", PushedPoints([], 0), None
    try:
        from broker.telemetry import otlp

        plain = otlp.unpack(push.codec, push.payload, config.max_inflated_bytes)
        data = otlp.parse(plain, pause)
        reading = otlp.read(data, pause)
        if receivers:
            client, instance = push.client, push.instance
            pushed = PushedMetrics(
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
            for receiver in receivers:
                receiver.export(pushed)
        if config.otlp_endpoint:
            body = otlp.for_collector(push, data)
    except ApiError as refusal:
        error, reason = refusal.code, str(refusal)
    except Exception as failure:  # noqa: BLE001 - receivers are third-party code
        error, reason = ErrorCode.INVALID_RECORD, f"{type(failure).__name__}: {failure}"
    return ExportResult(error, reason, reading, body, (time.thread_time() - began) * 1000)


def record_of(push: Push, origin: EventOrigin) -> NewRecord:
    """Return the record of a push: the payload unchanged as value, headers as text, null if not given."""
    client, instance_id = push.client, uuid_text(push.instance.id)
    headers = {
        "v": str(FORMAT_VERSION),
        "client_instance_id": instance_id,
        "client_id": client.client_id,
        "principal": client.principal,
        "address": client.address,
        "software_name": client.software_name,
        "software_version": client.software_version,
        "compression": Codec(push.codec).name.lower(),
        "subscription_id": str(push.subscription_id),
        "terminating": str(push.terminating).lower(),
    }
    return NewRecord(
        instance_id.encode(),
        push.payload,
        push.wall_ms,
        (
            *origin.headers(),
            *((name, None if text is None else text.encode()) for name, text in headers.items()),
        ),
    )
