"""The interface of a custom receiver (`telemetry.receivers`), and its loading. Public as
`weir.TelemetryReceiver` and `weir.PushedMetrics`. (Kafka: ClientTelemetryReceiver)

`broker.server.broker` loads receivers at the start; `broker.monitoring.otlp` calls them for every readable
push. A receiver is a Python class: `package.module:Class`, or the name of an entry point of the group
`weir.telemetry_receivers` of any installed package.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from broker.common.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

GROUP: Final = "weir.telemetry_receivers"
KEY: Final = "telemetry.receivers"


class PushedMetrics(msgspec.Struct, frozen=True):
    """One push. `payload` is the decompressed OTLP, `metrics` the same, parsed; receivers must not change
    either.

    `client_id` is None if the client has none. Times are wall-clock milliseconds.
    """

    client_instance_id: str
    client_id: str | None
    principal: str
    address: str
    software_name: str
    software_version: str
    subscription_id: int
    push_interval_ms: int
    terminating: bool
    time_ms: int
    payload: bytes
    metrics: "MetricsData"


class TelemetryReceiver(Protocol):
    """A receiver, created without arguments at the start."""

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take all keys of the broker's configuration, including unknown ones. An exception stops the
        start.
        """

    def export(self, pushed: PushedMetrics) -> None:
        """Process one push, in a thread; other pushes wait meanwhile.

        An exception refuses the push with INVALID_RECORD, and the client pushes nothing more until it is
        restarted.
        """


def load_receivers(names: Iterable[str], configs: Mapping[str, str]) -> tuple[TelemetryReceiver, ...]:
    """Return the configured receivers in this order. Raises ConfigError."""
    return tuple(_load(name, configs) for name in names)


def _load(name: str, configs: Mapping[str, str]) -> TelemetryReceiver:
    try:
        made = _class_of(name)()
        for method in ("configure", "export"):
            if not callable(getattr(made, method, None)):
                raise TypeError(f"missing method {method}")
        receiver = cast(TelemetryReceiver, made)
        receiver.configure(configs)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(KEY, name, f"an importable receiver class ({reason})") from error
    return receiver


def _class_of(name: str) -> type:
    module, colon, path = name.partition(":")
    if colon:
        found: object = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    else:
        from importlib.metadata import entry_points

        (entry,) = entry_points(group=GROUP, name=name) or [None]
        if entry is None:
            raise LookupError(f"no entry point {name} in the group {GROUP}")
        found = entry.load()
    if not isinstance(found, type):
        raise TypeError("not a class")
    return found
