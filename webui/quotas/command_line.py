"""The kafka-configs.sh command that does the same as an edit.

Shown beside every edit, so that a change can be scripted, reviewed or repeated on another cluster. Only
builds text; nothing is ever run.
"""

import shlex
from collections.abc import Iterable
from typing import Final

from broker.control.commands import EntityPairs, QuotaOp

TOOL_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}


def kafka_configs(bootstrap: str, entity: EntityPairs, ops: Iterable[QuotaOp]) -> str:
    """One line for a POSIX shell, quoted where it must be; empty where there is nothing to do."""
    set_ops = [(op.key, op.value) for op in ops if op.value is not None]
    removed = [op.key for op in ops if op.value is None]
    if not set_ops and not removed:
        return ""
    words = ["kafka-configs.sh", "--bootstrap-server", bootstrap, "--alter"]
    if set_ops:
        words += ["--add-config", ",".join(f"{key}={plain(value)}" for key, value in set_ops)]
    if removed:
        words += ["--delete-config", ",".join(removed)]
    for kind, name in entity:
        words += ["--entity-type", TOOL_TYPES[kind]]
        words += ["--entity-default"] if name is None else ["--entity-name", name]
    return shlex.join(words)


def plain(value: float) -> str:
    """Without an exponent, and without a fraction where there is none: the tool reads 1048576, not 1e6."""
    return str(int(value)) if value == int(value) else f"{value:.12f}".rstrip("0")
