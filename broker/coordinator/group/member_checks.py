"""The checks of members that consumer groups and share groups have in common."""

from typing import Final

from broker.common.errors import ApiError, ErrorCode
from broker.config.sections.groups import GroupConfig

MAX_TOPICS: Final = 10_000
"""Names that one member subscribes to; our own limit."""


def check_bytes(config: GroupConfig, others: int, before: int, after: int) -> None:
    """Apply `group.max.bytes` to a member that grows from `before` to `after` bytes. `others` are the bytes
    of the other members. Raises ApiError.
    """
    most = config.max_group_bytes
    if after > before and others + after > most:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The members of the group have more than {most} bytes."
        )


def refuse_empty(text: str | None, message: str) -> None:
    """Raise ApiError INVALID_REQUEST if a field is there, but blank."""
    if text is not None and not text.strip():
        raise invalid(message)


def invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
