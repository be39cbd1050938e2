"""The broker's id, logging and shutdown. For broker.server."""

from dataclasses import dataclass

from broker.config.kinds import integer, one_of
from broker.config.setting import setting


@dataclass(frozen=True, slots=True)
class NodeConfig:
    node_id: int = setting(
        "node.id",
        1,
        integer(0),
        "This broker's id, as Metadata reports it and as broker resources name it.",
        also=(("broker.id", 1),),
        kafka_default="none",
        why="With one broker, no manual numbering is necessary.",
    )
    drain_timeout_ms: int = setting(
        "shutdown.drain.timeout.ms",
        3_000,
        integer(0),
        "How long a stopping broker waits for requests in progress before it closes their connections.",
        unit="ms",
        ours=True,
    )
    logging_level: str = setting(
        "logging.level",
        "info",
        one_of("debug", "info", "warning", "error"),
        "The lowest level of log lines that is written.",
        ours=True,
    )
    logging_format: str = setting(
        "logging.format",
        "text",
        one_of("text", "json"),
        "Log lines as text, or one JSON object per line.",
        ours=True,
    )
