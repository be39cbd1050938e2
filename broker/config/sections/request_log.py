"""Which requests are written to the log. For broker.network.metrics.request_log; Kafka's
kafka.request.logger.
"""

from dataclasses import dataclass
from typing import Final

from broker.config.kinds import integer, list_of
from broker.config.setting import setting

NAMES: Final = list_of(str, "a list of names; * stands for all of them")


@dataclass(frozen=True, slots=True)
class RequestLogConfig:
    apis: tuple[str, ...] = setting(
        "request.log.apis",
        (),
        NAMES,
        "Every request of these APIs (Produce, FetchConsumer, ...) is logged once it is answered.",
        ours=True,
        dynamic=True,
    )
    client_ids: tuple[str, ...] = setting(
        "request.log.client.ids",
        (),
        NAMES,
        "Every request of these client ids is logged once it is answered.",
        ours=True,
        dynamic=True,
    )
    max_per_second: int = setting(
        "request.log.max.per.second",
        100,
        integer(1, 10_000),
        "No more lines than this are written in a second; the next line says how many were left out.",
        unit="lines",
        ours=True,
        dynamic=True,
    )
