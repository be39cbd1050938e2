"""What clients may push of their own metrics (KIP-714). For broker.telemetry; what is asked of them is
metadata.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from broker.config.kinds import BOOLEAN, ConfigType, Kind, integer, list_of
from broker.config.setting import setting


def _read_url(text: str) -> str:
    url = urlsplit(text)
    if text and (url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment):
        raise ValueError("not a URL")
    if text and url.port == 0:
        raise ValueError("not a port")
    return text


def _read_headers(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in text.split(",") if text else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and name.isascii() and name.isprintable() and value.isprintable()):
            raise ValueError("not headers")
        pairs.append((name, value))
    return tuple(pairs)


def _write_headers(pairs: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f"{name}={value}" for name, value in pairs)


_URL = Kind(ConfigType.STRING, "an http or https URL, or nothing", _read_url)
_HEADERS = Kind(ConfigType.PASSWORD, "a list of name=value", _read_headers, _write_headers)


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    enabled: bool = setting(
        "telemetry.enabled",
        True,
        BOOLEAN,
        "Whether clients are offered GetTelemetrySubscriptions and PushTelemetry at all. Without a "
        "subscription they ask once in five minutes and push nothing.",
        ours=True,
    )
    max_bytes: int = setting(
        "telemetry.max.bytes",
        1_048_576,
        integer(1),
        "The most that a client may push at once, as it is sent, which is compressed as a rule.",
        unit="bytes",
    )
    max_inflated_bytes: int = setting(
        "telemetry.max.inflated.bytes",
        2_097_152,
        integer(1),
        "The most that a push may unpack to.",
        unit="bytes",
        ours=True,
    )
    max_instances: int = setting(
        "telemetry.max.client.instances",
        16_384,
        integer(1),
        "Client instances that are remembered; of more, those that were heard of least lately are forgotten. "
        "Kafka remembers as many, and that cannot be changed there.",
        ours=True,
    )
    max_series: int = setting(
        "telemetry.prometheus.max.series",
        5_000,
        integer(0),
        "Figures of clients that are remembered for /metrics and the console, a tenth of them of one client; "
        "0 remembers none.",
        ours=True,
    )
    receivers: tuple[str, ...] = setting(
        "telemetry.receivers",
        (),
        list_of(str, "a list of package.module:Class and entry points"),
        "Receivers of one's own for pushed metrics ([telemetry.md](telemetry.md)): Python classes, or the "
        "names of entry points of the group `weir.telemetry_receivers`.",
        ours=True,
    )
    otlp_endpoint: str = setting(
        "telemetry.otlp.endpoint",
        "",
        _URL,
        "An OpenTelemetry collector to which pushed metrics are passed on over OTLP/HTTP, such as "
        "`http://127.0.0.1:4318`; nothing: none.",
        ours=True,
    )
    otlp_headers: tuple[tuple[str, str], ...] = setting(
        "telemetry.otlp.headers",
        (),
        _HEADERS,
        "Headers of the requests to it, such as an API key: `name=value`, separated by commas.",
        ours=True,
    )
    otlp_timeout_ms: int = setting(
        "telemetry.otlp.timeout.ms",
        10_000,
        integer(1),
        "How long one of them may take.",
        unit="ms",
        ours=True,
    )
    otlp_queue_bytes: int = setting(
        "telemetry.otlp.queue.bytes",
        8_388_608,
        integer(0),
        "Pushes that may wait for it, unpacked; what finds no room is dropped and counted.",
        unit="bytes",
        ours=True,
    )
