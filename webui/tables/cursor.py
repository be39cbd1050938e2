"""Opaque cursors: the place at which the next page of a list begins, bound to the list and its filters.

Used by webui.rest.paging, and by webui.insights.worker in its own process. A cursor is not a secret, and not
a permission: a forged one selects another page of a list that its user may read anyway.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

MAX_CURSOR: Final = 8_192
"""Characters. The address and the headers of a request have at most 16 KiB together."""

_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]+")
_DIGEST_LENGTH: Final = 12


class BadCursor(ValueError):  # noqa: N818 - describes the input
    """A cursor that no page of this list has returned. The message is for the client."""


def query_digest(name: str, parameters: Mapping[str, Any]) -> str:
    """Return what binds a cursor to the list `name` and to its filters and order."""
    written = json.dumps([name, sorted(parameters.items())]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(written).hexdigest()[:_DIGEST_LENGTH]


def write_cursor(digest: str, place: Any) -> str:
    """`place` is JSON; tuples become lists."""
    written = json.dumps([digest, place], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read_cursor(cursor: str, digest: str) -> Any:
    """Return the place, as JSON. Raises BadCursor."""
    if not _ALPHABET.fullmatch(cursor):
        raise BadCursor("must be the `next` of the previous page")
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        bound_to, place = json.loads(base64.urlsafe_b64decode(padded).decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, RecursionError):
        raise BadCursor("must be the `next` of the previous page") from None
    if bound_to != digest:
        raise BadCursor(
            "belongs to another list or to other parameters: repeat those of the previous page, or omit the "
            "cursor to start again"
        )
    return place
