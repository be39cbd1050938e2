"""Result batches of decoded pushes: their size, and that it does not matter what is read together."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from pipeline.otlp import decode
from pipeline.otlp.decode import BATCH_BYTES, BATCH_ROWS
from tests.pipeline.decoded import decoded
from tests.pipeline.pushes import counter, distribution, gauge, histogram, number, payload


@pytest.mark.parametrize("points", [BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1])
def test_a_batch_has_a_number_of_rows(points):
    sizes = decoded(payload(gauge("g", *[number(0)] * points))).sizes
    assert sizes == [min(points, BATCH_ROWS), *[1] * (points > BATCH_ROWS)]


def test_long_texts_that_a_client_repeats_make_batches_of_fewer_rows():
    name, resource = "n" * 4_000, "r" * 8_000
    found = decoded(payload(gauge(name, *[number(0)] * 3_000), r=resource))
    assert sum(found.sizes) == 3_000 and len(found.points) == 3_000
    assert max(found.sizes) * (len(name) + len(resource)) <= BATCH_BYTES < 3_000 * 12_000
    assert {row["MetricName"] for row in found.points} == {name}


@pytest.mark.parametrize("size", [1, 200, 2**21])
def test_it_does_not_matter_which_pushes_are_read_together(monkeypatch, size):
    pushes = [
        payload(
            gauge(f"g{each % 3}", number(0, each, node=each % 2), number(0, float("nan"))),
            counter("c", number(1, each)),
            histogram("h", distribution(0, [1, each], [5.0])),
            rack=f"r{each % 4}",
        )
        for each in range(20)
    ]
    pushes[7:7] = [b"?", b""]
    expected = decoded(*pushes)
    monkeypatch.setattr(decode, "BYTES_AT_ONCE", size)
    found = decoded(*pushes)

    def in_order(rows):
        return sorted(rows, key=lambda row: (row["offset"], row["point"]))

    assert in_order(found.points) == in_order(expected.points)
    assert found.refusals == expected.refusals
    assert len(found.points) == 60 and len(found.refusals) == 21


def test_a_batch_without_pushes_has_no_rows():
    assert decoded().sizes == []
