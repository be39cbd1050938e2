"""The page in pieces equals the page at once."""

from collections.abc import Iterator
from math import inf, nan

from broker.metrics.families import LINES_AT_ONCE, FamilySamples, MetricType, Sample, pieces, render
from tests.support.prometheus import parse


def test_one_sample_is_taken_between_two_pieces() -> None:
    taken = 0

    def samples() -> Iterator[Sample]:
        nonlocal taken
        for number in range(1_000):
            taken += 1
            yield Sample((("n", str(number)),), number)

    before, most = 0, 0
    for _ in pieces([FamilySamples("a", "About", MetricType.GAUGE, samples())]):
        before, most = taken, max(most, taken - before)
    assert taken == 1_000 and most == 1


def test_families_of_one_name_stand_together_with_pauses_between_them() -> None:
    families = [
        FamilySamples("a", "About a", MetricType.GAUGE, [Sample((("n", "1"),), 1)]),
        None,
        FamilySamples("b", "About b", MetricType.COUNTER, [Sample((), 2)]),
        None,
        FamilySamples("a", "About a", MetricType.GAUGE, [Sample((("n", "2"),), 3)]),
    ]
    assert render(families).decode().splitlines() == [
        "# HELP a About a",
        "# TYPE a gauge",
        'a{n="1"} 1',
        'a{n="2"} 3',
        "# HELP b About b",
        "# TYPE b counter",
        "b 2",
    ]
    assert sum(not piece for piece in pieces(families)) > len(families)


def test_a_long_family_is_written_in_parts_and_loses_no_line() -> None:
    count = 3 * LINES_AT_ONCE
    many = [Sample((("n", str(number)),), number) for number in range(count)]
    written = [piece for piece in pieces([FamilySamples("a", "About", MetricType.GAUGE, many)]) if piece]
    assert max(piece.count(b"\n") for piece in written) == LINES_AT_ONCE
    assert len(parse(b"".join(written).decode())["a"].samples) == count


def test_a_client_id_cannot_leave_its_quotes() -> None:
    name = 'a"} 1\nevil 2 \\ \u2028 \ud800'
    family = FamilySamples("m", "two\nlines \\", MetricType.GAUGE, [Sample((("client_id", name),), 1.0)])
    text = render([family]).decode()
    assert text.split("\n") == [
        "# HELP m two\\nlines \\\\",
        "# TYPE m gauge",
        'm{client_id="a\\"} 1\\nevil 2 \\\\ \u2028 \\ud800"} 1.0',
        "",
    ]


def test_numbers_that_are_not_finite_have_names() -> None:
    samples = [Sample((), value) for value in (nan, inf, -inf, 3)]
    assert render([FamilySamples("m", "M", MetricType.GAUGE, samples)]).decode().splitlines()[2:] == [
        "m NaN",
        "m +Inf",
        "m -Inf",
        "m 3",
    ]
