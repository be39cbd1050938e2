"""Client telemetry (KIP-714). For broker.telemetry; the metadata contains the subscriptions."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from broker.config.kinds import BOOLEAN, ConfigKind, ConfigType, integer, list_of
from broker.config.setting import Setting


def _read_url(text: str) -> str:
    url = urlsplit(text)
    if text and (url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment):
        raise ValueError("not a URL")
    if text and url.port == 0:
        raise ValueError("not a port")
    return text


_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
"""A header's name. (RFC 9110, 5.6.2)"""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers that the sender computes."""


def _read_headers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in text.split(",") if text else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not _TOKEN.match(name) or name.lower() in _FRAMING:
            raise ValueError("not a header's name")
        if not value.isprintable() or any(ord(character) > 255 for character in value):
            raise ValueError("not a header's value")
        pairs.append((name, value))
    return tuple(pairs)


def _write_headers(pairs: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{name}={value}" for name, value in pairs)


_URL = ConfigKind(ConfigType.STRING, "an http or https URL, or empty", _read_url)
_HEADERS = ConfigKind(
    ConfigType.PASSWORD,
    "a list of name=value: a name has ASCII letters, digits and !#$%&'*+-.^_`|~, and is neither "
    "Content-Length nor Transfer-Encoding; a value has printable characters of ISO 8859-1",
    _read_headers,
    _write_headers,
)


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    enabled: bool = Setting("telemetry.enabled", True, BOOLEAN, ours=True).described(
        "Whether the broker offers GetTelemetrySubscriptions and PushTelemetry. Without a subscription, "
        "clients ask once in five minutes and push nothing."
    )
    max_bytes: int = Setting("telemetry.max.bytes", 1_048_576, integer(1), "bytes").described(
        "Maximum size of a push as sent, usually compressed."
    )
    max_inflated_bytes: int = Setting(
        "telemetry.max.inflated.bytes", 2_097_152, integer(1), "bytes", ours=True
    ).described("Maximum size of a push after decompression.")
    max_instances: int = Setting("telemetry.max.client.instances", 16_384, integer(1), ours=True).described(
        "Maximum number of client instances in the cache; the least recently active are evicted. Kafka's "
        "limit is the same, but fixed."
    )
    max_series: int = Setting("telemetry.prometheus.max.series", 5_000, integer(0), ours=True).described(
        "Maximum number of client metrics kept for /metrics and the console, at most a tenth of them for "
        "one client; 0 keeps none."
    )
    receivers: tuple[str, ...] = Setting(
        "telemetry.receivers", (), list_of(str, "a list of package.module:Class and entry points"), ours=True
    ).described(
        "Custom receivers of pushed metrics ([telemetry.md](telemetry.md)): Python classes, or names of "
        "entry points of the group `weir.telemetry_receivers`."
    )
    otlp_endpoint: str = Setting("telemetry.otlp.endpoint", "", _URL, ours=True).described(
        "An OpenTelemetry collector that receives pushed metrics over OTLP/HTTP, such as "
        "`http://127.0.0.1:4318`; empty: none."
    )
    otlp_headers: tuple[tuple[str, str], ...] = Setting(
        "telemetry.otlp.headers", (), _HEADERS, ours=True
    ).described(
        "Headers of the requests to the collector, such as an API key: `name=value`, separated by commas."
    )
    otlp_timeout_ms: int = Setting(
        "telemetry.otlp.timeout.ms", 10_000, integer(1), "ms", ours=True
    ).described("Timeout of a request to the collector.")
    otlp_queue_bytes: int = Setting(
        "telemetry.otlp.queue.bytes", 8_388_608, integer(0), "bytes", ours=True
    ).described(
        "Maximum bytes of pushes that wait for the collector, decompressed; further ones are dropped and "
        "counted."
    )
