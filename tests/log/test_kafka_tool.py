"""Kafka's own dump tool reads what the log writes. Needs Java, and Kafka's jars where WEIR_KAFKA_LIBS says:

mvn dependency:copy-dependencies -DoutputDirectory=DIR    # of kafka_2.13 and kafka-tools
"""

import os
import subprocess
from pathlib import Path

import pytest

from broker.records.build import NewRecord, build_batch
from broker.records.compression import Codec
from tests.log.cleaner.harness import (
    clean,
    close_segment,
    compacted,
    end,
    headers,
    put,
    put_in_transaction,
)
from tests.log.harness import NOW, append, batch, log_files, make, open_store

LIBS = os.environ.get("WEIR_KAFKA_LIBS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LIBS, reason="WEIR_KAFKA_LIBS does not say where Kafka's jars are"),
]


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    names = ",".join(str(file) for file in files)
    tool = ("java", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments")
    command = [*tool, "--files", names, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    """Five segments, all codecs, two producers, one restart in the middle."""
    where = tmp_path_factory.mktemp("kafka") / "data"
    for life in range(2):
        store, _ = open_store(where)
        log = make(store, segment_bytes=40_000)
        for at in range(600):
            time = NOW + (life * 600 + at) * 10
            append(log, batch(b"v" * (at % 200), b"w", timestamp=time, producer=(7, life, 2 * at)))
            if at % 50 == 0:
                for codec in Codec:
                    new = [NewRecord(b"key", b"x" * 500, time + each, (("h", b"1"),)) for each in range(5)]
                    append(log, build_batch(new, codec=codec))
        store.close()
    assert len(log_files(where)) > 4
    return where


def test_every_record_is_read(where):
    files = log_files(where)
    output = dump(*files, options=("--print-data-log", "--deep-iteration"))
    assert output.count("| offset: ") == 2 * (600 * 2 + 12 * 5 * 5)
    assert "isvalid: false" not in output and "CORRUPT" not in output.upper()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in output


def test_the_offset_indexes_agree_with_the_segments(where):
    files = log_files(where, suffix=".index")
    output = dump(*files)
    assert "Mismatches" not in output and "not found" not in output and output.count("offset: ") > 20
    sane = dump(*files, options=("--index-sanity-check",))
    assert sane.count("passed sanity check") == len(files)


def test_the_time_indexes_agree_with_the_segments(where):
    files = log_files(where, suffix=".timeindex")
    output = dump(*files)
    assert "Found timestamp mismatch" not in output and "out of order" not in output
    assert output.count("timestamp: ") > 20
    sane = dump(*files, options=("--index-sanity-check",))
    assert sane.count("passed sanity check") == len(files)


def test_the_snapshots_are_read(where):
    output = dump(log_files(where, suffix=".snapshot")[-1])
    assert "producerId: 7 producerEpoch: 1" in output and "lastSequence: 1199" in output


def test_a_compacted_log_is_read(tmp_path):
    """Batches with holes, delete horizons, empty batches, markers, in every codec."""
    where = tmp_path / "data"
    store, _ = open_store(where)
    log = compacted(store, segment_bytes=4_000, delete_retention_ms=60_000)
    for at in range(200):
        put(
            log,
            (f"key-{at % 9}", None if at % 8 == 5 else "v" * (at % 60)),
            (f"once-{at}", "w"),
            codec=Codec(at % 5),
        )
        if at % 10 == 7:
            put_in_transaction(log, (7, 0, at // 10), ("key-1", "in a transaction"))
            end(log, 7, is_commit=at % 20 == 7)
        put(log, ("key-2", "again"), producer=(8, 0, at))
    close_segment(log)
    clean(store, log)
    store.close()
    files = log_files(where)
    output = dump(*files, options=("--print-data-log", "--deep-iteration"))
    assert "isvalid: false" not in output and "CORRUPT" not in output.upper()
    again, _ = open_store(where)
    assert output.count("| offset: ") == sum(each.record_count for each in headers(compacted(again)))
    again.close()
    assert "deleteHorizonMs: OptionalLong[" in output and "count: 0 " in output
    assert "Misindexed" not in dump(*log_files(where, suffix=".index"))
