"""The command equivalent to an edit: kafka-configs.sh, and `weir quotas` for shadow mode.

The console shows it beside every edit, so that a change can be scripted, reviewed or repeated on another
cluster. This module only builds text and runs nothing.
"""

import shlex
from collections.abc import Iterable
from typing import Final

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp

TOOL_TYPES: Final = {"user": "users", "client-id": "clients", "ip": "ips"}


def kafka_configs(bootstrap: str, entity: EntityPairs, ops: Iterable[QuotaOp]) -> str:
    """Return one line for a POSIX shell, quoted where necessary; empty if there are no operations."""
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


def shell_command(bootstrap: str, edit: QuotaAlteration) -> str:
    """Return the command for all of `edit`: limits with Kafka's tool, shadow mode with Weir's."""
    commands = [kafka_configs(bootstrap, edit.entity, edit.ops)]
    if edit.shadow is not None:
        words = ["weir", "quotas", "set"]
        for kind, name in edit.entity:
            words += [f"--{kind}-default"] if name is None else [f"--{kind}", name]
        commands.append(shlex.join([*words, "--shadow" if edit.shadow else "--enforce"]))
    return " && ".join(command for command in commands if command)


def plain(value: float) -> str:
    """Format without exponent and without a zero fraction: the tool accepts 1048576, not 1e6."""
    return str(int(value)) if value == int(value) else f"{value:.12f}".rstrip("0")
