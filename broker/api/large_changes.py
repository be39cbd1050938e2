"""Bounds and slices the requests that change many resources at once.

Called by the handlers of CreateTopics, DeleteTopics, CreatePartitions, the AlterConfigs APIs,
AlterClientQuotas and AlterUserScramCredentials. (Kafka: QuorumController, MAX_RECORDS_PER_USER_OP)
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from broker.api.outcome import Answered, Outcome
from broker.api.pacing import Pace, mapped
from broker.errors import ErrorCode
from broker.protocol.schema import Struct
from broker.records.slices import Slices

Entry = TypeVar("Entry")
Part = TypeVar("Part")

MAX_ELEMENTS: Final = 10_000
"""Entries of a request and their parts together; equals Kafka's limit of records for one request."""

MAX_PARTS: Final = 1_000
"""Parts of one entry, such as the configs of a topic; our own limit, larger than the number of configs."""

TOO_MANY: Final = "Unable to perform excessively large batch operation."


def entries_of(
    entries: Collection[Entry],
    read: Callable[[Entry], Part],
    pace: Pace,
    parts: Callable[[Entry], int] = lambda _entry: 0,
) -> Slices[list[Part] | None]:
    """Return `read` of every entry, or None if the request exceeds the limits.

    The caller then responds with `refused`.
    """
    if len(entries) > MAX_ELEMENTS:
        return None
    made: list[Part] = []
    total = 0
    for entry in entries:
        count = parts(entry)
        total += 1 + count
        if total > MAX_ELEMENTS or count > MAX_PARTS:
            return None
        made.append(read(entry))
        if pace.spent(2 + count):
            yield None
    return made


def refused(
    entries: Iterable[Entry],
    result: Callable[[Entry, ErrorCode, str], Any],
    reply: Callable[[list[Any]], Struct],
) -> Slices[Outcome]:
    """Build the response with POLICY_VIOLATION for every entry."""
    results = yield from mapped(
        lambda entry: result(entry, ErrorCode.POLICY_VIOLATION, TOO_MANY), entries, Pace()
    )
    return Answered(reply(results))
