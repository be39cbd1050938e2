"""Who this broker is, and how it speaks and stops. For broker.server."""

from dataclasses import dataclass

from broker.config.kinds import integer, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class NodeConfig:
    node_id: int = setting(
        "node.id",
        1,
        integer(0),
        "This broker's id, as clients see it in Metadata and name it in a broker resource.",
        also=(("broker.id", 1),),
        kafka_default="none",
        why="One broker needs no numbering by hand.",
    )
    drain_timeout_ms: int = setting(
        "shutdown.drain.timeout.ms",
        3_000,
        integer(0),
        "How long a stopping broker waits for requests in hand before it closes their connections.",
        unit="ms",
        ours=True,
    )
    logging_level: str = setting(
        "logging.level",
        "info",
        one_of("debug", "info", "warning", "error"),
        "The least severe log lines that are written.",
        ours=True,
    )
    logging_format: str = setting(
        "logging.format",
        "text",
        one_of("text", "json"),
        "Log lines for people, or one JSON object a line.",
        ours=True,
    )
