"""Validates topic names. (Kafka: Topic.validate, with its messages)

Every planner with a topic name uses it. A valid name is safe as part of a path.
"""

import re
from typing import Final

from broker.errors import ApiError, ErrorCode

LONGEST: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def validate_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION for an invalid name."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > LONGEST:
        problem = f"the length of '{name[:LONGEST]}...' is longer than the max allowed length {LONGEST}"
    elif not _LEGAL.match(name):
        problem = f"{name!a} contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Return equal keys for names that collide in metrics, which write both '.' and '_' as '_'."""
    return name.replace(".", "_")
