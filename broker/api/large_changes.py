"""What the requests that change many things at once share: they are read in slices, up to a bound.

Called by the handlers of CreateTopics, DeleteTopics, CreatePartitions, the AlterConfigs and the alterations
of quotas and credentials. (Kafka: QuorumController, MAX_RECORDS_PER_USER_OP)
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

MOST_ELEMENTS: Final = 10_000
"""Entries of a request and their parts together, as many as Kafka writes records for one request."""

MOST_PARTS: Final = 1_000
"""Parts of one entry, such as the settings of a topic; ours. There are fewer settings than this."""

TOO_MANY: Final = "Unable to perform excessively large batch operation."


def entries_of(
    entries: Collection[Entry],
    read: Callable[[Entry], Part],
    pace: Pace,
    parts: Callable[[Entry], int] = lambda _entry: 0,
) -> Slices[list[Part] | None]:
    """What `read` makes of every entry; None where they are too many for one change, and `refused` is the
    answer.
    """
    if len(entries) > MOST_ELEMENTS:
        return None
    made: list[Part] = []
    total = 0
    for entry in entries:
        count = parts(entry)
        total += 1 + count
        if total > MOST_ELEMENTS or count > MOST_PARTS:
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
    """The answer that repeats every entry with POLICY_VIOLATION."""
    results = yield from mapped(
        lambda entry: result(entry, ErrorCode.POLICY_VIOLATION, TOO_MANY), entries, Pace()
    )
    return Answered(reply(results))
