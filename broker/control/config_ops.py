"""What one op of IncrementalAlterConfigs may be, and does to one setting, whatever the resource. (KIP-339)

APPEND and SUBTRACT begin from the value that holds, set or default, as in Kafka.
"""

from broker.config.kinds import ConfigType
from broker.config.setting import Setting
from broker.control.commands import ConfigOp, OpType
from broker.control.replicas import repeated
from broker.errors import ApiError, ErrorCode


def check_ops(ops: tuple[ConfigOp, ...]) -> None:
    """Raises ApiError INVALID_REQUEST: a key twice, no value, an op that nobody knows."""
    if repeated(op.key for op in ops):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [op.key for op in ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for op in ops:
        if op.op not in list(OpType):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.op}.")


def check_node_id(name: str, node_id: int) -> None:
    """That a broker's resource is this broker's, or without a name that of all. Raises ApiError
    INVALID_REQUEST.
    """
    if name in ("", str(node_id)):
        return
    if not (name.isascii() and name.isdigit()):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise ApiError(
        ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
    )


def apply_op(op: ConfigOp, setting: Setting, base: str, wanted: dict[str, str]) -> None:
    """Carries the op out on `wanted`; `base` is what APPEND and SUBTRACT begin from. Raises ApiError
    INVALID_CONFIG where the setting is no list.
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
