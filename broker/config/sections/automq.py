"""AutoMQ's way of moving requests, and its limits. For broker.network.automq."""

from dataclasses import dataclass

from broker.config.kinds import integer, one_of
from broker.config.setting import setting
from broker.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AutomqConfig:
    server_mode: str = setting(
        "socket.server.mode",
        "kafka",
        one_of("kafka", "automq"),
        "How requests move. `kafka`: one queue for all handlers, one request of a connection at a time. "
        "`automq`: a queue per handler, chosen by the connection; several requests of a connection at once; "
        "their answers leave in the order of the requests. See docs/concurrency.md.",
        ours=True,
    )
    queued_requests_size: int = setting(
        "queued.max.requests.size.bytes",
        104_857_600,
        integer(1),
        "Bytes of requests that may wait for a handler in mode `automq`; when they are that many, no more "
        "are read. A larger request waits until it can have all of them. AutoMQ's key.",
        unit="bytes",
        ours=True,
    )
    pipeline_high: int = setting(
        "pipeline.high.watermark",
        64,
        integer(1),
        "Requests of one connection that may be in hand in mode `automq`; with so many it is not read.",
        unit="requests",
        ours=True,
    )
    pipeline_low: int = setting(
        "pipeline.low.watermark",
        8,
        integer(1),
        "A connection that reached `pipeline.high.watermark` is read again when fewer than this many of its "
        "requests are in hand.",
        unit="requests",
        ours=True,
    )

    def check(self) -> None:
        """The rule between keys. Raises ConfigError."""
        if self.pipeline_low > self.pipeline_high:
            raise ConfigError(
                "pipeline.low.watermark",
                self.pipeline_low,
                f"at most pipeline.high.watermark ({self.pipeline_high})",
            )
