"""Faults that the broker cannot live with: it says what failed, leaves with a status, and loses nothing.

Each runs the command line with one fault built in.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import TOKEN
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import running_broker
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

RUN = "\nfrom broker.__main__ import main\nmain()\n"

BROKEN_FLUSHER = """
import os
import broker.log.store as store
flushes = store.LogStore.due_flushes
def due_flushes(self, now):
    if os.path.exists(MARK):
        raise RuntimeError("a fault of ours")
    return flushes(self, now)
store.LogStore.due_flushes = due_flushes
"""

BROKEN_HANDLER = """
import broker.log.partition as partition
from broker.common.errors import FatalExitError
stage = partition.PartitionLog.stage
def staged(self, batch, *args, **rest):
    if self.high_watermark == 3:
        raise FatalExitError("this log is not ours", status=7)
    return stage(self, batch, *args, **rest)
partition.PartitionLog.stage = staged
"""

BROKEN_LISTENER = """
import broker.server.listeners as listeners
update = listeners.QuotaListener.on_metadata_update
def updated(self, old, new, delta):
    if delta.quotas:
        raise KeyError("no such manager")
    return update(self, old, new, delta)
listeners.QuotaListener.on_metadata_update = updated
"""


class Run:
    """A broker with a fault, started as an operator does."""

    def __init__(self, directory: Path, fault: str) -> None:
        settings = [
            "listeners=PLAINTEXT://127.0.0.1:0",
            f"log.dirs={directory / 'data'}",
            "console.listener=127.0.0.1:0",
            "log.flush.scheduler.interval.ms=50",
        ]
        self.mark = directory / "mark"
        code = fault.replace("MARK", repr(str(self.mark))) + RUN
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *(f"--override={setting}" for setting in settings)],
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        greeting = ""
        while "REST:" not in greeting:
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            greeting += line
        ports = re.findall(r"127\.0\.0\.1:(\d+)", greeting)
        self.port, self.console = int(ports[0]), int(ports[-1])

    def ended(self) -> tuple[int, list[str]]:
        """Its status, and what it said on standard error."""
        _, output = self.process.communicate(timeout=60)
        return self.process.returncode, output.splitlines()


@contextlib.contextmanager
def running(directory: Path, fault: str) -> Iterator[Run]:
    run = Run(directory, fault)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGKILL)
            run.process.communicate()


async def acknowledged(port: int, records: int) -> None:
    client = await connect(port)
    assert (await client.ask(create_topic(), 5)).topics[0].error_code == 0
    for number in range(records):
        answer = await client.ask(produce_request(batch_of(b"%d" % number)), PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0


async def kept(directory: Path) -> int:
    """Records that the next start finds."""
    async with running_broker(directory / "data") as broker:
        log = broker.server.partitions.log("events", 0)
        return 0 if log is None else log.high_watermark


async def test_a_task_that_fails_is_named_and_what_was_acknowledged_is_kept(tmp_path: Path) -> None:
    with running(tmp_path, BROKEN_FLUSHER) as run:
        await acknowledged(run.port, 5)
        run.mark.touch()
        status, output = run.ended()
    assert status == 1
    assert output[-1] == "weir: log-flusher failed: RuntimeError: a fault of ours"
    assert any("CRITICAL" in line and "the broker stops" in line for line in output)
    assert await kept(tmp_path) == 5


async def test_a_fatal_error_of_a_handler_ends_the_process_with_its_status(tmp_path: Path) -> None:
    """FatalExitError ends the process. (Kafka: KafkaRequestHandler)"""
    with running(tmp_path, BROKEN_HANDLER) as run:
        await acknowledged(run.port, 3)
        client = await connect(run.port)
        await client.send(produce_request(batch_of(b"one too many")), PRODUCE_VERSION)
        assert await client.is_closed()
        status, output = run.ended()
    assert status == 7
    assert re.fullmatch(r"weir: data-plane-kafka-request-handler-\d failed: this log is not ours", output[-1])
    assert await kept(tmp_path) == 3


def set_a_quota(console: int) -> None:
    """Asks for it; whether it is answered is open."""
    op = {"key": "producer_byte_rate", "value": 1000}
    body = {"entries": [{"entity": {"client-id": "greedy"}, "ops": [op]}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{console}/api/v1/client-quotas",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        method="PATCH",
    )
    with contextlib.suppress(urllib.error.URLError, http.client.HTTPException, ConnectionError):
        urllib.request.urlopen(request, timeout=10)


async def test_a_change_that_cannot_be_followed_ends_the_process_and_holds_after_the_next_start(
    tmp_path: Path,
) -> None:
    """From the console, whose framework would answer 500 and go on."""
    with running(tmp_path, BROKEN_LISTENER) as run:
        set_a_quota(run.console)
        status, output = run.ended()
    assert status == 1
    assert "could not be applied: KeyError: 'no such manager'" in output[-1]
    async with running_broker(tmp_path / "data") as broker:
        assert broker.server.control.image.quotas
