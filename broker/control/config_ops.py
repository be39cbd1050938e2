"""Validates and applies one op of IncrementalAlterConfigs, for all resource types. (KIP-339)

APPEND and SUBTRACT start from the effective value, set or default, as in Kafka.
"""

from broker.config.kinds import ConfigType
from broker.config.setting import Setting
from broker.control.commands import ConfigOp, OpType
from broker.control.plan import repeated
from broker.errors import ApiError, ErrorCode


def check_ops(ops: tuple[ConfigOp, ...]) -> None:
    """Raise ApiError INVALID_REQUEST for a duplicate key, a null value or an unknown op."""
    if repeated(op.key for op in ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [op.key for op in ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for op in ops:
        if op.op not in list(OpType):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.op}.")


def check_node_id(name: str, node_id: int) -> None:
    """Check that the name is this broker's id, or empty for all brokers. Raises ApiError INVALID_REQUEST."""
    if name in ("", str(node_id)):
        return
    if not (name.isascii() and name.isdigit()):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
    )


def apply_op(op: ConfigOp, setting: Setting, base: str, wanted: dict[str, str]) -> None:
    """Apply the op to `wanted`; APPEND and SUBTRACT start from `base`. Raises ApiError INVALID_CONFIG if the
    setting is not a list.
    """
    value = op.value or ""
    if op.op == OpType.SET:
        wanted[op.key] = value
        return
    if op.op == OpType.DELETE:
        wanted.pop(op.key, None)
        return
    if setting.kind.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {OpType(op.op).name} to key {op.key} because its type is not LIST.",
        )
    named = [item.strip() for item in value.split(",")]
    items = [item for item in base.split(",") if item and not (op.op == OpType.SUBTRACT and item in named)]
    if op.op == OpType.APPEND:
        items += [item for item in dict.fromkeys(named) if item not in items]
    wanted[op.key] = ",".join(items)
