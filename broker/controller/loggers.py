"""Describes and changes the levels of the broker's loggers at run time: config resources of type 8. (KIP-412;
Kafka: RuntimeLoggerManager, Log4jController)

Called by `configs` and `describe`. Levels belong to the process, not to the metadata: the next start uses
`logging.level` again, as in Kafka. Level names are Kafka's; TRACE logs everything.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import ConfigOp, OpType
from broker.controller.plan import Effect

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
    """Return the effective level of every logger, including the packages that contain loggers."""
    known = logging.root.manager.loggerDict
    return {ROOT: _level_of(ROOT)} | {name: _level_of(name) for name in sorted(known)}


def plan_levels(ops: Iterable[ConfigOp], actor: str) -> list[Effect]:
    """Return the effects that set the levels; a deleted level falls back to that of the enclosing package.

    Raises ApiError INVALID_REQUEST or INVALID_CONFIG; then no level changes.
    """
    return [partial(_set_level, op.key, _level(op), actor) for op in ops]


def _level(op: ConfigOp) -> int:
    """Return the level that the op sets; NOTSET if it deletes the level."""
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
    """Return Kafka's name of the lowest level that this logger emits; for a level without a name, the next
    higher.
    """
    known = logging.root.manager.loggerDict.get(name)
    while name != ROOT and not isinstance(known, logging.Logger):
        # A package that contains loggers but has no logger itself yet.
        name = name.rpartition(".")[0] or ROOT
        known = logging.root.manager.loggerDict.get(name)
    effective = _logger(name).getEffectiveLevel()
    return next((word for word, level in LEVELS.items() if effective >= level), "TRACE")
