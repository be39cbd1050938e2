"""The fields of records of consumer groups and share groups."""

import pytest

from broker.common.slices import SLICE, run_through
from broker.coordinator.group.records import SHORT, string, strings
from broker.records.stored_fields import FlexibleFields, varint


@pytest.mark.parametrize("length", [0, 1, SHORT - 1, SHORT, SHORT + 1, 16_383])
def test_strings_are_each_written_with_its_length(length: int) -> None:
    values = ["a" * length, "\N{EURO SIGN}", "b"]
    written = run_through(strings(values))
    assert written == varint(len(values) + 1) + b"".join(map(string, values))
    reader = FlexibleFields(written)
    assert [reader.string() for _ in range(reader.count())] == values


@pytest.mark.parametrize("count", [0, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE])
def test_many_strings_are_written_in_pieces(count: int) -> None:
    values = list(map(str, range(count)))
    steps, pauses = strings(values), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            written = end.value
            break
        pauses += 1
    assert written == varint(count + 1) + b"".join(map(string, values))
    assert pauses == -(-count // SLICE), "after each piece, of a slice at most"
