"""Frees a large response that another one replaces.

Used by handlers that build the response item by item, and learn afterwards that the request fails as a whole.
"""

from collections.abc import Iterable
from typing import Any

from broker.api.requests.outcome import Outcome, Response, Sliced
from broker.common.steps import freed
from broker.protocol.schema import Struct
from broker.records.slices import Slices


def in_place_of(discarded: Struct, lists: Iterable[list[Any]], reply: Struct) -> Outcome:
    """Return `reply` after the `lists` of the discarded response have been freed in slices, in this order."""
    return Sliced(_freed(lists, reply), None, discarded)


def _freed(lists: Iterable[list[Any]], reply: Struct) -> Slices[Outcome]:
    for each in lists:
        yield from freed(each)
    return Response(reply)
