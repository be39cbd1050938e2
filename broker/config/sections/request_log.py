"""Which requests are logged. For broker.network.metrics.request_log; Kafka's kafka.request.logger."""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, list_of
from broker.config.setting import setting

NAMES: Final = list_of(str, "a list of names; * means all")


@dataclass(frozen=True, slots=True)
class RequestLogConfig:
    apis: tuple[str, ...] = setting(
        "request.log.apis",
        (),
        NAMES,
        "Logs every request of these APIs (Produce, FetchConsumer, ...) after its response.",
        ours=True,
        dynamic=True,
    )
    client_ids: tuple[str, ...] = setting(
        "request.log.client.ids",
        (),
        NAMES,
        "Logs every request of these client ids after its response.",
        ours=True,
        dynamic=True,
    )
    max_per_second: int = setting(
        "request.log.max.per.second",
        100,
        integer(1, 10_000),
        "Maximum lines per second; the next line reports how many were dropped.",
        unit="lines",
        ours=True,
        dynamic=True,
    )
