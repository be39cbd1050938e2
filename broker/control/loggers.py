"""The levels of the broker's own loggers, seen and changed while it runs: the config resource of type 8.
(KIP-412; Kafka: RuntimeLoggerManager, Log4jController)

Called by `configs` and `describe`. Levels are the process's and not the metadata's: the next start begins
with `logging.level` again, as in Kafka. They go by Kafka's names; TRACE is everything.
"""

import logging
from functools import partial
from typing import Final

from broker.control.commands import ConfigAlteration, ConfigOp, OpType
from broker.control.config_ops import check_node_id, check_ops
from broker.control.plan import Effect, Situation
from broker.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

ROOT: Final = "root"
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """Every logger there is, the parts that they lie in too, with the level that holds for it."""
    known = logging.root.manager.loggerDict
    return {ROOT: _level_of(ROOT)} | {name: _level_of(name) for name in sorted(known)}


def plan_levels(alteration: ConfigAlteration, at: Situation) -> list[Effect]:
    """What sets the levels; a deleted level is that of the part of the house around it. Raises ApiError
    INVALID_REQUEST or INVALID_CONFIG, and then none of them is set.
    """
    check_ops(alteration.ops)
    check_node_id(alteration.resource.name or "''", at.node_id)
    return [partial(_set_level, op.key, _level(op), at.actor.name) for op in alteration.ops]


def _level(op: ConfigOp) -> int:
    """The level that the op asks for; NOTSET where it takes one away."""
    if op.op not in (OpType.SET, OpType.DELETE):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{OpType(op.op).name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if op.key != ROOT and op.key not in logging.root.manager.loggerDict:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {op.key} does not exist!")
    if op.op == OpType.DELETE:
        if op.key == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
            )
        return logging.NOTSET
    level = LEVELS.get(op.value or "")
    if level is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {op.key} to {op.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}",
        )
    return level


def _set_level(name: str, level: int, actor: str) -> None:
    _logger(name).setLevel(level)
    logger.warning("log level changed", extra={"of": name, "level": _level_of(name), "by": actor})


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _level_of(name: str) -> str:
    """Kafka's name of the least serious line that this logger lets through; without a level that has a name,
    the next one above.
    """
    known = logging.root.manager.loggerDict.get(name)
    while name != ROOT and not isinstance(known, logging.Logger):
        # A part of the house that has loggers in it and is none itself, yet.
        name = name.rpartition(".")[0] or ROOT
        known = logging.root.manager.loggerDict.get(name)
    effective = _logger(name).getEffectiveLevel()
    return next((word for word, level in LEVELS.items() if effective >= level), "TRACE")
