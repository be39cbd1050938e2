"""Fields of protobuf messages as arrays, with few messages and with many, and of every size of number."""

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import Histogram, Metric, NumberDataPoint

from pipeline.otlp.wire import HUGE, LANES, Buffer, read_fields


def read(*messages):
    ends = np.cumsum([len(each) for each in messages])
    return read_fields(Buffer(b"".join(messages)), ends - np.diff(ends, prepend=0), ends)


@pytest.mark.parametrize("count", [1, LANES - 1, LANES, LANES + 1, 3 * LANES])
def test_each_message_has_its_own_fields_in_order(count):
    messages = []
    for number in range(count):
        point = NumberDataPoint(flags=number, time_unix_nano=2**64 - 1 - number)
        for each in range(number % 4):
            point.attributes.add(key="k" * each)
        messages.append(point.SerializeToString())
    fields = read(*messages)
    assert (np.diff(fields.at) > 0).all()
    assert np.bincount(fields.of(0x3A).message, minlength=count).tolist() == [
        each % 4 for each in range(count)
    ]
    assert fields.of(0x19).numbers.tolist() == [2**64 - 1 - each for each in range(count)]
    # Zero is not written.
    assert fields.of(0x40).numbers_by(np.arange(count), count).tolist() == list(range(count))


@pytest.mark.parametrize("copies", [1, LANES + 1])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_texts_of_every_length_are_enclosed(size, copies):
    if copies * size > 4_000_000:
        copies = 1
    fields = read(*[Metric(name="x" * size, unit="ms").SerializeToString()] * copies)
    names = fields.of(0x0A)
    assert (names.ends - names.starts).tolist() == ([size] * copies if size else [])
    assert len(fields.of(0x1A).at) == copies


@pytest.mark.parametrize("copies", [1, LANES + 1])
@pytest.mark.parametrize("value", [1, 127, 128, 2**14 - 1, 2**14, 2**21, 2**28, 2**31 - 1])
def test_varints_of_every_length_are_numbers(value, copies):
    fields = read(*[Histogram(aggregation_temporality=value).SerializeToString()] * copies)
    assert fields.numbers.tolist() == [value] * copies
    fields = read(*[Histogram(aggregation_temporality=-value).SerializeToString()] * (LANES + copies))
    assert fields.numbers.tolist() == [HUGE] * (LANES + copies)
    assert (fields.ends - fields.starts == 10).all()


def test_messages_without_fields_have_none():
    assert len(read(b"", b"").at) == 0
    assert read(b"", Metric(name="m").SerializeToString(), b"").message.tolist() == [1]
