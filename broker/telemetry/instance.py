"""A client instance: its subscription, and the times at which it may get it and push. (Kafka:
ClientMetricsInstance)

Made and kept by `manager`. No clock: every call takes `now_ms`.
"""

import base64
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.errors import ErrorCode
from broker.metrics.rate import Avg, Max, Meter, Window
from broker.telemetry.subscription import Effective

WINDOW: Final = Window()
"""The defaults of Kafka's `metrics.num.samples` and `metrics.sample.window.ms`."""

GET_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors that a new Get resolves, so that the client need not wait before it."""


def uuid_text(uuid: bytes) -> str:
    """Return 16 bytes as Kafka writes them: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """Return the bytes of `uuid_text`. Raises ValueError."""
    uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise ValueError(f"invalid client instance id {text!r}: expected 22 characters of URL-safe base64")
    return uuid


class TelemetryClient(msgspec.Struct, frozen=True):
    """The requesting client, as its connection describes it. `client_id` is None if not given."""

    connection_id: str
    client_id: str | None
    software_name: str
    software_version: str
    address: str
    port: int
    principal: str

    def facts(self, instance_id: bytes) -> Mapping[str, str | None]:
        """Return the values that a subscription can match, by match key."""
        return {
            "client_instance_id": uuid_text(instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }


class ExportTimes:
    """Mean and maximum milliseconds of the receivers over recent exports."""

    def __init__(self) -> None:
        self.avg, self.max = Avg(WINDOW), Max(WINDOW)

    def record(self, took_ms: float, now_ms: int) -> None:
        self.avg.record(took_ms, now_ms)
        self.max.record(took_ms, now_ms)


class ClientInstance(msgspec.Struct, eq=False):
    """A client instance in the manager's cache.

    `effective` is the sum of the `matched` subscriptions, computed at `version` of all subscriptions. `gone`
    says that the manager has removed it; `deadline_ms` is when it expires unless it is active, and
    `checked_at_ms` when the manager checks. Most clients need no meter.
    """

    id: bytes
    client: TelemetryClient
    effective: Effective
    matched: tuple[str, ...]
    version: int
    matched_version: int = 0
    subscription_id: int = 0
    last_get_ms: int | None = None
    has_got_since_push: bool = False
    last_push_ms: int | None = None
    terminating: bool = False
    gone: bool = False
    deadline_ms: int = 0
    checked_at_ms: int = 0
    last_error: ErrorCode = ErrorCode.NONE
    last_push_wall_ms: int | None = None
    pushed_bytes: int = 0
    throttles: Meter | None = None
    exports: Meter | None = None
    errors: Meter | None = None
    export_times: ExportTimes | None = None

    def __post_init__(self) -> None:
        self.renew(self.effective, self.matched, self.version)

    def renew(self, effective: Effective, matched: tuple[str, ...], version: int) -> None:
        """Set the subscription of this version of all subscriptions, which is the sum of `matched`."""
        self.effective = effective
        self.subscription_id = effective.subscription_id(self.id)
        self.matched = matched
        self.version = self.matched_version = version

    def open_gates(self) -> None:
        """Allow a Get and a push at once, as for a new instance."""
        self.last_get_ms = self.last_push_ms = None

    def may_get(self, now_ms: int) -> bool:
        """Return whether a Get is allowed now; if so, record it."""
        last_ms = max((at for at in (self.last_get_ms, self.last_push_ms) if at is not None), default=None)
        may = (
            last_ms is None
            or now_ms - last_ms >= self.effective.interval_ms
            or self.last_error in GET_AT_ONCE
        )
        if may:
            self.last_get_ms = now_ms
            self.has_got_since_push = True
        return may

    def may_push(self, now_ms: int) -> bool:
        """Return whether a push is allowed now; if so, record it.

        Allowed an interval after the last push, or as the first one after a Get, since clients spread their
        pushes over 0.5 to 1.5 intervals.
        """
        may = (
            self.last_push_ms is None
            or self.has_got_since_push
            or now_ms - self.last_push_ms >= self.effective.interval_ms
        )
        if may:
            self.last_push_ms = now_ms
            self.has_got_since_push = False
        return may

    def count_throttle(self, now_ms: int) -> None:
        self.throttles = self.throttles or Meter(WINDOW)
        self.throttles.record(1, now_ms)

    def count_export(self, took_ms: float, now_ms: int) -> None:
        self.exports = self.exports or Meter(WINDOW)
        self.exports.record(1, now_ms)
        self.export_times = self.export_times or ExportTimes()
        self.export_times.record(took_ms, now_ms)

    def count_error(self, now_ms: int) -> None:
        self.errors = self.errors or Meter(WINDOW)
        self.errors.record(1, now_ms)
