"""Requests written to the log once they are answered, where somebody has asked for them. (Kafka: the logger
kafka.request.logger, RequestChannel.updateRequestMetrics)

Asked for by API or by client id, while the broker runs. Off, it costs nothing: a route that is logged has
`LoggedMetrics` in the place of its metrics, and answers nothing by heart. A line says who asked for what, how
long each phase took and which errors were answered; it never has what was sent: no records, no tokens.
"""

import logging
from collections.abc import Sequence
from typing import ClassVar, Final

from broker.config.rooms import RequestLogConfig
from broker.errors import ConfigError, ErrorCode
from broker.network.clock import TrioClock
from broker.network.handling.request import Request
from broker.network.measuring.request_metrics import WHOLE, RequestMetrics
from broker.protocol.api_key import NAMES

logger = logging.getLogger("kafka.request.logger")

EVERY: Final = "*"
LOGGABLE: Final = frozenset({EVERY, *NAMES.values(), *WHOLE})
SECOND_NS: Final = 1_000_000_000


class RequestLog:
    """`written` and `left_out` count requests that were asked for, since the start."""

    def __init__(self, clock: TrioClock) -> None:
        self.written = 0
        self.left_out = 0
        self._config = RequestLogConfig()
        self._clock = clock
        self._second = 0
        self._in_second = 0
        self._untold = 0

    @staticmethod
    def check(config: RequestLogConfig) -> None:
        """Raises ConfigError for an API that there is not."""
        for name in config.apis:
            if name not in LOGGABLE:
                raise ConfigError("request.log.apis", name, "names of APIs as in the metrics, or *")

    def configure(self, config: RequestLogConfig) -> None:
        """Holds for the routes that are made or recounted from now on."""
        self._config = config

    def metrics(self, name: str, version: int) -> RequestMetrics:
        """What one API in one version is recorded with."""
        config = self._config
        if config.client_ids or EVERY in config.apis or name in config.apis or WHOLE.get(name) in config.apis:
            return LoggedMetrics(name, version, self)
        return RequestMetrics(name, version)

    def wants(self, name: str, client_id: str | None) -> bool:
        config = self._config
        return (
            name in config.apis
            or EVERY in config.apis
            or WHOLE.get(name) in config.apis
            or client_id in config.client_ids
            or EVERY in config.client_ids
        )

    def write(self, facts: dict[str, object]) -> None:
        """One line, if the second has room for it."""
        second = self._clock.ns() // SECOND_NS
        if second != self._second:
            self._second, self._in_second = second, 0
        if self._in_second >= self._config.max_per_second:
            self.left_out += 1
            self._untold += 1
            return
        self._in_second += 1
        self.written += 1
        if self._untold:
            facts["left_out"], self._untold = self._untold, 0
        logger.info("request", extra=facts)


class LoggedMetrics(RequestMetrics):
    """Records as its base does, and tells the log."""

    is_logged: ClassVar[bool] = True

    __slots__ = ("_log",)

    def __init__(self, name: str, version: int, log: RequestLog) -> None:
        super().__init__(name, version)
        self._log = log
        count = self.record

        def record(request: Request, taken: int, size: int) -> None:
            count(request, taken, size)
            self._tell(request, taken, taken, size)

        self.record = record

    def record_slow(self, request: Request, taken: int, sent: int, size: int) -> None:
        super().record_slow(request, taken, sent, size)
        self._tell(request, taken, sent, size)

    def count_errors(self, request: Request, codes: Sequence[int]) -> None:
        super().count_errors(request, codes)
        request.errors = tuple(codes)

    def count_throttle(self, request: Request, throttle_ms: int) -> None:
        super().count_throttle(request, throttle_ms)
        request.throttle_ms = throttle_ms

    def _tell(self, request: Request, taken: int, sent: int, size: int) -> None:
        client_id: str | None = getattr(request, "client_id", None)
        if not self._log.wants(self.name, client_id):
            return
        channel = request.channel
        local_complete = request.local_complete or request.completed
        facts: dict[str, object] = {
            "api": self.name,
            "version": request.route.version,
            "correlation_id": request.correlation_id,
            "connection": channel.id,
            "client_id": client_id,
            "principal": channel.principal,
            "listener": channel.listener,
            "request_bytes": request.size,
            "response_bytes": size,
            "queue_ms": _ms(request.dequeued - request.received),
            "local_ms": _ms(local_complete - request.dequeued),
            "remote_ms": _ms(request.completed - local_complete),
            "throttle_ms": getattr(request, "throttle_ms", 0),
            "response_queue_ms": _ms(taken - request.completed),
            "response_send_ms": _ms(sent - taken),
            "total_ms": _ms(sent - request.received),
            "errors": ",".join(ErrorCode(code).name for code in getattr(request, "errors", ())) or "NONE",
        }
        if request.close_reason is not None:
            facts["closed"] = request.close_reason
        self._log.write(facts)


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
