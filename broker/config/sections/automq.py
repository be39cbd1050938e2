"""AutoMQ's request pipeline and its limits. For broker.network.automq."""

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
        "How requests move from connections to handlers. `kafka`: one queue for all handlers, one request "
        "of a connection at a time. `automq`: one queue per handler, several requests of a connection at a "
        "time; a connection always uses the same queue, and responses keep the order of the requests. See "
        "docs/concurrency.md.",
        ours=True,
    )
    queued_requests_size: int = setting(
        "queued.max.requests.size.bytes",
        104_857_600,
        integer(1),
        "Bytes of requests that can wait for a handler in mode `automq`; at this limit, reading stops. A "
        "request larger than the limit waits until all of it is free. AutoMQ's key.",
        unit="bytes",
        ours=True,
    )
    pipeline_high: int = setting(
        "pipeline.high.watermark",
        64,
        integer(1),
        "Requests of one connection that can be in progress in mode `automq`; at this limit, the "
        "connection is not read.",
        unit="requests",
        ours=True,
    )
    pipeline_low: int = setting(
        "pipeline.low.watermark",
        8,
        integer(1),
        "A connection that reached `pipeline.high.watermark` is read again when fewer than this many of "
        "its requests are in progress.",
        unit="requests",
        ours=True,
    )

    def check(self) -> None:
        """Check the rule between keys. Raises ConfigError."""
        if self.pipeline_low > self.pipeline_high:
            raise ConfigError(
                "pipeline.low.watermark",
                self.pipeline_low,
                f"at most pipeline.high.watermark ({self.pipeline_high})",
            )
