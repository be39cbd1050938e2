"""`weir pipeline run` with a table that fails: what it tells, its status, and that it goes on; and what it
tells of records that came meanwhile. Each run is a process of its own, as users start it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")

from confluent_kafka import Producer
from deltalake import DeltaTable

from benchmarks.pipeline import OPEN_BROKER, WEIR, broker
from pipeline.formats import REQUESTS
from pipeline.gold.usage import USAGE
from tests.pipeline.events import record, request
from tests.pipeline.killing import ENDED_WITHIN_S, SPARK

SILENT: Final = ("events.topics=", "log.retention.ms=-1")
FAILED: Final = "gold.usage_per_minute failed"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with broker(tmp_path / "data", sys.executable, "-c", OPEN_BROKER, overrides=SILENT) as address:
        yield address


def send(address: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for at in range(first, first + count):
        topic, _, _, time_, value, headers = record(REQUESTS, at, request(1, requests=1))
        producer.produce(topic, value, timestamp=round(time_.timestamp() * 1_000), headers=headers)
    assert producer.flush(30) == 0


def started(address: str, root: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [WEIR, "pipeline", "run", *arguments, "--bootstrap", address, "--warehouse", root]
    command += ["--master", "local[2]", *(f"--spark={each}" for each in SPARK)]
    return subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    output, _ = process.communicate(timeout=ENDED_WITHIN_S)
    assert "\x1b" not in output
    return process.returncode, output.splitlines()


def used(root: Path) -> int:
    return sum(DeltaTable(root / USAGE.path).to_pyarrow_table()["requests"].to_pylist())


def test_runs_beside_a_table_that_fails(address, tmp_path):
    root = tmp_path / "warehouse"
    in_the_way = root / USAGE.path
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("")
    send(address, 0, 5)
    status, lines = ended(started(address, root, "--once"))
    assert status == 1
    assert lines[0] == f"Looking for {address}"
    assert sum(FAILED in line for line in lines) >= 1
    assert "No records are left." in lines
    assert lines[-1].startswith(f"Error: {FAILED}")
    # A continuous one warns at each batch, and goes on.
    with started(address, root, "--continuous", "--every", "0", "--maintain-every", "0") as process:
        assert process.stdout is not None
        warned = 0
        for line in process.stdout:
            if line.startswith("From "):
                send(address, 5, 1)
            if FAILED in line:
                warned += 1
                if warned == 3:
                    break
                send(address, 5 + warned, 1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert (process.returncode, warned) == (130, 3)
    in_the_way.unlink()
    status, lines = ended(started(address, root, "--once"))
    assert (status, lines[-1]) == (0, "No records are left.")
    assert not any("Warning" in line for line in lines)
    assert used(root) == 8


MEANWHILE: Final = """
import subprocess, sys
from pipeline import streaming
made = streaming.Stream._make_days
def make_days(stream):
    made(stream)
    print("SEND", flush=True)
    sys.stdin.readline()
streaming.Stream._make_days = make_days
from broker.__main__ import main
main()
"""
"""A run that waits at its end, until the test has sent more."""


def test_records_that_came_while_it_ran_are_told(address, tmp_path):
    send(address, 0, 5)
    run = ("pipeline", "run", "--once", "--bootstrap", address, "--warehouse", str(tmp_path / "warehouse"))
    command = [sys.executable, "-c", MEANWHILE, *run, "--master", "local[2]"]
    with subprocess.Popen(
        [*command, *(f"--spark={each}" for each in SPARK)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        next(line for line in process.stdout if line == "SEND\n")
        send(address, 5, 1_000)
        output, _ = process.communicate("go on\n", timeout=ENDED_WITHIN_S)
    assert process.returncode == 0
    assert "No records are left" not in output
    assert "1,000 came meanwhile, for the next run." in output
