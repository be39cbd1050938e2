"""Logs answered requests on demand. (Kafka: the logger kafka.request.logger,
RequestChannel.updateRequestMetrics)

Enabled by API or by client id at run time. Disabled, it costs nothing: a logged route has metrics with a tap
of this log, and caches no responses. A line has the client, the API, the time of each phase and the error
codes, never the content: no records, no tokens.
"""

import logging
from collections.abc import Mapping
from typing import Final

from broker.common.errors import ConfigError, ErrorCode
from broker.config.sections import RequestLogConfig
from broker.network.clock import TrioClock
from broker.network.requests.request_metrics import WHOLE, MeasuredRequest
from broker.protocol.api_key import NAMES

logger = logging.getLogger("kafka.request.logger")

EVERY: Final = "*"
LOGGABLE: Final = frozenset({EVERY, *NAMES.values(), *WHOLE})
SECOND_NS: Final = 1_000_000_000


class RequestLog:
    """`written` and `left_out` count matching requests since the start."""

    def __init__(self, clock: TrioClock) -> None:
        self.written = 0
        self.left_out = 0
        self._config = RequestLogConfig()
        self._clock = clock
        self._second = 0
        self._in_second = 0
        self._unreported = 0
        self._taps: dict[str, LogTap] = {}

    @staticmethod
    def check(config: RequestLogConfig) -> None:
        """Raise ConfigError for an unknown API."""
        for name in config.apis:
            if name not in LOGGABLE:
                raise ConfigError("request.log.apis", name, "API names as in the metrics, or *")

    def configure(self, config: RequestLogConfig) -> None:
        """Apply the configuration to routes created or recounted from now on."""
        self._config = config

    def tap(self, name: str) -> "LogTap | None":
        """Return the tap that logs the requests of one API, or None if none are logged."""
        if self._config.client_ids or self._has_api(name):
            return self._taps.setdefault(name, LogTap(name, self))
        return None

    def wants(self, name: str, client_id: str | None) -> bool:
        client_ids = self._config.client_ids
        return self._has_api(name) or client_id in client_ids or EVERY in client_ids

    def _has_api(self, name: str) -> bool:
        apis = self._config.apis
        return EVERY in apis or name in apis or WHOLE.get(name) in apis

    def write(self, facts: dict[str, object]) -> None:
        """Write one line, unless this second's maximum is reached."""
        second = self._clock.ns() // SECOND_NS
        if second != self._second:
            self._second, self._in_second = second, 0
        if self._in_second >= self._config.max_per_second:
            self.left_out += 1
            self._unreported += 1
            return
        self._in_second += 1
        self.written += 1
        if self._unreported:
            facts["left_out"], self._unreported = self._unreported, 0
        logger.info("request", extra=facts)


class LogTap:
    """Formats one API's requests as log lines."""

    wants_all = True

    def __init__(self, name: str, log: RequestLog) -> None:
        self._name = name
        self._log = log

    def errors_counted(self, request: MeasuredRequest, counts: Mapping[int, int]) -> None:
        request.errors = tuple(counts)

    def throttled(self, request: MeasuredRequest, throttle_ms: int) -> None:
        request.throttle_ms = throttle_ms

    def response_sent(self, request: MeasuredRequest, taken: int, sent: int, size: int) -> None:
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
