"""Starts that must not succeed: one line that says why, and a broker that is running does not notice;
and what the signals of a terminal do.
"""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import WEIR, BrokerProcess
from tests.support.hostile import is_served
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend


def refusal(directory: Path, listener: str) -> list[str]:
    """The lines in which a second broker says why it does not start."""
    settings = [f"log.dirs={directory}", f"listeners=PLAINTEXT://{listener}", "console.listener="]
    command = [str(WEIR), "serve", *(f"--override={setting}" for setting in settings)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    return ended.stderr.splitlines()


async def test_a_directory_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        (line,) = refusal(tmp_path, "127.0.0.1:0")
        assert line.startswith("weir: ") and "another broker is using this directory" in line
        assert await is_served(client)
        await client.stream.aclose()


async def test_an_address_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as broker:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        (line,) = refusal(tmp_path / "two", broker.plain)
        assert line.startswith("weir: listeners=") and "Address already in use" in line
        assert await is_served(client)
        await client.stream.aclose()


def started(directory: Path, *before: str) -> subprocess.Popen[str]:
    """A broker of its own that serves, started by the command `before`, if any."""
    settings = [f"log.dirs={directory}", "listeners=PLAINTEXT://127.0.0.1:0", "console.listener="]
    command = [*before, str(WEIR), "serve", *(f"--override={setting}" for setting in settings)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None and process.stdout.readline().startswith("Kafka:")
    return process


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_terminal_that_closes_stops_the_broker_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(20) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_under_nohup_nobody_minds_that_the_terminal_closes(tmp_path: Path) -> None:
    with started(tmp_path, "nohup") as process:
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.terminate()
        assert process.wait(20) == 0
