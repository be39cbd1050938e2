"""A topic that was deleted and made anew ends the stream, before anything of it is written."""

import sys

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.pipeline import OPEN_BROKER, broker
from pipeline.formats import REQUESTS
from pipeline.offsets import OffsetCheck, TopicMadeAnewError, check_offsets, parsed, records_between
from pipeline.streaming import Stream
from pipeline.tables import Warehouse
from tests.pipeline.everything import contents, some_of_everything
from tests.pipeline.test_kills import SILENT

PLACE = ("t", 0)


@pytest.mark.parametrize("end", [4, 5, 6])
def test_offsets_may_stay_and_grow_and_not_go_back(end):
    if end < 5:
        with pytest.raises(TopicMadeAnewError, match=r"topic t .* offset 4 and was read up to 5"):
            check_offsets({PLACE: 5}, {PLACE: 5}, {PLACE: end})
    else:
        check_offsets({PLACE: 5}, {PLACE: 5}, {PLACE: end})


def test_a_partition_that_was_gone_is_not_the_one_that_was_read():
    with pytest.raises(TopicMadeAnewError):
        check_offsets({PLACE: 5}, {}, {PLACE: 9})


def test_a_partition_that_was_not_read_yet_may_come():
    check_offsets({PLACE: 5}, {PLACE: 5}, {PLACE: 5, ("t", 1): 9})
    check_offsets({PLACE: 0}, {}, {PLACE: 9})


@pytest.mark.parametrize(
    ("last", "expected"), [({PLACE: 9}, 0), ({PLACE: 8}, 1), ({}, 9), ({PLACE: 8, ("t", 1): 3}, 1)]
)
def test_the_records_of_a_batch_are_between_its_offsets_and_the_last(last, expected):
    assert records_between(last, {PLACE: 9}) == expected


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\n{}\n-"])
def test_a_batch_without_offsets_has_none(text):
    assert parsed(text) == {}


def test_the_offsets_of_all_kept_batches_count(spark, tmp_path):
    (tmp_path / "offsets").mkdir()
    for batch, text in enumerate(('{"t":{"0":5}}', "{}", '{"t":{"0":3}}')):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{text}")
    check = OffsetCheck(spark, str(tmp_path))
    assert [check.check(batch) for batch in (0, 1)] == [5, 0]
    with pytest.raises(TopicMadeAnewError, match="offset 3"):
        check.check(2)
    with pytest.raises(TopicMadeAnewError, match="offset 3"):
        OffsetCheck(spark, str(tmp_path)).check(2)


def test_a_topic_made_anew_ends_the_stream_and_writes_nothing(spark, tmp_path):
    with broker(tmp_path / "data", sys.executable, "-c", OPEN_BROKER, overrides=SILENT) as address:
        _send(address, 9)
        root = str(tmp_path / "warehouse")
        assert list(Stream(Warehouse(spark, root), address, {}, 1_000).once())
        before = contents(root)
        _make_anew(address)
        _send(address, 4)
        for _ in range(2):
            with pytest.raises(TopicMadeAnewError, match=f"topic {REQUESTS} was deleted and made anew"):
                list(Stream(Warehouse(spark, root), address, {}, 1_000).once())
            assert contents(root) == before


def _send(address, records):
    producer = Producer({"bootstrap.servers": address})
    for topic, partition, _, time_, value, headers in some_of_everything()[:records]:
        at_ms = round(time_.timestamp() * 1_000)
        producer.produce(topic, value, partition=partition, timestamp=at_ms, headers=headers)
    assert producer.flush(30) == 0


def _make_anew(address):
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.delete_topics([REQUESTS]).values():
        done.result(30)
    for done in admin.create_topics([NewTopic(REQUESTS, 1, 1)]).values():
        done.result(30)
