"""Requests written to the log once they are answered, where somebody has asked for them. (Kafka: the logger
kafka.request.logger, RequestChannel.updateRequestMetrics)

Asked for by API or by client id, while the broker runs. Off, it costs nothing: a route that is logged has
metrics with a tap of this log, and answers nothing by heart. A line says who asked for what, how long each
phase took and which errors were answered; it never has what was sent: no records, no tokens.
"""

import logging
from collections.abc import Mapping
from typing import Final

from broker.config.sections import RequestLogConfig
from broker.errors import ConfigError, ErrorCode
from broker.network.clock import TrioClock
from broker.network.handling.request import Request
from broker.network.metrics.request_metrics import WHOLE
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
        self._taps: dict[str, LogTap] = {}

    @staticmethod
    def check(config: RequestLogConfig) -> None:
        """Raises ConfigError for an API that there is not."""
        for name in config.apis:
            if name not in LOGGABLE:
                raise ConfigError("request.log.apis", name, "names of APIs as in the metrics, or *")

    def configure(self, config: RequestLogConfig) -> None:
        """Holds for the routes that are made or recounted from now on."""
        self._config = config

    def tap(self, name: str) -> "LogTap | None":
        """Who writes the requests of one API to the log; None if nobody has asked for them."""
        config = self._config
        if config.client_ids or EVERY in config.apis or name in config.apis or WHOLE.get(name) in config.apis:
            return self._taps.setdefault(name, LogTap(name, self))
        return None

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


class LogTap:
    """Puts one API's requests into words."""

    wants_all = True

    def __init__(self, name: str, log: RequestLog) -> None:
        self._name = name
        self._log = log

    def erred(self, request: Request, counts: Mapping[int, int]) -> None:
        request.errors = tuple(counts)

    def throttled(self, request: Request, throttle_ms: int) -> None:
        request.throttle_ms = throttle_ms

    def answered(self, request: Request, taken: int, sent: int, size: int) -> None:
        client_id: str | None = getattr(request, "client_id", None)
        if not self._log.wants(self._name, client_id):
            return
        channel = request.channel
        local_complete = request.local_complete or request.completed
        facts: dict[str, object] = {
            "api": self._name,
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
