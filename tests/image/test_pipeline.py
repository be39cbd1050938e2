"""The pipeline's image: Spark makes tables of a file and of a broker's topics, and stops when it is told."""

import json
import time
from pathlib import Path
from typing import Final

import pytest

from broker.common.version import VERSION
from tests.image.containers import COMMIT, HARDENED, Engine, labels

pytestmark = pytest.mark.image

REQUEST: Final = {
    "v": 1,
    "time_ms": 1763726401000,
    "source": "client",
    "principal": "alice",
    "client_id": "a",
    "api": "Produce",
    "requests": 1,
}
EVENT: Final = {
    "topic": "__weir_requests",
    "partition": 0,
    "offset": 0,
    "timestamp_ms": 1763726401000,
    "value": json.dumps(REQUEST),
}
ALIVE: Final = "/tmp/weir-pipeline-alive"
TABLES_WITHIN_S: Final = 120.0


def test_a_file_of_events_becomes_tables(engine: Engine, pipeline_image: str, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps(EVENT) + "\n", encoding="utf-8")
    events.chmod(0o644)
    both = "weir pipeline backfill /events.jsonl --warehouse t && weir pipeline tables --warehouse t"
    ended = engine.run(
        pipeline_image, "sh", "-c", both, options=("--network=none", f"--volume={events}:/events.jsonl:ro")
    )
    assert ended.returncode == 0, ended.stderr
    rows = dict(line.split()[:2] for line in ended.stdout.splitlines() if line.startswith("gold."))
    assert rows["gold.usage_per_minute"] == "1", ended.stdout


def test_a_brokers_topics_become_tables_until_it_is_stopped(
    engine: Engine, image: str, pipeline_image: str
) -> None:
    with engine.started(image, options=HARDENED) as broker:
        broker.await_health()
        network = f"--network=container:{broker.name}"
        arguments = ("run", "--continuous", "--bootstrap=localhost:9092", "--warehouse=tables")
        with engine.started(pipeline_image, *arguments, options=(network,)) as pipeline:
            give_up = time.monotonic() + TABLES_WITHIN_S
            first_commit = "tables/bronze/events/_delta_log/00000000000000000000.json"
            while pipeline.exec("test", "-e", first_commit).returncode:
                assert time.monotonic() < give_up, "no table was made"
                time.sleep(0.5)
            check = pipeline.health_check()
            assert pipeline.exec("cat", ALIVE).returncode == pipeline.exec(*check).returncode == 0
            pipeline.exec("touch", "-d", "20 minutes ago", "/tmp/old")
            assert pipeline.exec("env", "WEIR_PIPELINE_ALIVE=/tmp/old", *check).returncode == 1
            assert pipeline.stop() == 130


def test_the_image_says_what_it_is_and_consists_of(engine: Engine, pipeline_image: str) -> None:
    named = labels(engine, pipeline_image)
    assert (named["title"], named["version"], named["revision"]) == ("weir-pipeline", VERSION, COMMIT)
    bill = engine.run(pipeline_image, "cat", "/opt/weir/share/weir.cdx.json").stdout
    names = {each["name"].replace("_", "-") for each in json.loads(bill)["components"]}
    assert {"pyspark", "delta-spark", "deltalake"} <= names


def test_a_command_that_is_no_stream_is_healthy(engine: Engine, pipeline_image: str) -> None:
    with engine.started(pipeline_image, "1000", options=("--entrypoint=sleep",)) as container:
        assert container.exec(*container.health_check()).returncode == 0
